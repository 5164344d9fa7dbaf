"""Rules about tables that write more than they have to: they are frozen all at once, or logged although they
only pass rows on."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.wording import say_percent
from walproof.facts.server import ServerTable
from walproof.sentences import say_count, say_list
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

NEAR = 0.75
"""The share of autovacuum_freeze_max_age from which a table will soon be vacuumed as a whole."""
LEAST_STORM_BYTES = 16 << 20
STORM_HOURS = 1.0
"""What is anyway written within so many hours is not a storm."""
LEAST_STAGED = 10_000
STAGED_SHARE = 0.8
"""The share of a table's inserted rows that are gone without having been deleted, and thus by TRUNCATE."""
_NAMED = 3


def freezing(case: ServerCase) -> Found | None:
    """Tables that anti-wraparound vacuums will soon read as a whole, and freeze page by page."""
    if case.window.is_in_recovery:
        return None
    limit = case.window.base("autovacuum_freeze_max_age")
    aged = [table for table in case.window.tables if table.freeze_age is not None and not table.is_unlogged]
    if limit is None or not aged:
        return Unseen("freezing", "how long ago tables were frozen is not known")
    near = [table for table in aged if (table.freeze_age or 0) >= NEAR * limit]
    stake = sum(table.bytes for table in near)
    usual = (case.wal_per_hour or 0.0) * STORM_HOURS
    oldest = max(table.freeze_age or 0 for table in aged) / limit
    if stake < max(LEAST_STORM_BYTES, usual):
        return Fine(
            "freezing",
            f"The table that was frozen longest ago is {say_percent(oldest)} of the way to "
            "autovacuum_freeze_max_age.",
        )
    near.sort(key=lambda table: (-table.bytes, table.name))
    named = say_list([_aged(table, limit) for table in near[:_NAMED]])
    return Advice(
        "freezing",
        Weight.GAIN,
        "VACUUM (FREEZE) the oldest tables one by one, in quiet hours, before all are due at once",
        (
            f"{say_count(len(near), 'table')} of together {format_bytes(stake)} will soon be vacuumed, "
            f"whether or not that suits the load: {named}.",
            "At autovacuum_freeze_max_age a vacuum reads the whole table. Each page that is not frozen yet "
            f"is changed, and after a checkpoint a changed page is an image: up to {format_bytes(stake)} of "
            "WAL without compression.",
        ),
        steps=tuple(f"VACUUM (FREEZE) {table.name};" for table in near[:_NAMED]),
        costs=("The same WAL, at a time of your choice, and with pauses between tables.",),
        sure=Sure.MEDIUM,
        unknown=("how many of the pages are frozen already", f"other databases than {case.window.database}"),
    )


def _aged(table: ServerTable, limit: float) -> str:
    share = say_percent((table.freeze_age or 0) / limit)
    return f"{table.name} ({format_bytes(table.bytes)}, {share} of the way)"


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
