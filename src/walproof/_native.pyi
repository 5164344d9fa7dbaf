"""The Rust half of walproof (crates/walproof-python), used through ``walproof.wal`` and ``walproof.disk``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, final, type_check_only

from walproof.wal.filter import RawFilter
from walproof.wal.places.place import FileSource, Source
from walproof.wal.progress import Observe
from walproof.wal.whatif import Target

__all__ = [
    "WalLive",
    "WalPart",
    "WalRebuilder",
    "WalRecords",
    "WalStripper",
    "WhatIfPass",
    "WhatIfRolling",
    "damaged_pages",
    "device_profiles",
    "disk_arm",
    "disk_create",
    "disk_cut",
    "disk_events",
    "disk_image",
    "disk_status",
    "disk_unflushed",
    "operation_names",
    "wal_digest",
    "wal_identity",
    "wal_join",
    "wal_last_checkpoint",
    "wal_looks",
    "wal_probe",
    "wal_recovery",
    "wal_span",
    "wal_stats",
    "wal_strip",
    "wal_text",
    "wal_verify",
    "wal_whatif",
    "wal_written",
]

_Columns = tuple[int, int, int, int]
"""Records, bytes of them without images, bytes of images, images."""

_Fields = dict[str, Any]
"""All fields of a Rust struct that is declared with ``named_fields!``, by their names. The dataclass that
``walproof.wal.native`` makes of them has the types."""

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
    """End of the last record before a gap, first record after it."""
    rmgrs: list[tuple[str, _Columns]]
    operations: list[tuple[str, _Columns]]
    images: _Fields
    """`ImageTotals`."""
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
    accounting: _Fields
    """`Accounting`."""

_Image = tuple[int, int, int, str | None, bool]
"""Length, hole offset, hole length, compression, applied."""
_Block = tuple[tuple[int, int, int, int, int, int], int, bool, _Image | None]
"""(id, tablespace, database, relation, fork, block), length of its data, initialised by replay, image."""
_Record = tuple[tuple[int, int, int], str, int, int, int, int | None, int | None, list[_Block]]
"""(LSN, previous LSN, end), resource manager/operation, total length, length of main data, transaction,
top-level transaction, origin, blocks."""

_GivenSamples = tuple[
    Sequence[
        tuple[
            tuple[int, int, int, int],
            tuple[int, int, tuple[int, int, int], int, int, tuple[float, float, float]],
        ]
    ],
    tuple[int, int, int],
]
"""What images told, as ``walproof.wal.images.ImageSamples``."""

@type_check_only
class WhatIfRequest(TypedDict):
    """What simulations are asked. A name for checkers of types alone."""

    targets: Sequence[Target]
    times: Sequence[tuple[int, int]]
    """Location, us since 1970."""
    most_pages: int | None
    samples: _GivenSamples
    ordered: Sequence[int]
    """Relfilenodes."""

def wal_last_checkpoint(
    paths: Sequence[Source],
    end: int | None,
    timeline: int | None,
    threads: int,
    observe: Observe | None = None,
) -> tuple[tuple[int, int, bool, int] | None, int]:
    """(location, redo point, of a shutdown, Unix time) or None; where the WAL at hand begins."""

def wal_recovery(
    paths: Sequence[Source],
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
    observe: Observe | None = None,
) -> _Fields:
    """`RecoveryAnalysis`; instead of its steps ``features``, whose pools are one for each of ``buffers``."""

def wal_identity(paths: Sequence[Source], start: int | None, timeline: int | None) -> tuple[int, int, int]:
    """Major version, segment size, system identifier. Raises WalError."""

def wal_whatif(
    paths: Sequence[Source],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    request: WhatIfRequest,
    observe: Observe | None = None,
) -> _Fields:
    """`WhatIf`, without its targets and its clock."""

def wal_digest(
    paths: Sequence[Source], start: int | None, end: int | None, timeline: int | None, until: int | None
) -> bytes | None:
    """Records of a range that begin before ``until``, without contents, for `WhatIfPass`.

    None where the WAL ends before, or has no record. Raises WalError.
    """

def wal_looks(paths: Sequence[Source], timeline: int | None, wanted: Sequence[tuple[int, int]]) -> bytes:
    """Images, by their records and the numbers of their references, compressed to see. Raises WalError."""

@final
class WhatIfPass:
    """A simulation that takes digests in order; crates/walproof-whatif/src/ranges/pass.rs says how."""

    def __new__(cls, request: WhatIfRequest) -> Self: ...
    def draw(self, digest: bytes, is_learning: bool) -> tuple[list[tuple[int, int]], bool]:
        """Images that are wanted, and whether the digest reaches past what is learned from before."""
    def look(self, looks: bytes) -> None:
        """What `wal_looks` saw."""
    def learn(self, digest: bytes) -> None:
        """Learn from the beginning."""
    def add(self, digest: bytes) -> None:
        """Simulate what follows."""
    def finish(self) -> _Fields | None:
        """As `wal_whatif`; None where the digests were not all of the WAL, or did not fit."""

def wal_written(paths: Sequence[Source], segment_size: int) -> list[tuple[int, int]]:
    """Where each whole segment's file ends in the WAL, and when it was last written, in us since 1970."""

_Samples = tuple[
    list[
        tuple[
            tuple[int, int, int, int],
            tuple[int, int, tuple[int, int, int], int, int, tuple[float, float, float]],
        ]
    ],
    tuple[int, int, int],
]
"""The same, as it is made."""

def wal_strip(
    paths: Sequence[Source], folder: Path, timeline: int | None, observe: Observe | None = None
) -> tuple[tuple[int, int, int, int], _Samples]:
    """Write NAME.zst of each segment: segments, records, bytes blanked, bytes written; what the images told.

    Raises WalError.
    """

@final
class WalLive:
    """What a recovery would have to do if the server crashed now, as its WAL arrives."""

    def __new__(
        cls,
        segment_size: int,
        *,
        buffers: Sequence[int],
        concurrency: int | None,
        read_ahead: int,
        redo: int | None,
        relations: int,
        trace_bytes: int,
        trace_folder: str | os.PathLike[str] | None,
    ) -> Self: ...
    def observe(self, lsn: int, data: bytes, others: WhatIfRolling | None = None) -> None:
        """Bytes from ``lsn`` on, whose records ``others`` takes, too. Raises WalError: a hole, or no WAL."""

    def restart(self) -> None: ...
    def set_redo(self, redo: int) -> None: ...
    def switch_timeline(self, timeline: int, lsn: int) -> None: ...
    def recompute(self, records: int) -> bool: ...
    def snapshot(self) -> _Fields:
        """Fields of Rust's `Snapshot`; ``checkpoint`` (location, redo point, whether of a shutdown, Unix
        time), ``rmgrs`` (name, columns), ``relations`` (tablespace, database and file; counted
        from; columns; updates, their bytes and runs, freezing records and their bytes, keys, their
        images and their bytes), ``others``, ``none`` (columns), ``commits``, ``aborts``, ``gaps``
        (from, to)."""

@final
class WhatIfRolling:
    """What other settings would have written in the last hours of WAL that arrives."""

    def __new__(
        cls,
        system_identifier: int,
        segment_size: int,
        timeline: int,
        *,
        targets: Sequence[Target],
        most_pages: int,
        span_us: int,
        learn_bytes: int,
        learn_us: int,
    ) -> Self: ...
    def switch_timeline(self, timeline: int, lsn: int) -> None: ...
    @property
    def is_overfull(self) -> bool: ...
    @property
    def memory_bytes(self) -> int: ...
    def answer(self) -> _Fields | None:
        """As `wal_whatif`; None while it learns."""

@final
class WalStripper:
    """Strips WAL that comes in order, from the beginning of a segment on."""

    def __new__(cls, start: int, segment_size: int) -> Self: ...
    def push(self, data: bytes) -> bytes:
        """Bytes without contents that follow those before; what has come of a record that is not complete is
        held back. Raises WalError where no record is."""

    def samples(self) -> _Samples:
        """What the images told."""

_ToldBlock = tuple[int, tuple[int, int, int, int], int, _Image | None, int | None]
"""Id; tablespace, database, relation and fork; block; image; bytes of its data."""
_ToldRecord = tuple[tuple[int, int], int, tuple[str, str], tuple[int, int], Sequence[_ToldBlock], bytes]
"""LSN, previous LSN; transaction; resource manager, operation; length, length of main data; blocks; what is
known of the beginning of the main data."""

@final
class WalRebuilder:
    """Makes WAL again from what a server tells of its records, in order."""

    def __new__(
        cls, version: int, system_identifier: int, timeline: int, segment_size: int, start: int
    ) -> Self: ...
    def push(self, records: Sequence[_ToldRecord]) -> bytes:
        """The WAL up to the last record's end, at first from the beginning of the segment of ``start`` on.

        Raises WalError where a record does not follow the one before, or its parts do not add up.
        """

_Begun = tuple[int, int, int, str, int]
"""Location of a record, its length, bytes of it so far, its header (hexadecimal), CRC-32C of the others."""
_Rest = tuple[int, int, str, int]
"""Bytes that the first page expects, bytes here, the first 16 (hexadecimal), CRC-32C of the others."""
_Fault = tuple[str, int, int, int | None, str]
"""Cause, location, offset in the segment, where records go on, message."""

class _Stretch(TypedDict):
    start: int
    end: int
    first: tuple[int, int] | None
    """First record, and the record that it names as the one before."""
    last: int | None
    records: int
    times: tuple[int, int] | None
    """Earliest and latest end of a transaction, us since 1970."""
    switches: list[tuple[int, int, int]]
    """Records that switch to another timeline: location, timeline from then on, timeline before."""

class _FileFacts(TypedDict):
    bytes: int
    sha1: str | None
    version: int | None
    system_identifier: int | None
    address: int | None
    """Where the pages belong, if not where the name says."""
    timelines: tuple[int, int] | None
    head: Literal["broken", "record", "rest", "overwrite"]
    rest: _Rest | None
    tail: _Begun | None
    stretches: list[_Stretch]
    faults: list[_Fault]
    end: _Fault | None
    is_clean_end: bool

def wal_verify(
    files: Sequence[tuple[FileSource, str, bool, str | None, bool]],
    segment_size: int,
    threads: int,
    observe: Observe | None = None,
) -> list[_FileFacts]:
    """Facts of each file: (file, segment's name, partial, ending of a compressed one, SHA-1 wanted)."""

def wal_join(
    begun: _Begun, rest: _Rest, previous: int | None, version: int
) -> tuple[_Begun | None, str | None]:
    """The record over an edge, if it goes on after the next one; what is wrong with it."""

def wal_probe(place: FileSource) -> tuple[int, int, int] | None:
    """Version, system identifier and segment size by a file's first page."""

def wal_text(place: FileSource) -> str:
    """A small file, plain or compressed. Raises WalError."""

def wal_stats(
    paths: Sequence[Source],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    partial: bool,
    threads: int,
    observe: Observe | None = None,
) -> _Stats:
    """Totals of the records between two locations.

    Each byte of a record counts for one relation and fork: that of the block it is there for, else that of
    the record's first block; records without blocks are ``no_relation``. Raises WalError; with ``partial``,
    an error after the first record is in the result, with the totals of what comes before it.
    """

class _PartFacts(TypedDict):
    version: int
    system_identifier: int
    segment_size: int
    start: int
    end: int
    first_record: int | None
    last_record: int | None
    first_timeline: int
    last_timeline: int
    is_open: bool

@final
class WalPart:
    """A part of WAL."""

    @staticmethod
    def read(
        paths: Sequence[Source],
        start: int | None,
        end: int | None,
        timeline: int | None,
        *,
        threads: int,
        observe: Observe | None = None,
    ) -> WalPart:
        """The part from ``start`` to ``end``. Raises WalError."""
    @staticmethod
    def of_bytes(data: bytes) -> WalPart:
        """The part in a file's bytes. Raises WalError."""
    def append(self, data: bytes) -> None:
        """Append the part that follows this one; after an error nothing is left. Raises WalError."""
    def to_bytes(self) -> bytes:
        """The bytes of a file that holds it."""
    def facts(self) -> _PartFacts:
        """Whose WAL it is, and from where to where."""
    def stats(self) -> _Stats:
        """The totals. Nothing is left of the part. Raises WalError when there is no record in it."""

def wal_span(
    paths: Sequence[Source],
    since_us: int | None,
    until_us: int | None,
    timeline: int | None,
    *,
    observe: Observe | None = None,
) -> tuple[tuple[int | None, int | None], tuple[bool, bool], tuple[int | None, int | None], int | None]:
    """From where the last transaction ended before the first moment to the end of the last one up to the
    second, or up to the next one if none ended in between; None where that is outside of the WAL. Whether a
    record is in between, and the end of a transaction; when the last one ended before it and the first one
    after it; where the record of that one begins. Moments are in microseconds since 1970. Raises WalError."""

def operation_names() -> list[str]:
    """PostgreSQL's own resource managers, each followed by its operations in all versions: ``Heap``,
    ``Heap/INSERT``, ..."""

@final
class WalRecords:
    """Records in order. Each method goes on where the last one ended, and gives nothing at the end."""

    def __new__(
        cls,
        paths: Sequence[Source],
        start: int | None,
        end: int | None,
        timeline: int | None,
        *,
        allow_gaps: bool,
        filter: RawFilter | None = None,
    ) -> Self:
        """``filter``: as ``RecordFilter.raw`` has it. Raises WalError."""
    def records_read(self) -> int:
        """How many records were read so far, wanted or not."""
    def rows(self, count: int) -> list[_Record]:
        """Up to ``count`` more records, fewer where these take long to find, none at the end. Raises WalError
        after the last record that is in order."""
    def text(
        self, count: int, style: Literal["line", "blocks", "json"], observe: Observe | None = None
    ) -> tuple[str, int]:
        """Up to ``count`` more records as lines of text, and how many: ``line`` and ``blocks`` as pg_waldump
        without and with --bkp-details, ``json`` an object a line. Raises as ``rows`` does."""

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
    """Cut (or fail a flush) at the count-th event from now. Raises DiskError; ValueError: no such event."""

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

    Raises DiskError; ValueError: no such kind, survival or unit.
    """
