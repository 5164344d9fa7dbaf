"""Many rows in one INSERT: as a list of VALUES, or as arrays."""

from __future__ import annotations

from walproof.sqltext import for_parameters
from walproof.workload.loading.load_target import NATIVE, LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session

PARAMETERS_MOST = 65_535
"""The most parameters of one statement: their number has 16 bits in the protocol."""


def values(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """``VALUES (..), (..)`` with as many rows as the batch has and parameters allow; each is a
    transaction."""
    most = PARAMETERS_MOST // len(target.columns)
    size = min(batch_rows or most, most)
    head = f"{target.insert_into} VALUES "
    full = (head + target.placeholders(size)).encode()
    for batch in rows.batches(size):
        statement = full if len(batch) == size else (head + target.placeholders(len(batch))).encode()
        session.execute(statement, [value for row in batch for value in row])


def unnest(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """``SELECT .. FROM unnest(array, array)``: a parameter for each column, whatever the rows."""
    kinds = [
        kind if base in NATIVE else "text" for kind, base in zip(target.types, target.bases, strict=True)
    ]
    arrays = ", ".join(f"%s::{for_parameters(kind)}[]" for kind in kinds)
    names = ", ".join(f"c{number}" for number in range(len(kinds)))
    chosen = for_parameters(", ".join(f"c{number}::{kind}" for number, kind in enumerate(target.types)))
    statement = f"{target.insert_into} SELECT {chosen} FROM unnest({arrays}) AS u({names})".encode()
    for batch in rows.batches(batch_rows):
        session.execute(statement, [list(column) for column in zip(*batch, strict=True)])
