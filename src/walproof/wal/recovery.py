"""What crash recovery has to do with recorded WAL, whatever the machine that does it.

    >>> from walproof.wal.recovery import analyse, find_redo
    >>> redo = find_redo("pg_wal").redo  # doctest: +SKIP
    >>> analyse("pg_wal", start=redo, buffers=[16384]).last.pools[16384].reads  # doctest: +SKIP

crates/walproof-recovery does the work, without holding the GIL; docs/recovery.md says how. Time is the
business of ``walproof.analysis.recovery_costs``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from walproof._native import wal_last_checkpoint, wal_recovery
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.native import from_native
from walproof.wal.places.opened import Path, reading
from walproof.wal.progress import Observe
from walproof.wal.totals import Gap, gaps_of

PAGE_BYTES = 8192
BUFFERS_MOST = 2**30 - 1
"""The most buffers of a server (shared_buffers, src/backend/utils/misc/guc_tables.c)."""
READ_AHEAD_KB = 128
"""How much Linux reads ahead unless told otherwise."""
QUANTITIES = (
    "records", "record_bytes", "unforeseen", "changes", "gin_records", "compactions", "extensions",
    "recent_misses", "far_misses", "distant_misses",
    "images_off", "images_pglz", "images_lz4", "images_zstd", "frames", "reads", "far_reads", "evictions",
    "far_evictions", "first_writes", "prefetches",
)  # fmt: skip
Images = Literal["recorded", "first", "off"]
"""Which references carry an image: those of the recording, the first to each page, or none."""


@dataclass(frozen=True, slots=True)
class PoolWork:
    """What replay does with ``shared_buffers`` of one size; counts of pages of 8 kB."""

    misses: int
    """References whose page was not in the pool."""
    reads: int
    """Misses that had to read the page, because there was neither an image nor an initialisation."""
    far_reads: int
    """Of these, pages that are far (more than 8 blocks) from the previously referenced page of the same
    fork."""
    frames: int
    """Buffers used for the first time."""
    evictions: int
    """Dirty pages that made room for others."""
    far_evictions: int
    """Of these, pages that had come far from the previous one of the same fork."""
    first_writes: int
    """Of the evictions, pages that had not been written before: until then the kernel's page is clean."""
    prefetches: int
    """Pages that recovery_prefetch asked the kernel for."""
    disk_reads: int
    """With a cold cache: pages from the disk."""
    resident: int
    """Dirty pages in the pool at the end, which the checkpoint writes; it only flushes the other dirty
    ones."""


@dataclass(frozen=True, slots=True)
class ImageWork:
    """Images that are stored in one way."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecoveryWork:
    """The work from the redo point up to ``end``."""

    start: Lsn
    end: Lsn
    segment_size: int
    records: int
    record_bytes: int
    """Bytes of records, including images, without paddings and page headers."""
    unforeseen: int
    """Of the records, those of an unexpected kind (resource manager and operation): after the four kinds
    before it, mostly another kind has followed."""
    gin_records: int
    """Records of GIN indexes."""
    compactions: int
    """Pages that a record takes apart and puts together again, because they are pruned, split or deleted
    from."""
    extensions: int
    """Pages of files that were later dropped or cut off: at the crash they are gone, and replay makes them
    again."""
    references: int
    images: Mapping[str, ImageWork]
    """Images by wal_compression: ``off``, ``pglz``, ``lz4``, ``zstd``."""
    restored: int
    """Images that replay restores: those of the recording, or those that ``images`` of `analyse` asks for."""
    initialised: int
    done: int
    """References that replay passes over, because the page on disk is newer (``BLK_DONE``)."""
    pages: int
    """Different pages."""
    dirty: int
    """Of these, pages that are dirty at the end, which the checkpoint brings to the disk."""
    runs: int
    """Runs of neighbouring blocks among ``dirty``."""
    relations_dropped: int
    truncations: int
    recent_misses: int
    """References whose page was not among the last 1024 (8 MB) referenced."""
    far_misses: int
    """Of these, pages far from the previously referenced page of the same fork, and not passed over."""
    distant_misses: int
    """References that were not passed over, and whose page was not among the last 4096 (32 MB) referenced."""
    disk_requests: int
    """With a cold cache and without the prefetcher: reads of the disk, some of which the kernel makes
    longer."""
    pools: Mapping[int, PoolWork]
    """The work by shared_buffers, in buffers of 8 kB, with recovery_prefetch=try if the version has it."""
    pools_off: Mapping[int, PoolWork]
    """The same with recovery_prefetch=off."""

    @property
    def changes(self) -> int:
        """References that replay applies to their page, neither restoring it nor passing over it."""
        return self.references - self.restored - self.done

    @property
    def wal_bytes(self) -> int:
        """WAL from the redo point to the end: the recovery distance."""
        return self.end - self.start

    def with_restored(self, image_bytes: float, compression: str) -> RecoveryWork:
        """The same work as if the restored images (``images="first"``) were in the WAL, with that mean size.
        ``record_bytes`` and ``end`` are then those of a server whose redo point is ``start``."""
        recorded = sum(image.bytes for image in self.images.values())
        bytes_ = round(self.restored * image_bytes)
        longer = bytes_ - recorded
        images = {
            name: ImageWork(self.restored, bytes_) if name == compression else ImageWork(0, 0)
            for name in self.images
        }
        return replace(
            self,
            end=Lsn(max(self.start, self.end + longer)),
            record_bytes=max(0, self.record_bytes + longer),
            images=images,
        )

    def pool(self, buffers: int, *, prefetch: bool = True) -> PoolWork:
        """The work with so many buffers and that recovery_prefetch. Raises KeyError for a size that was not
        simulated."""
        return (self.pools if prefetch else self.pools_off)[buffers]

    def requests(self, buffers: int, *, prefetch: bool = True) -> int:
        """Reads of the disk for pages, with a cold cache. Arguments are as for `pool`.

        The prefetcher asks for each page by itself; without it the kernel reads pages in order together.
        """
        pool = self.pool(buffers, prefetch=prefetch)
        return pool.disk_reads if pool.prefetches else self.disk_requests

    def checkpoint(self, buffers: int, *, prefetch: bool = True) -> dict[str, float]:
        """What the checkpoint at the end does, by name: pages that it writes (``resident``), pages that the
        kernel got before and that it only flushes (``spilled``), runs of neighbours among both (``runs``),
        segments that it recycles (``segments``: all of them, if max_wal_size is no smaller). Arguments are as
        for `pool`."""
        resident = self.pool(buffers, prefetch=prefetch).resident
        return {
            "resident": resident,
            "spilled": self.dirty - resident,
            "runs": self.runs,
            "segments": self.end // self.segment_size - self.start // self.segment_size,
        }

    def quantities(self, buffers: int, *, prefetch: bool = True) -> dict[str, float]:
        """What the CPU time of a replay is made of, by name (QUANTITIES). Arguments are as for `pool`."""
        pool = self.pool(buffers, prefetch=prefetch)
        found = {f"images_{method}": image.count for method, image in self.images.items()}
        for name in QUANTITIES:
            if name not in found:
                found[name] = getattr(self if hasattr(self, name) else pool, name)
        return {name: found[name] for name in QUANTITIES}


@dataclass(frozen=True, slots=True)
class RecoveryAnalysis:
    """What recovery has to do with the recording."""

    version: int
    system_identifier: int
    segment_size: int
    timeline: int
    start: Lsn
    finish_reason: str | None
    """Why there were no more records; None if the end was asked for."""
    gaps: tuple[Gap, ...]
    steps: tuple[RecoveryWork, ...]
    """The work up to each mark that lies before the end, then up to the end."""

    @property
    def last(self) -> RecoveryWork:
        """All of it."""
        return self.steps[-1]


@dataclass(frozen=True, slots=True)
class RedoPoint:
    """Where recovery would begin: at the redo point of the last complete checkpoint."""

    checkpoint: Lsn
    redo: Lsn
    is_shutdown: bool
    at: float
    """Unix time at which the checkpoint began, in whole seconds."""


def find_redo(
    *paths: Path,
    end: Lsn | None = None,
    timeline: int | None = None,
    threads: int | None = None,
    observe: Observe | None = None,
) -> RedoPoint:
    """Look for the last checkpoint record, from the end backwards; ``observe`` is told how far.

    Raises WalError if nothing can be read, there is no checkpoint record, or the redo point lies before the
    WAL at hand."""
    with reading(paths, threads or len(os.sched_getaffinity(0))) as wal:
        found, first = wal.call(
            wal_last_checkpoint, wal.sources, end, timeline, wal.threads, wal.observed(observe)
        )
    if found is None:
        raise WalError(
            "the WAL at hand holds no complete checkpoint, so where recovery would begin is not known",
            detail=f"It begins at {Lsn(first)}.",
            hint="Add older segments. --start=LSN takes that location as the redo point (pg_controldata "
            '"Latest checkpoint\'s REDO location"); "walproof wal whatif" needs none.',
        )
    checkpoint, redo, is_shutdown, at = found
    if redo < first:
        raise WalError(
            f"the redo point {Lsn(redo)} lies before the WAL at hand",
            detail=f"The last complete checkpoint is at {Lsn(checkpoint)}; the WAL at hand begins at "
            f"{Lsn(first)}, so {redo_missing(first, redo)} of what recovery reads is missing.",
            hint=f"Add the segments from {Lsn(redo)} on, or ask for the part at hand with "
            f"--start={Lsn(first)}.",
        )
    return RedoPoint(Lsn(checkpoint), Lsn(redo), is_shutdown, float(at))


def redo_before(
    *paths: Path, before: Lsn, timeline: int | None = None, observe: Observe | None = None
) -> Lsn | None:
    """Where a recovery may begin, at ``before`` or earlier: the redo point of a checkpoint that was complete
    by then, else where the WAL at hand begins. None if that is later."""
    if before <= 0:
        return None
    try:
        with reading(paths, len(os.sched_getaffinity(0))) as wal:
            found, first = wal.call(
                wal_last_checkpoint, wal.sources, before, timeline, wal.threads, wal.observed(observe)
            )
    except WalError:  # it begins after that
        return None
    if found is not None and found[1] >= first:
        return Lsn(found[1])
    return Lsn(first) if first <= before else None


def redo_missing(first: int, redo: int) -> str:
    """How much WAL is missing between the redo point and the first location at hand, as text."""
    from walproof.units import format_bytes

    return format_bytes(first - redo)


def check_buffers(buffers: Sequence[int]) -> list[int]:
    """Sizes of shared_buffers, in buffers of 8 kB, each once. Raises WalError for a size that no server
    has."""
    sizes = list(dict.fromkeys(buffers))
    for size in sizes:
        if not 16 <= size <= BUFFERS_MOST:
            raise WalError(
                f"shared_buffers is out of range: {size} buffers",
                detail=f"It is 16 (128 kB) to {BUFFERS_MOST} buffers of 8 kB.",
            )
    return sizes


def analyse(
    *paths: Path,
    buffers: Sequence[int],
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    concurrency: int | None = None,
    marks: Sequence[Lsn] = (),
    images: Images = "recorded",
    crashed: int | None = None,
    read_ahead_kb: int = READ_AHEAD_KB,
    observe: Observe | None = None,
) -> RecoveryAnalysis:
    """Read the WAL from ``start`` (the redo point) to ``end`` and simulate its recovery.

    ``buffers``: sizes of shared_buffers, in buffers of 8 kB; ``concurrency``: maintenance_io_concurrency, by
    default that of the version; ``marks``: ascending locations, up to each of which the work is told apart;
    ``crashed``: shared_buffers of the server that crashed, in buffers. What it had no room for it had
    written, so that pages on disk are newer than their records, which replay then passes over: without
    full_page_writes many, and the WAL is read twice. None: it had written nothing; ``read_ahead_kb``: what
    the kernel reads at once, at most (/sys/block/DISK/queue/read_ahead_kb); ``observe`` is told how far it
    has come.

    Raises WalError as ``walproof.wal.stats``, and for sizes that no server can have.
    """
    sizes = check_buffers(buffers)
    check_buffers([] if crashed is None else [crashed])
    assert all(mark <= other for mark, other in pairwise(marks)), "marks ascend"
    with reading(paths) as wal:
        raw = wal.call(
            wal_recovery,
            wal.sources,
            start,
            end,
            timeline,
            allow_gaps=allow_gaps,
            buffers=sizes,
            concurrency=concurrency,
            marks=list(marks),
            images=images,
            crashed=crashed,
            read_ahead=read_ahead_kb * 1024 // PAGE_BYTES,
            observe=wal.observed(observe),
        )
    features = raw.pop("features")
    began, segment_size = Lsn(raw["start"]), raw["segment_size"]

    def step(told: Mapping[str, Any]) -> RecoveryWork:
        return from_native(
            RecoveryWork,
            {
                **told["work"],
                "start": began,
                "end": max(began, told["end"]),
                "segment_size": segment_size,
                "pools": dict(zip(sizes, told["pools"], strict=True)),
                "pools_off": dict(zip(sizes, told["pools_off"], strict=True)),
            },
        )

    steps = [step(told) for told in features]
    return from_native(RecoveryAnalysis, {**raw, "gaps": gaps_of(raw["gaps"]), "steps": steps})
