"""Rules about tables that write more than they have to: they are frozen all at once, or logged although they
only pass rows on."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.wraparound import LEAST_LATE, overdue
from walproof.facts.server import ServerTable
from walproof.sentences import say_count, say_list, say_percent
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

NEAR = 0.75
"""The share of the way to a vacuum against wraparound from which that will soon come."""
PAST = 1.5
"""The share from which that should have come by now."""
LEAST_STORM_BYTES = 16 << 20
STORM_HOURS = 1.0
"""What is anyway written within so many hours is not a storm."""
LEAST_STAGED = 10_000
STAGED_SHARE = 0.8
"""The share of a table's inserted rows that are gone without having been deleted, and thus by TRUNCATE."""
_NAMED = 3


def freezing(case: ServerCase) -> Found | None:
    """Tables that vacuums against wraparound will soon read, and freeze page by page."""
    if case.window.is_in_recovery:
        return None
    late = overdue(case)
    if late is not None:
        return late
    limit = case.window.base("autovacuum_freeze_max_age")
    aged = [table for table in case.window.tables if table.freeze_age is not None and not table.is_unlogged]
    if limit is None or not aged:
        return Unseen("freezing", "how long ago tables were frozen is not known")
    near = [table for table in aged if _share(table, limit) >= NEAR]
    stake = sum(_unfrozen_bytes(table) for table in near)
    usual = (case.wal_per_hour or 0.0) * STORM_HOURS
    oldest = max(_share(table, limit) for table in aged)
    # Past its limit nothing is fine, however small the table is; one whose limit is low may be between two
    # rounds of autovacuum.
    is_past = any(_share(one, limit) >= PAST and (one.freeze_age or 0) >= LEAST_LATE for one in near)
    if stake < max(LEAST_STORM_BYTES, usual) and not is_past:
        return Fine(
            "freezing",
            f"The table that was frozen longest ago is {say_percent(oldest)} of the way to a vacuum against "
            "wraparound.",
        )
    near.sort(key=lambda table: (-_unfrozen_bytes(table), table.name))
    named = say_list([_aged(table, limit) for table in near[:_NAMED]])
    is_seen = all(table.frozen_bytes is not None for table in near)
    return Advice(
        "freezing",
        Weight.GAIN,
        "VACUUM (FREEZE) the oldest tables one by one, in quiet hours, before all are due at once",
        (
            f"{say_count(len(near), 'table')} of together {format_bytes(sum(one.bytes for one in near))} "
            f"{'should have been vacuumed by now' if is_past else 'will soon be vacuumed'}, whether or not "
            f"that suits the load: {named}.",
            "A vacuum against wraparound reads each page that is not marked as frozen. What it freezes there "
            "changes the page, and after a checkpoint a changed page is an image: up to "
            f"{format_bytes(stake)} of WAL without compression.",
        ),
        steps=tuple(f"VACUUM (FREEZE) {table.name};" for table in near[:_NAMED]),
        costs=("The same WAL, at a time of your choice, and with pauses between tables.",),
        sure=Sure.MEDIUM,
        unknown=(
            *(() if is_seen else ("how many of the pages are frozen already",)),
            f"other databases than {case.window.database}",
        ),
    )


def _share(table: ServerTable, limit: float) -> float:
    """``limit``: autovacuum_freeze_max_age, by which facts without a share of their own are judged."""
    return (table.freeze_age or 0) / limit if table.freeze_share is None else table.freeze_share


def _unfrozen_bytes(table: ServerTable) -> int:
    return max(0, table.bytes - (table.frozen_bytes or 0))


def _aged(table: ServerTable, limit: float) -> str:
    return f"{table.name} ({format_bytes(table.bytes)}, {say_percent(_share(table, limit))} of the way)"


def staging(case: ServerCase) -> Found | None:
    """Tables that are filled and truncated again and again, but logged all the same."""
    if case.window.is_in_recovery:
        return None
    passing = [table for table in case.window.tables if not table.is_unlogged and _is_staged(table)]
    if not passing:
        return None
    passing.sort(key=lambda table: (-table.inserted, table.name))
    named = say_list(
        [
            f"{table.name} ({table.inserted:,} rows inserted, {table.live:,} there)"
            for table in passing[:_NAMED]
        ]
    )
    evidence = [f"Filled and truncated again and again, but logged: {named}."]
    written = sum(case.relation_wal(table.filenode) or 0.0 for table in passing if table.filenode)
    if case.wal is not None and written:
        share = written / max(1, case.wal.accounting.total_bytes)
        evidence.append(f"What they hold now made {say_percent(share)} of the WAL that was recorded.")
    if case.may_lose < DurabilityClass.TABLE:
        return Fine(
            "staging",
            " ".join(evidence)
            + " With --may-lose table UNLOGGED would be advised: a crash empties such tables.",
        )
    return Advice(
        "staging",
        Weight.GAIN,
        "Make staging tables UNLOGGED",
        tuple(evidence),
        steps=tuple(f"ALTER TABLE {table.name} SET UNLOGGED;" for table in passing[:_NAMED]),
        costs=(
            "A crash, and a failover, leaves them empty: a load that was under way begins again.",
            "Standbys and logical replication do not have their rows.",
        ),
        durability=DurabilityClass.TABLE,
        sure=Sure.MEDIUM,
        unknown=("whether their rows can be fetched again from where they came",),
        benefit=written / max(case.hours, 1e-9),
    )


def _is_staged(table: ServerTable) -> bool:
    """Rows that are neither there nor deleted were truncated. Rows from before the statistics hide some."""
    truncated = table.inserted - table.deleted - table.live
    return table.inserted >= LEAST_STAGED and truncated >= STAGED_SHARE * table.inserted
