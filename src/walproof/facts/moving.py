"""Whole runs leave a store or come into another: their rows as they are, in one transaction.

Nothing else of a store is ever changed or removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.tables import (
    METRIC,
    POWER_CUT,
    REQUEST,
    REQUEST_ANSWER,
    RUN,
    RUN_END,
    SERIES,
    SLICE,
    TRIAL,
    TRIAL_BEGIN,
)

_PARTS = (RUN_END, REQUEST, REQUEST_ANSWER, TRIAL_BEGIN, TRIAL, METRIC, SERIES, POWER_CUT, SLICE)
"""Tables with rows of a run, each after those that it refers to."""
_BATCH = 1000

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Name of a table -> its rows of one run, without the run's id."""


class Copied(Enum):
    """What became of a run that was to be copied."""

    NEW = "copied"
    MORE = "brought up to date"
    """An earlier copy had fewer trials, or no end."""
    THERE = "is there already"


@dataclass(frozen=True, slots=True)
class CopiedRun:
    """A run in the store that it was copied to."""

    id: str
    """Its id there: another where that one was taken by another run."""
    outcome: Copied
    trials: int


_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,199}")


def checked_id(name: object) -> str:
    """The id of a run as a store has it. Raises StoreError for one that walproof has not given.

    Pages and locks are files of that name, and a store may be a stranger's: none leads elsewhere.
    """
    if isinstance(name, str) and _ID.fullmatch(name):
        return name
    raise StoreError(
        "the store has a run with an id that walproof does not give",
        detail=f"The id is {str(name)[:80]!r}; ids have small letters, digits and dashes.",
        hint="Somebody else has written it, and nothing of this store is used.",
    )


def free_id(connection: sa.Connection, study: str, digest: str) -> str:
    """An id that no run of that plan has."""
    base = f"{study}-{digest[:8]}"
    numbers = [
        int(number or 1)
        for taken in connection.scalars(sa.select(RUN.c.id).where(RUN.c.plan_hash == digest))
        for number in re.findall(rf"^{re.escape(base)}(?:-(\d+))?$", taken)
    ]
    return f"{base}-{max(numbers) + 1}" if numbers else base


def read_rows(connection: sa.Connection, run_id: str) -> Rows:
    """Every row of a run."""
    found = {RUN.name: _rows(connection.execute(sa.select(RUN).where(RUN.c.id == run_id)), "id")}
    for table in _PARTS:
        result = connection.execute(sa.select(table).where(table.c.run_id == run_id))
        found[table.name] = _rows(result, "run_id")
    return found


def write_rows(connection: sa.Connection, run_id: str, rows: Rows) -> CopiedRun:
    """Put a run of another store beside those that are here. Raises StoreError where it went on in both, and
    for an id that cannot be one."""
    (run,) = rows[RUN.name]
    there = same_run(connection, rows)
    trials = len(rows[TRIAL.name])
    if there is not None:
        if not _is_more(connection, there, rows):
            return CopiedRun(there, Copied.THERE, trials)
        delete_rows(connection, there)
    taken = connection.scalar(sa.select(RUN.c.id).where(RUN.c.id == run_id)) is not None
    new = checked_id(there or (free_id(connection, run["study"], run["plan_hash"]) if taken else run_id))
    connection.execute(RUN.insert().values(id=new, **run))
    for table in _PARTS:
        own = rows[table.name]
        for begin in range(0, len(own), _BATCH):
            connection.execute(
                table.insert(), [{**row, "run_id": new} for row in own[begin : begin + _BATCH]]
            )
    return CopiedRun(new, Copied.NEW if there is None else Copied.MORE, trials)


def same_run(connection: sa.Connection, rows: Rows) -> str | None:
    """The id of the run here that this one is a copy of; None without one."""
    (run,) = rows[RUN.name]
    parts = ("plan_hash", "created_at", "environment")
    same = [RUN.c[name] == run[name] for name in parts]
    return connection.scalar(sa.select(RUN.c.id).where(*same))


def delete_rows(connection: sa.Connection, run_id: str) -> None:
    """Remove every row of a run."""
    for table in reversed(_PARTS):
        connection.execute(table.delete().where(table.c.run_id == run_id))
    connection.execute(RUN.delete().where(RUN.c.id == run_id))


def _is_more(connection: sa.Connection, there: str, rows: Rows) -> bool:
    """Whether these rows have all that is there, and more. Raises StoreError where each has its own."""
    trials = sa.select(TRIAL.c.number, TRIAL.c.started_at).where(TRIAL.c.run_id == there)
    own = {(row.number, row.started_at) for row in connection.execute(trials)}
    other = {(row["number"], row["started_at"]) for row in rows[TRIAL.name]}
    end = sa.select(RUN_END.c.run_id).where(RUN_END.c.run_id == there)
    ended, other_ended = connection.scalar(end) is not None, bool(rows[RUN_END.name])
    if own >= other and ended >= other_ended:
        return False
    if own <= other and ended <= other_ended:
        return True
    raise StoreError(
        f"run {there} went on in both stores after it was copied",
        hint='Remove one of them with "walproof runs remove", or copy to another store.',
    )


def _rows(result: Iterable[sa.Row[Any]], but: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row._mapping.items() if name != but} for row in result]
