"""What is said where autovacuum does not get through, and the server comes near to taking no transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from walproof.advise.server.advice import Advice, Sure, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.horizon import LONG, say_holder
from walproof.sentences import say_list
from walproof.sqltext import visible

FAR = 10**9
"""An age from which on a table or database that is due is a danger, whatever the limit: nearly half way."""
LATE_TIMES = 2.0
"""So many times its limit old, autovacuum has evidently not got through."""
LEAST_LATE = 10**8
"""Below it a limit is passed between two rounds of autovacuum on a busy server."""
_STOP = 2**31 - 3_000_000
"""The age at which the server assigns no more ids of transactions or multixacts (SetTransactionIdLimit,
varsup.c; a little later in 13)."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Late:
    name: str
    age: int
    is_table: bool
    kind: str
    """``transaction`` or ``multixact``."""


def overdue(case: ServerCase) -> Advice | None:
    """Tables and databases so far past their vacuum against wraparound that it evidently does not get
    through; None where there are none. Source: manual, "Preventing Transaction ID Wraparound Failures"."""
    late = sorted(_late(case), key=lambda one: -one.age)
    if not late:
        return None
    worst = late[0]
    left = max(0, _STOP - worst.age)
    named = visible(say_list([f"{one.name} ({one.age:,} {one.kind}s old)" for one in late[:_NAMED]]))
    prepared = max((one.freeze_age for one in case.window.prepared), default=0)
    return Advice(
        "freezing",
        Weight.DANGER,
        "VACUUM what is past its vacuum against wraparound, before the server takes no more transactions",
        (
            f"Not frozen for long: {named}. Autovacuum should have done it, and has not got through.",
            f"After about {left:,} more {worst.kind}s the server refuses every statement that needs one.",
            "VACUUM cannot freeze what an old session, slot, standby or prepared transaction may still need: "
            "end that first.",
            *(
                f"The oldest of these: {say_holder(one)}."
                for one in case.window.horizon[:1]
                if one.age >= max(LONG, prepared)
            ),
        ),
        steps=(
            "-- who holds it back, beside prepared transactions:",
            "SELECT pid, state, xact_start, greatest(age(backend_xmin), age(backend_xid)) "
            "FROM pg_stat_activity ORDER BY 4 DESC NULLS LAST LIMIT 5;",
            "SELECT slot_name, active, age(xmin), age(catalog_xmin) FROM pg_replication_slots;",
            "-- then VACUUM, and not VACUUM (FREEZE), which does more than is needed:",
            *_vacuums(case, late),
            "-- a temporary table is vacuumed by its own session alone: end that",
        ),
        costs=("VACUUM reads these tables, and writes WAL for what it freezes.",),
        sure=Sure.HIGH if worst.age >= FAR else Sure.MEDIUM,
        unknown=("whether a vacuum of them is on its way: see pg_stat_progress_vacuum",),
    )


def _late(case: ServerCase) -> Iterator[_Late]:
    transactions = case.window.base("autovacuum_freeze_max_age")
    multixacts = case.window.base("autovacuum_multixact_freeze_max_age")
    for table in case.window.tables:
        if _is_late(table.freeze_age or 0, transactions):
            yield _Late(table.name, table.freeze_age or 0, True, "transaction")
    for database in case.window.databases:
        if _is_late(database.freeze_age, transactions):
            yield _Late(f"database {database.name}", database.freeze_age, False, "transaction")
        if _is_late(database.multixact_age, multixacts):
            yield _Late(f"database {database.name}", database.multixact_age, False, "multixact")


def _is_late(age: int, limit: float | None) -> bool:
    if limit is None:
        return False
    return age >= max(FAR, limit + LEAST_LATE) or age >= max(LEAST_LATE, LATE_TIMES * limit)


def _vacuums(case: ServerCase, late: list[_Late]) -> Iterator[str]:
    tables = [one.name for one in late if one.is_table]
    yield from (f"VACUUM {name};" for name in tables[:_NAMED])
    others = dict.fromkeys(one.name for one in late if not one.is_table)
    for name in list(others)[:_NAMED]:
        # The tables of the database that was looked at are all named, unless they are its catalogs.
        if not 0 < len(tables) <= _NAMED or name != f"database {case.window.database}":
            yield visible(f"-- connected to {name}: VACUUM;")
