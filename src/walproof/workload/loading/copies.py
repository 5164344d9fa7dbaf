"""COPY of rows that the driver writes out, as text or binary, or of bytes that are ready. It is one
transaction unless there are batches; ``target.first`` begins it."""

from __future__ import annotations

from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session


def copy_rows(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """Python values as text, row by row."""
    for batch in rows.batches(batch_rows):
        with session.transaction(), session.cursor() as cursor:
            _begin(session, target)
            with cursor.copy(target.copy()) as copy:
                for row in batch:
                    copy.write_row(row)


def copy_binary(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """Python values in binary, row by row. The server converts nothing, so types have to be its own."""
    for batch in rows.batches(batch_rows):
        with session.transaction(), session.cursor() as cursor:
            _begin(session, target)
            with cursor.copy(target.copy("FORMAT binary")) as copy:
                copy.set_types(target.bases)
                for row in batch:
                    copy.write_row(row)


def copy_ready(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """Bytes in COPY's text format, as a file has them."""
    if batch_rows is None:
        with session.transaction(), session.cursor() as cursor:
            _begin(session, target)
            with cursor.copy(target.copy()) as copy:
                for block in rows.blocks():
                    copy.write(block)
        return
    for lines in rows.line_batches(batch_rows):
        with session.cursor() as cursor, cursor.copy(target.copy()) as copy:
            copy.write(lines)


def _begin(session: Session, target: LoadTarget) -> None:
    for statement in target.first:
        session.execute(statement.encode())
