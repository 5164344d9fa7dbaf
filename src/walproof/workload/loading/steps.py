"""What is done to a table before and after a load, how it is undone, and what a table does not allow.

Everything is undone from what the catalogs said before: names, definitions, and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.facts import LoadMethod, LoadStep
from walproof.workload.loading import arrow
from walproof.workload.loading.load_target import NATIVE
from walproof.workload.loading.table import LoadedColumn, LoadedTable

_MERGE_FROM = 150000
_NOT_VALID_FROM = 180000
"""First version in which a foreign key of a partitioned table may be NOT VALID (commit b663b9436e)."""

_ENABLE = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA"}


@dataclass(frozen=True, slots=True)
class Around:
    """Statements before the load, at the beginning of its transaction, and after it."""

    before: tuple[str, ...]
    first: tuple[str, ...]
    after: tuple[str, ...]
    is_frozen: bool


def around(table: LoadedTable, steps: Sequence[LoadStep], replay: str | None, version_num: int) -> Around:
    """The statements of these steps for ``table``."""
    before: list[str] = []
    after: list[str] = []
    name = table.name
    if "triggers off" in steps:
        # By name: ENABLE TRIGGER USER would wake those that are disabled, and forget ALWAYS and REPLICA.
        before += [f"ALTER TABLE {name} DISABLE TRIGGER {trigger.name}" for trigger in table.triggers]
    if "late foreign keys" in steps:
        before += [f"ALTER TABLE {name} DROP CONSTRAINT {key.constraint.name}" for key in table.foreign_keys]
    if "late indexes" in steps:
        before += [
            f"ALTER TABLE {name} DROP CONSTRAINT {constraint.name}" for constraint in table.key_constraints
        ]
        before += [f"DROP INDEX {index.name}" for index in table.indexes]
    if "unlogged" in steps:
        before.append(f"ALTER TABLE {name} SET UNLOGGED")
        # This comes first, so that what is built afterwards is written only once.
        after.append(f"ALTER TABLE {name} SET LOGGED")
    if "late indexes" in steps:
        only = "ONLY " if table.is_partitioned else ""
        for constraint in table.key_constraints:
            after.append(f"ALTER TABLE {only}{name} ADD CONSTRAINT {constraint.name} {constraint.sql}")
            after += constraint.then
        for index in table.indexes:
            after += [index.sql, *index.then]
    if "late foreign keys" in steps:
        has_not_valid = not table.is_partitioned or version_num >= _NOT_VALID_FROM
        for key in table.foreign_keys:
            words = f"ALTER TABLE {name} ADD CONSTRAINT {key.constraint.name} {key.constraint.sql}"
            # What was not checked before stays so, as old rows may not meet it.
            is_checked = not words.endswith((" NOT VALID", " NOT ENFORCED"))
            after.append(f"{words} NOT VALID" if has_not_valid and is_checked else words)
            if has_not_valid and is_checked:
                after.append(f"ALTER TABLE {name} VALIDATE CONSTRAINT {key.constraint.name}")
            after += key.constraint.then
    if "triggers off" in steps:
        after += [replay] if replay else []
        for trigger in table.triggers:
            after.append(f"ALTER TABLE {name} {_ENABLE[trigger.enabled]} TRIGGER {trigger.name}")
            after += trigger.then
    return Around(
        tuple(before),
        (f"TRUNCATE {name}",) if "truncate" in steps else (),
        tuple(after),
        "freeze" in steps,
    )


def unavailable(method: LoadMethod, version_num: int) -> str | None:
    """What this version or this machine lacks for the method, whatever the table; None if it lacks
    nothing."""
    if method.feed == "merge" and version_num < _MERGE_FROM:
        return "MERGE exists from PostgreSQL 15"
    if method.feed == "adbc" and not arrow.is_there():
        return "adbc-driver-postgresql and pyarrow are not installed (extra: arrow)"
    return None


def obstacle(
    table: LoadedTable,
    columns: Sequence[LoadedColumn],
    method: LoadMethod,
    version_num: int,
    replay: str | None,
    *,
    is_filled: bool,
) -> str | None:
    """Why ``table`` cannot be loaded by this method on this version; None if it can. ``is_filled``: it holds
    rows that have to stay."""
    steps = method.steps
    if is_filled and any(step in steps for step in ("truncate", "freeze")):
        return "the table holds rows, which TRUNCATE would remove and FREEZE does not allow"
    if is_filled and "unlogged" in steps:
        return "the table holds rows, which a crash would remove while it is unlogged"
    if is_filled and "triggers off" in steps:
        return "the table holds rows, for which its triggers have already run"
    if (reason := unavailable(method, version_num)) is not None:
        return reason
    if method.feed in ("stage", "merge") and not table.keys:
        return "the table has no unique key to find rows by"
    if method.feed == "copy binary":
        for column in columns:
            if column.base not in NATIVE:
                return f"column {column.name} has type {column.type}, which the client cannot write in binary"
    if method.feed == "adbc":
        for column in columns:
            if column.base not in arrow.TYPES:
                return f"column {column.name} has type {column.type}, which Arrow does not have"
    if table.is_partitioned and ("freeze" in steps or "unlogged" in steps):
        return "COPY FREEZE and UNLOGGED are not for partitioned tables"
    if table.is_referenced and any(step in steps for step in ("truncate", "unlogged", "late indexes")):
        return "another table has a foreign key to it"
    if table.is_unlogged and "unlogged" in steps:
        return "the table is unlogged already"
    if "late indexes" in steps and not (table.indexes or table.key_constraints):
        return "the table has no indexes"
    if table.points_to_itself and "late indexes" in steps and "late foreign keys" not in steps:
        return "a foreign key of its own points at its key: late foreign keys has to come along"
    if "late foreign keys" in steps and not table.foreign_keys:
        return "the table has no foreign keys"
    if "triggers off" in steps and not table.triggers:
        return "the table has no triggers"
    if "triggers off" in steps and replay is None:
        return "nothing says what its triggers do for the whole table (replay)"
    return None
