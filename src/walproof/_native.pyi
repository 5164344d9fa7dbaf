"""The Rust half of walproof (crates/walproof-python), used through ``walproof.wal`` and ``walproof.disk``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

__all__ = [
    "WalRecords",
    "device_profiles",
    "disk_arm",
    "disk_create",
    "disk_cut",
    "disk_events",
    "disk_image",
    "disk_status",
    "disk_unflushed",
    "wal_identity",
    "wal_last_checkpoint",
    "wal_recovery",
    "wal_stats",
    "wal_strip",
    "wal_whatif",
    "wal_written",
]

_Columns = tuple[int, int, int, int]
"""Records, bytes of them without images, bytes of images, images."""

class _Images(TypedDict):
    count: int
    bytes: int
    uncompressed_bytes: int
    hint_count: int
    hint_bytes: int
    not_applied_count: int
    compressed: dict[str, tuple[int, int, int]]
    """``pglz``, ``lz4``, ``zstd`` -> images, their bytes, bytes that they would take uncompressed."""

class _Accounting(TypedDict):
    record_bytes: int
    padding_bytes: int
    page_header_bytes: int
    segment_header_bytes: int
    switch_bytes: int
    overwritten_bytes: int

class _Stats(TypedDict):
    version: int
    system_identifier: int
    segment_size: int
    timeline: int
    start: int
    end: int
    finish: Literal["requested", "last segment", "end of WAL", "error"]
    finish_reason: str | None
    error: tuple[str, str | None, str | None] | None
    """Message, detail, hint of what ended reading early."""
    gaps: list[tuple[int, int]]
    """End of the last record before a gap, first record behind it."""
    rmgrs: list[tuple[str, _Columns]]
    operations: list[tuple[str, _Columns]]
    images: _Images
    commits: int
    aborts: int
    first_commit_unix_us: int | None
    last_commit_unix_us: int | None
    checkpoints: list[tuple[int, int, Literal["online", "shutdown"], int, int]]
    relations: list[tuple[tuple[int, int, int, int], str | None, _Columns, int]]
    """(tablespace, database, relation, fork), access method of an index, totals, distinct blocks."""
    no_relation: _Columns
    minutes: list[tuple[int, _Columns, int]]
    """When it began (Unix time), totals, commits."""
    untimed: _Columns
    accounting: _Accounting

_Image = tuple[int, int, int, str | None, bool]
"""Length, hole offset, hole length, compression, applied."""
_Block = tuple[tuple[int, int, int, int, int, int], int, bool, _Image | None]
"""(id, tablespace, database, relation, fork, block), length of its data, initialised by replay, image."""
_Record = tuple[tuple[int, int, int], str, int, int, int, int | None, int | None, list[_Block]]
"""(LSN, previous LSN, end), resource manager/operation, total length, length of main data, transaction,
top-level transaction, origin, blocks."""

class _Recorded(TypedDict):
    records: int
    record_bytes: int
    images: int
    image_bytes: int
    hint_images: int
    references: int
    pages: int
    held_pages: int
    begun_before: int
    first_time_us: int | None
    last_time_us: int | None
    longest_silence_us: int
    checkpoints: list[tuple[int, int, bool]]
    """Redo point, Unix time, whether it was a shutdown."""
    has_hint_records: bool
    full_page_writes_off: bool
    has_backup: bool
    has_consistency_images: bool
    compression: Literal["off", "pglz", "lz4", "zstd"]
    agreement: tuple[int, int, int, int, int, int]
    """References: images and bare ones that are explained, unexplained, missing; sizes expected, found."""
    memory_bytes: int

class _Outcome(TypedDict):
    wal_bytes: int
    base_bytes: int
    images: int
    image_bytes: int
    first_images: int
    first_image_bytes: int
    guessed_images: int
    sample_error_bytes: float
    by_size: int
    by_time: int
    cycles: tuple[int, int, int, int, float | None, int]
    """Count, WAL bytes, images, bytes without images, seconds, late ones."""
    distance_mean: float
    distance_most: int
    crash_offset: int
    pg_wal_most: int

class _WhatIf(TypedDict):
    version: int
    system_identifier: int
    segment_size: int
    first_timeline: int
    timeline: int
    start: int
    end: int
    finish_reason: str | None
    gaps: list[tuple[int, int]]
    recorded: _Recorded
    sample: dict[str, Any]
    """``count``, ``plain_bytes``; each method: bytes, nanoseconds."""
    outcomes: list[_Outcome]

class _Request(TypedDict):
    targets: Sequence[tuple[int | None, int, int | None, float, bool, str, bool, float, int]]
    times: Sequence[tuple[int, int]]
    """Location, us since 1970."""
    most_pages: int | None

class _PoolWork(TypedDict):
    misses: int
    reads: int
    far_reads: int
    frames: int
    evictions: int
    far_evictions: int
    first_writes: int
    prefetches: int
    disk_reads: int
    resident: int

class _RecoveryWork(TypedDict):
    end: int
    records: int
    record_bytes: int
    unforeseen: int
    gin_records: int
    compactions: int
    extensions: int
    references: int
    images: dict[str, tuple[int, int]]
    """``off``, ``pglz``, ``lz4``, ``zstd`` -> images stored that way, their bytes."""
    restored: int
    initialised: int
    done: int
    pages: int
    dirty: int
    runs: int
    relations_dropped: int
    truncations: int
    recent_misses: int
    far_misses: int
    distant_misses: int
    disk_requests: int
    pools: list[_PoolWork]
    pools_off: list[_PoolWork]
    """One for each of ``buffers``."""

class _Recovery(TypedDict):
    version: int
    segment_size: int
    system_identifier: int
    timeline: int
    start: int
    finish_reason: str | None
    gaps: list[tuple[int, int]]
    features: list[_RecoveryWork]
    """Up to each mark before the end, then up to the end."""

def wal_last_checkpoint(
    paths: Sequence[str], end: int | None, timeline: int | None, threads: int
) -> tuple[tuple[int, int, bool, int] | None, int]:
    """(location, redo point, of a shutdown, Unix time) or None; where the WAL at hand begins."""

def wal_recovery(
    paths: Sequence[str],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    buffers: Sequence[int],
    concurrency: int | None,
    marks: Sequence[int],
    images: str,
    crashed: int | None,
    read_ahead: int,
) -> _Recovery: ...
def wal_identity(paths: Sequence[str], start: int | None, timeline: int | None) -> tuple[int, int]: ...
def wal_whatif(
    paths: Sequence[str],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    request: _Request,
) -> _WhatIf: ...
def wal_written(paths: Sequence[str], segment_size: int) -> list[tuple[int, int]]:
    """Where each whole segment's file ends in the WAL, and when it was last written, in us since 1970."""

def wal_strip(paths: Sequence[str], folder: Path, timeline: int | None) -> tuple[int, int, int, int]:
    """Write NAME.zst of each segment: segments, records, bytes blanked, bytes written. Raises WalError."""

def wal_stats(
    paths: Sequence[str],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    partial: bool,
    threads: int,
) -> _Stats:
    """Totals of the records between two locations.

    Each byte of a record counts for one relation and fork: that of the block it is there for, else that of
    the record's first block; records without blocks are ``no_relation``. Raises WalError; with ``partial``,
    an error behind the first record is in the result, with the totals of what comes before it.
    """

class WalRecords:
    """Records in order. Each method goes on where the last one ended, and gives nothing at the end."""

    def __init__(
        self,
        paths: Sequence[str],
        start: int | None,
        end: int | None,
        timeline: int | None,
        *,
        allow_gaps: bool,
    ) -> None:
        """Raises WalError."""
    def rows(self, count: int) -> list[_Record]:
        """Up to ``count`` more records. Raises WalError after the last record that is in order."""
    def text(self, count: int, style: Literal["line", "blocks", "json"]) -> str:
        """Up to ``count`` more records as lines of text: ``line`` and ``blocks`` as pg_waldump without and
        with --bkp-details, ``json`` an object a line. Raises WalError after the last record in order."""

class _DiskStatus(TypedDict):
    attached: int
    busy: int
    is_cut: bool
    has_triggered: bool
    cut_monotonic_ns: int
    sequence: int
    undo_bytes_max: int
    void: list[str]
    counts: dict[str, int]

_Piece = tuple[int, bytes | None, tuple[str, int, int] | None]
"""Offset, and either bytes or (name in the graveyard, offset there, length)."""

class _DiskImage(TypedDict):
    folders: list[tuple[int, bytes]]
    symlinks: list[tuple[int, bytes, bytes]]
    files: list[tuple[int, bytes, int, bool, bytes, tuple[int, list[_Piece]] | None]]
    """Root, path, root of the origin, whether that is its graveyard, path there, new size and pieces."""

def device_profiles() -> list[tuple[str, int, int, str]]:
    """Name, flush in ns, write bandwidth in bytes/s, what it stands for."""

def disk_events() -> list[str]:
    """Names of the moments at which power can be cut."""

def disk_create(
    path: Path,
    roots: Sequence[tuple[bytes, bytes]],
    *,
    tracking: bool,
    real_flush: bool,
    strict: bool,
    writeback_ns: int,
    flush_ns: int,
    write_bytes_per_s: int,
    seed: int,
    undo_bytes: int,
    swallowed: bytes,
) -> None:
    """Make a state file; each root with its graveyard. Raises DiskError."""

def disk_arm(path: Path, event: int, count: int, fails: bool) -> None:
    """Cut (or fail a flush) at the count-th event from now. Raises DiskError."""

def disk_cut(path: Path, monotonic_ns: int) -> None:
    """Cut now. Raises DiskError."""

def disk_status(path: Path) -> _DiskStatus:
    """Counters of the state file. Raises DiskError."""

def disk_unflushed(path: Path, sequence: int) -> list[tuple[int, int, int, int]]:
    """Device, inode, oldest change, changes of files with unflushed changes up to a number.

    Raises DiskError.
    """

def damaged_pages(path: Path, first: int) -> list[int]:
    """Numbers of the 8 kB pages whose checksum is wrong. Raises DiskError."""

def disk_image(
    path: Path,
    live: Sequence[tuple[int, bytes, str, int, int, int, bytes]],
    kept: Sequence[tuple[int, int, int]],
    *,
    seed: int,
    survival: str,
    keep: float,
    unit_bytes: int,
) -> _DiskImage:
    """Plan of an image. Rows of live: root, path, kind (d, l, f), device, inode, size, target.

    Raises DiskError.
    """
