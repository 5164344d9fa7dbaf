"""Rules about what a crash may cost: flushes, images, checksums, unlogged tables."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.server import ServerTable
from walproof.sentences import say_list
from walproof.settings.change import Change
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

_NAMED = 3
_PASSING = 10
"""Rows inserted for each row that is there, from which on an unlogged table only passes rows on to somewhere
else."""


def fsync(case: ServerCase) -> Found | None:
    """fsync is off: after a crash of the machine the cluster may be lost."""
    if case.is_on("fsync") is None:
        return Unseen("fsync", "its setting is not known")
    if case.is_on("fsync"):
        return Fine("fsync", "fsync is on.")
    return Advice(
        "fsync",
        Weight.DANGER,
        "Turn fsync on",
        (
            "fsync is off: nothing is flushed, and after a crash of the machine the whole cluster may "
            "be lost.",
        ),
        (Change("fsync", "on"),),
        # Checkpoints that are over flushed nothing, and later ones flush only what is written again.
        steps=("-- once fsync is on: what was written before is not on the disk yet; ask the provider",)
        if case.is_hosted
        else (
            "-- once fsync is on, on the server's machine: what was written before is not on the disk yet",
            "-- initdb --sync-only -D DATA_DIRECTORY (or sync, which flushes the whole machine)",
        ),
        costs=(
            "Commits wait for the disk again. synchronous_commit=off is nearly as fast and loses the last "
            "commits at most.",
        ),
        unknown=("whether the cluster is one that you can throw away",),
    )


def full_page_writes(case: ServerCase) -> Found | None:
    """full_page_writes is off: a page that is torn by a crash stays torn."""
    if case.is_on("full_page_writes") is None:
        return Unseen("full_page_writes", "its setting is not known")
    if case.is_on("full_page_writes"):
        return Fine("full_page_writes", "full_page_writes is on.")
    return Advice(
        "full_page_writes",
        Weight.DANGER,
        "Turn full_page_writes on",
        ("full_page_writes is off: a page that is half written when the power fails is not repaired.",),
        (Change("full_page_writes", "on"),),
        # Whether a page gets an image is decided by the last redo point (XLogRecordAssemble, xloginsert.c).
        steps=(
            "-- once full_page_writes is on: pages changed since the last checkpoint have no image yet",
            "CHECKPOINT;",
        ),
        costs=("WAL grows by the images of pages, and the more often checkpoints begin, the more it grows.",),
        unknown=(
            "whether file system and disk write 8 kB as a whole for the server, which no cloud's claim "
            "of atomic "
            "writes says of buffered writes",
        ),
    )


def wal_level(case: ServerCase) -> Found | None:
    """wal_level is minimal: no base backup of the running server, no archive, no standby."""
    level = case.window.value("wal_level")
    if level is None:
        return Unseen("wal_level", "its setting is not known")
    if level != "minimal":
        return Fine("wal_level", f"wal_level is {level}: the server can be backed up while it runs.")
    return Advice(
        "wal_level",
        Weight.DANGER,
        "Set wal_level = replica, if a dump is not backup enough",
        (
            "wal_level is minimal: no base backup of the running server, no archive and no standby can be "
            "made of it. After the loss of its disk there is the last dump, or nothing.",
        ),
        (Change("wal_level", "replica"),),
        costs=(
            "COPY into tables of the same transaction and index builds write WAL again. pg_basebackup also "
            "needs max_wal_senders above 0.",
        ),
        unknown=("whether all of it can be made again from somewhere else",),
    )


def checksums(case: ServerCase) -> Found | None:
    """Damage that checksums have found, or that nothing would find."""
    on, failures = case.is_on("data_checksums"), case.window.total("checksum_failures")
    if on is None:
        return Unseen("checksums", "data_checksums is not known")
    if failures:
        return Advice(
            "checksums",
            Weight.DANGER,
            "Find the damaged pages before the next backup",
            (f"{failures:.0f} pages failed their checksum since statistics were reset.",),
            steps=("SELECT datname, checksum_failures, checksum_last_failure FROM pg_stat_database;",),
        )
    if on:
        return Fine("checksums", "data_checksums is on, and no page failed.")
    return Fine(
        "checksums",
        "data_checksums is off: damage on the disk is noticed late. It can be turned on only while the "
        "server is "
        "down (pg_checksums --enable).",
    )


def unlogged(case: ServerCase) -> Found | None:
    """Unlogged tables, which a crash empties; on a standby they are empty and cannot be changed."""
    if case.window.is_in_recovery:
        return None
    tables = [table for table in case.window.tables if table.is_unlogged and _has_rows(table)]
    if not tables:
        return None
    if not case.may_lose < DurabilityClass.TABLE:
        return Fine("unlogged", f"Unlogged, as is allowed: {_named(tables)}.")
    staying = [table for table in tables if table.live * _PASSING > table.inserted or not table.inserted]
    if not staying:
        return Fine("unlogged", f"Unlogged tables are emptied as they are filled: {_named(tables)}.")
    staying.sort(key=lambda table: -table.bytes)
    return Advice(
        "unlogged",
        Weight.DANGER,
        "Make sure that nobody needs the unlogged tables after a crash",
        (f"A crash empties {_named(staying)}; on a standby they cannot be read.",),
        steps=(
            "-- only those that somebody needs:",
            *(f"ALTER TABLE {table.name} SET LOGGED;" for table in staying[:_NAMED]),
        ),
        costs=("SET LOGGED writes the whole table to WAL, and locks it meanwhile.",),
        sure=Sure.MEDIUM,
        unknown=("whether they hold what can be made again",),
    )


def _has_rows(table: ServerTable) -> bool:
    """An empty table has the first page of its TOAST table's index, and that of an init fork."""
    return (table.bytes if table.rows_bytes is None else table.rows_bytes) > 0


def _named(tables: Sequence[ServerTable]) -> str:
    """The largest tables, and how many more there are."""
    largest = sorted(tables, key=lambda table: -table.bytes)
    rest = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
    return (
        say_list([f"{relation.name} ({format_bytes(relation.bytes)})" for relation in largest[:_NAMED]])
        + rest
    )


def pending(case: ServerCase) -> Found | None:
    """Settings that a file changed and that wait for a restart."""
    waiting = sorted(name for name, setting in case.window.settings.items() if setting.is_pending)
    if not case.window.settings or not case.window.looks:
        return Unseen("pending", "no session on the server")
    if not waiting:
        return Fine("pending", "No changed setting waits for a restart.")
    return Advice(
        "pending",
        Weight.DANGER,
        "Restart when you can choose the moment, or take the change back",
        (
            f"{say_list(waiting)} {'is' if len(waiting) == 1 else 'are'} changed in a file and not in "
            "force: the next "
            "restart, planned or not, changes what the server does.",
        ),
        steps=("SELECT name, setting, sourcefile FROM pg_settings WHERE pending_restart;",),
    )


def autovacuum(case: ServerCase) -> Found | None:
    """autovacuum is off: one day pages are frozen all at once."""
    if case.is_on("autovacuum") is None:
        return Unseen("autovacuum", "its setting is not known")
    counts = case.window.settings.get("track_counts")
    if case.is_on("autovacuum") and counts is not None and counts.is_of_session:
        return Unseen("autovacuum", f"track_counts: {case.window.why_unknown('track_counts')}")
    if case.is_on("autovacuum") and case.is_on("track_counts") is not False:
        return Fine("autovacuum", "autovacuum is on.")
    name = "autovacuum" if not case.is_on("autovacuum") else "track_counts"
    return Advice(
        "autovacuum",
        Weight.DANGER,
        f"Turn {name} on",
        (
            f"{name} is off: dead rows stay, the visibility map ages, and freezing comes all at once, "
            "as a storm of "
            "WAL.",
        ),
        (Change(name, "on"),),
        sure=Sure.HIGH,
    )
