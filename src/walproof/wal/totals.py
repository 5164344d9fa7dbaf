"""What a stretch of WAL is made of: the totals of ``pg_waldump --stats``, and what they leave out.

Reads PostgreSQL 13 to 19 (crates/walproof-wal does the work, without holding the GIL). A running server's
folder can be read up to a location that it has flushed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from walproof._native import wal_stats
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.native import from_native
from walproof.wal.places.opened import Path, reading
from walproof.wal.progress import Observe

if TYPE_CHECKING:
    from walproof._native import _Stats


@dataclass(frozen=True, slots=True)
class WalTotals:
    """The columns of ``pg_waldump --stats``."""

    records: int = 0
    record_bytes: int = 0
    """Bytes of the records without their full-page images (\"Record size\")."""
    image_bytes: int = 0
    """Bytes of the full-page images (\"FPI size\")."""
    image_count: int = 0
    """Full-page images."""

    @property
    def combined_bytes(self) -> int:
        """Records and images (\"Combined size\")."""
        return self.record_bytes + self.image_bytes

    def __add__(self, other: WalTotals) -> WalTotals:
        return WalTotals(
            self.records + other.records,
            self.record_bytes + other.record_bytes,
            self.image_bytes + other.image_bytes,
            self.image_count + other.image_count,
        )

    def __sub__(self, other: WalTotals) -> WalTotals:
        return WalTotals(
            self.records - other.records,
            self.record_bytes - other.record_bytes,
            self.image_bytes - other.image_bytes,
            self.image_count - other.image_count,
        )


@dataclass(frozen=True, slots=True)
class RmgrTotals:
    """A resource manager's share, as a whole and by operation."""

    name: str
    """The name as pg_waldump prints it: ``Heap``, ``custom128``."""
    totals: WalTotals
    operations: Mapping[str, WalTotals]
    """``INSERT+INIT`` -> its share; only operations that occur."""


@dataclass(frozen=True, slots=True)
class MethodTotals:
    """Full-page images compressed by one method."""

    count: int
    bytes: int
    uncompressed_bytes: int
    """Bytes that they would take without wal_compression."""


@dataclass(frozen=True, slots=True)
class ImageTotals:
    """Full-page images."""

    count: int
    """The number of all images; pg_stat_wal.wal_fpi counts the same."""
    bytes: int
    uncompressed_bytes: int
    """Bytes that they would take without wal_compression."""
    hint_count: int
    """Images written only because a hint bit was set (checksums or wal_log_hints)."""
    hint_bytes: int
    not_applied_count: int
    """Images that recovery does not restore (wal_consistency_checking)."""
    compressed: Mapping[str, MethodTotals]
    """``pglz``, ``lz4``, ``zstd`` -> images compressed by it."""


@dataclass(frozen=True, slots=True)
class RelationTotals:
    """One relation's fork. Each byte of a record counts for one relation: the one of the block that it is
    there for, else the one of the record's first block."""

    tablespace: int
    database: int
    relation: int
    """OIDs of tablespace and database, and the relation's file number in it."""
    fork: str
    """``main``, ``fsm``, ``vm`` or ``init``."""
    method: str | None
    """``btree``, ``hash``, ``gin``, ``gist``, ``spgist`` or ``brin``, told by the resource manager that wrote
    to it; None for a table, and for an index that only has images or generic records in this WAL."""
    totals: WalTotals
    distinct_blocks: int


@dataclass(frozen=True, slots=True)
class Minute:
    """What was written in one minute, according to the times in commit and abort records."""

    start_at: float
    """Unix time."""
    totals: WalTotals
    commits: int


@dataclass(frozen=True, slots=True)
class Gap:
    """WAL that is missing between two segments at hand."""

    start: Lsn
    """Where the last record before it ends."""
    end: Lsn
    """Where the first record after it begins."""


def gaps_of(places: Sequence[tuple[int, int]]) -> tuple[Gap, ...]:
    """From (start, end) as the native module tells them."""
    return tuple(Gap(Lsn(start), Lsn(end)) for start, end in places)


class CheckpointKind(Enum):
    """How a checkpoint came about."""

    ONLINE = "online"
    """While the server ran."""
    SHUTDOWN = "shutdown"
    """At shutdown or at the end of recovery."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint record."""

    lsn: Lsn
    """Where its record is, at which the checkpoint was complete."""
    redo: Lsn
    """Where recovery would start, at which the checkpoint began."""
    kind: CheckpointKind
    timeline: int
    at: float
    """When it began, Unix time in whole seconds."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """What fills the bytes from the first record to the end of the last, exactly, in six kinds."""

    record_bytes: int
    """Bytes of records with their images."""
    padding_bytes: int
    """Bytes that fill up records to multiples of 8."""
    page_header_bytes: int
    segment_header_bytes: int
    switch_bytes: int
    """Rests of segments left unused by pg_switch_wal or archive_timeout."""
    overwritten_bytes: int
    """Beginnings of records that a crashed server never finished."""

    @property
    def total_bytes(self) -> int:
        """The sum, which is the distance of the two locations."""
        return (
            self.record_bytes
            + self.padding_bytes
            + self.page_header_bytes
            + self.segment_header_bytes
            + self.switch_bytes
            + self.overwritten_bytes
        )


class Finish(Enum):
    """Why there were no more records."""

    REQUESTED = "requested"
    """The end that was asked for was reached."""
    LAST_SEGMENT = "last segment"
    """The last segment at hand was read to its end."""
    END_OF_WAL = "end of WAL"
    """What comes next is not a record, as at the end of every server's WAL."""
    ERROR = "error"
    """Damage or missing WAL, with ``partial``."""


@dataclass(frozen=True, slots=True)
class WalStats:
    """Totals of the records between two locations."""

    version: int
    """Major version of the server that wrote it."""
    system_identifier: int
    segment_size: int
    """In bytes."""
    timeline: int
    """Timeline of the last page that was read."""
    start: Lsn
    """Where the first record begins; the requested start when there was none."""
    end: Lsn
    """Where the last record ends, padding included: at most 40 bytes (the header of a page) before a
    requested end that is the location of the next record."""
    finish: Finish
    finish_reason: str | None
    """What pg_waldump would report there, if the end was found and not asked for."""
    totals: WalTotals
    rmgrs: Mapping[str, RmgrTotals]
    """Name -> share, in pg_waldump's order; only resource managers that occur."""
    images: ImageTotals
    commits: int
    aborts: int
    first_commit_at: float | None
    """Earliest commit, Unix time in seconds."""
    last_commit_at: float | None
    """Latest commit."""
    checkpoints: tuple[Checkpoint, ...]
    relations: tuple[RelationTotals, ...]
    """Most bytes first."""
    no_relation: WalTotals
    """Records that refer to no block. With ``relations``, they add up to ``totals``."""
    minutes: tuple[Minute, ...]
    untimed: WalTotals
    """Records after the last commit or abort. With ``minutes``, they add up to ``totals``."""
    gaps: tuple[Gap, ...]
    accounting: Accounting
    error: WalError | None = None
    """What ended reading early, with ``partial``."""


def stats(
    *paths: Path,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    partial: bool = False,
    threads: int | None = None,
    observe: Observe | None = None,
) -> WalStats:
    """Totals of the records in ``pg_wal`` folders, archives and single segments, plain or compressed, or in
    object stores (``s3://bucket/folder``).

    Those records count that begin at ``start`` (by default the first segment at hand) or later and end at
    ``end`` (by default the end of the WAL) or earlier. ``timeline`` is the newest to read, by default the
    highest at hand. ``threads`` changes only the time that this takes; the default is one for each core.
    ``observe`` is told how far it has come.

    Raises WalError: nothing readable at the start, or WAL missing (unless ``allow_gaps``) or damaged before
    the end (unless ``partial``: then what comes before it is returned, with the error).
    """
    with reading(paths, threads or len(os.sched_getaffinity(0))) as wal:
        raw = wal.call(
            wal_stats,
            wal.sources,
            start,
            end,
            timeline,
            allow_gaps=allow_gaps,
            partial=partial,
            threads=wal.threads,
            observe=wal.observed(observe),
        )
    return stats_of(raw)


def stats_of(raw: _Stats) -> WalStats:
    """Totals from what the native module tells."""
    rmgrs: dict[str, RmgrTotals] = {}
    for name, columns in raw["rmgrs"]:
        operations = {
            operation.removeprefix(f"{name}/"): WalTotals(*totals)
            for operation, totals in raw["operations"]
            if operation.startswith(f"{name}/")
        }
        rmgrs[name] = RmgrTotals(name, WalTotals(*columns), operations)
    relations = [
        RelationTotals(
            *at[:3], FORKS[at[3]] if at[3] < len(FORKS) else str(at[3]), method, WalTotals(*totals), n
        )
        for at, method, totals, n in raw["relations"]
    ]
    return WalStats(
        version=raw["version"],
        system_identifier=raw["system_identifier"],
        segment_size=raw["segment_size"],
        timeline=raw["timeline"],
        start=Lsn(raw["start"]),
        end=Lsn(raw["end"]),
        finish=Finish(raw["finish"]),
        finish_reason=raw["finish_reason"],
        totals=sum((rmgr.totals for rmgr in rmgrs.values()), WalTotals()),
        rmgrs=rmgrs,
        images=from_native(ImageTotals, raw["images"]),
        commits=raw["commits"],
        aborts=raw["aborts"],
        first_commit_at=_seconds(raw["first_commit_unix_us"]),
        last_commit_at=_seconds(raw["last_commit_unix_us"]),
        checkpoints=tuple(
            Checkpoint(Lsn(lsn), Lsn(redo), CheckpointKind(kind), on_timeline, float(at))
            for lsn, redo, kind, on_timeline, at in raw["checkpoints"]
        ),
        relations=tuple(sorted(relations, key=lambda relation: -relation.totals.combined_bytes)),
        no_relation=WalTotals(*raw["no_relation"]),
        minutes=tuple(
            Minute(float(at), WalTotals(*operations), commits) for at, operations, commits in raw["minutes"]
        ),
        untimed=WalTotals(*raw["untimed"]),
        gaps=gaps_of(raw["gaps"]),
        accounting=from_native(Accounting, raw["accounting"]),
        error=None if raw["error"] is None else _error(*raw["error"]),
    )


FORKS = ("main", "fsm", "vm", "init")
"""Names of forks, by number."""


def _error(message: str, detail: str | None, hint: str | None) -> WalError:
    return WalError(message, detail=detail, hint=hint)


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
