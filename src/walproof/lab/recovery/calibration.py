"""Measures what the parts of recovery cost on this machine: a load in phases, replayed under two
shared_buffers.

    tables filled, CHECKPOINT, then phases, each ended by pg_switch_wal(), so that a phase is whole segments
      -> image of a crash -> replays: large and small shared_buffers, with and without the prefetcher;
         with a cold cache;
         and shortened ones, whose checkpoints write few runs, or many

Each phase stresses one part: records, bytes, images, random references, misses, decompression. While one
replay runs, the startup process's title tells the segment, and its schedstat the CPU
(``walproof.probe.replay``). What the figures mean is the business of ``walproof.analysis.recovery_costs``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from walproof.facts import Install
from walproof.facts.calibration import Calibration, CheckpointRun, ColdReplay, PhaseReplay
from walproof.lab.recovery.backed_memory import backed_memory
from walproof.lab.recovery.crash import Cache, CrashImage, MeasuredRecovery, check_disk, recover
from walproof.lab.recovery.disk_reads import measure_reads
from walproof.lab.recovery.kernel_work import cached_pages, first_use
from walproof.lab.recovery.load import Progress, RecoveryLoad, phases_of
from walproof.lab.recovery.sync_cost import measure_sync
from walproof.postgres.workspace import Workspace
from walproof.probe.device import find_read_ahead_kb
from walproof.units import Lsn
from walproof.wal.recovery import (
    PAGE_BYTES,
    QUANTITIES,
    RecoveryAnalysis,
    RecoveryWork,
    analyse,
    find_redo,
)
from walproof.wal.segment import segment_name, segment_start

NEED_BYTES = 5 << 30
"""Bytes that the scratch folder needs: the filled cluster, its image, and a clone of that."""
LARGE_BUFFERS, SMALL_BUFFERS = 65536, 8192
"""512 and 64 MB."""
CHECKPOINTS_AFTER = (
    ("dropped", Cache.WARM), ("scatter", Cache.WARM), ("image", Cache.WARM), ("uuid", Cache.COLD),
)  # fmt: skip
"""Phases after which a shortened replay ends, for the sake of its checkpoint: of few pages in order, of as
many in no order, of more of both, and of as many as there is room for."""
_READS_PAGES = 32768
"""Pages of a file of 256 MB."""


def calibrate(
    install: Install, workspace: Workspace, progress: Progress, *, share: float = 1.0, segment_mb: int = 16
) -> Calibration:
    """Measure everything, in about 2 minutes; the workspace holds what is needed meanwhile.

    ``share``: of the load and the sizes of shared_buffers; less than 1 measures less, and worse.
    ``segment_mb``: size of segments, of which each phase takes whole ones.

    Raises ClusterError, WalError, and DiskError (memory instead of a disk, too little space).
    """
    check_disk(workspace.folder, int(NEED_BYTES * share))
    read_ahead_kb = find_read_ahead_kb(workspace.folder)
    progress("random reads of the disk")
    latency_us, iops = measure_reads(workspace.folder, int(_READS_PAGES * share))
    progress("the sync of files")
    sync = measure_sync(workspace.folder)
    large, small = int(LARGE_BUFFERS * share), int(SMALL_BUFFERS * share)
    fresh_us, touch_us = _measure_memory(large * PAGE_BYTES)
    frames = first_use(large)
    pages = cached_pages(workspace.folder, small)
    options = () if segment_mb == 16 else (f"--wal-segsize={segment_mb}",)
    machine, image, spans = RecoveryLoad(install, workspace, share, options).crash(progress)
    try:
        phases, cold, checkpoints = _replay_all(
            image, workspace, progress, spans, (large, small), read_ahead_kb
        )
    finally:
        workspace.remove_folder(image.folder)
    return Calibration(
        machine=machine,
        made_at=time.time(),
        phases=(*phases, *pages, *(() if machine.huge_pages else (frames,))),
        cold=cold,
        checkpoints=checkpoints,
        read_iops=iops,
        read_latency_us=latency_us,
        read_ahead_kb=read_ahead_kb,
        fresh_touch_us=fresh_us,
        touch_us=touch_us,
        sync=sync,
    )


def steps() -> int:
    """How many steps a calibration tells of: reads, syncs, filling tables, phases of the load, four replays,
    checkpoints, and the replays with a cold cache."""
    checkpoints = sum(2 if cache is Cache.COLD else 1 for _, cache in CHECKPOINTS_AFTER)
    return 3 + len(phases_of(1.0)) + 4 + checkpoints + 1


def _replay_all(
    image: CrashImage,
    workspace: Workspace,
    progress: Progress,
    spans: Sequence[tuple[str, Lsn, Lsn]],
    sizes: tuple[int, int],
    read_ahead_kb: int,
) -> tuple[tuple[PhaseReplay, ...], tuple[ColdReplay, ...], tuple[CheckpointRun, ...]]:
    """Recover the image again and again. ``sizes``: the large and the small shared_buffers."""
    install, large = image.install, sizes[0]
    bounds = [spans[0][1], *(end for _, _, end in spans)]
    start = find_redo(image.wal).redo
    found = analyse(image.wal, start=start, buffers=sizes, marks=bounds, read_ahead_kb=read_ahead_kb)
    replays = []
    prefetches = _prefetches(install)
    # Twice each, so that it shows when the machine is not quiet.
    for prefetch in prefetches if len(prefetches) > 1 else prefetches * 2:
        for buffers in sizes:
            progress(
                f"replay with shared_buffers of {buffers * PAGE_BYTES >> 20} MB"
                + ("" if prefetch else ", without prefetching")
            )
            settings = _replay_settings(install, buffers, prefetch)
            measured = recover(image, workspace, settings, shares_wal=True)
            replays.append(_Replay(buffers, prefetch, measured))
    phases = tuple(row for timed in replays for row in _phase_rows(timed, spans, found))
    last = found.last
    checkpoints = [_checkpoint_run(spans[-1][0], timed, last) for timed in replays]
    for name, cache in CHECKPOINTS_AFTER:
        place = next(i for i, (phase, _, _) in enumerate(spans) if phase == name)
        # What else making room does is also told by the whole replays, and by those where nothing is cached.
        for buffers in sizes if cache is Cache.COLD else sizes[:1]:
            progress(f'checkpoint after phase "{name}", {cache.value} cache')
            until = segment_name(spans[place][2], found.timeline, found.segment_size)
            prefetch = prefetches[0]
            settings = _replay_settings(install, buffers, prefetch)
            measured = recover(image, workspace, settings, cache, until=until)
            replay = _Replay(buffers, prefetch, measured, is_wal_shared=False)
            is_cold = cache is Cache.COLD
            checkpoints.append(_checkpoint_run(name, replay, found.steps[place + 1], is_cold=is_cold))
    progress("replays with a cold cache")
    cold, cold_checkpoints = _cold(image, workspace, large, spans, found, phases)
    checkpoints += cold_checkpoints
    return phases, cold, tuple(checkpoint for checkpoint in checkpoints if checkpoint is not None)


def _measure_memory(size: int) -> tuple[float, float]:
    """(first use of 8 kB of free memory, the same again), in us."""
    with backed_memory(size) as fresh:
        pass
    with backed_memory(size) as touched:
        return fresh.touch_us, touched.touch_us


@dataclass(frozen=True, slots=True)
class _Replay:
    """One replay of the whole load with a warm cache."""

    buffers: int
    prefetch: bool
    measured: MeasuredRecovery
    is_wal_shared: bool = True


def _prefetches(install: Install) -> tuple[bool, ...]:
    """Values of recovery_prefetch to replay with; the difference is the cost of the prefetcher's calls."""
    return (True, False) if install.version_num >= 150000 else (False,)


def _phase_rows(
    replay: _Replay, spans: Sequence[tuple[str, Lsn, Lsn]], found: RecoveryAnalysis
) -> list[PhaseReplay]:
    """CPU of each phase's segments, together with what they hold."""
    size = found.segment_size
    seen = replay.measured.course.segments_cpu_s()
    costs: dict[int, float] = {segment_start(name, size): cpu for name, cpu in seen.items()}
    rows = []
    # The last phase's last segment has no end.
    for place, (name, begin, end) in enumerate(spans[:-1]):
        starts = range(begin, end, size)
        if any(start not in costs for start in starts):
            continue  # a segment so short that no look fell into it
        before, after = (
            found.steps[at].quantities(replay.buffers, prefetch=replay.prefetch) for at in (place, place + 1)
        )
        work = {key: after[key] - before[key] for key in QUANTITIES}
        cpu_s = sum(costs[start] for start in starts)
        rows.append(PhaseReplay(name, replay.buffers, replay.prefetch, cpu_s, work))
    return rows


def _checkpoint_run(
    phase: str, replay: _Replay, work: RecoveryWork, *, is_cold: bool = False
) -> CheckpointRun | None:
    checkpoint = replay.measured.times.checkpoint
    if checkpoint is None:
        return None
    found = work.checkpoint(replay.buffers, prefetch=replay.prefetch)
    pages_s = checkpoint.write_s + checkpoint.sync_s
    return CheckpointRun(
        phase,
        replay.buffers,
        checkpoint.buffers,
        resident=found["resident"],
        spilled=found["spilled"],
        runs=found["runs"],
        is_cold=is_cold,
        # Links to segments of others are gone at once.
        segments=0 if replay.is_wal_shared else checkpoint.segments,
        pages_s=pages_s,
        rest_s=max(0.0, checkpoint.total_s - pages_s),
    )


def _cold(
    image: CrashImage,
    workspace: Workspace,
    buffers: int,
    spans: Sequence[tuple[str, Lsn, Lsn]],
    found: RecoveryAnalysis,
    warm: Sequence[PhaseReplay],
) -> tuple[tuple[ColdReplay, ...], list[CheckpointRun | None]]:
    """Phases replayed with a cold cache, each with the median of its ``warm`` replays; and checkpoints."""
    places = {name: place for place, (name, _, _) in enumerate(spans)}
    cold, checkpoints = [], []
    for prefetch in _prefetches(image.install):
        settings = _replay_settings(image.install, buffers, prefetch)
        measured = recover(image, workspace, settings, Cache.COLD, shares_wal=True)
        replay = _Replay(buffers, prefetch, measured)
        checkpoints.append(_checkpoint_run(spans[-1][0], replay, found.last, is_cold=True))
        for row in _phase_rows(replay, spans, found):
            key = (row.phase, row.buffers, row.prefetch)
            same = [other.cpu_s for other in warm if (other.phase, other.buffers, other.prefetch) == key]
            if not same:
                continue
            before, after = (found.steps[places[row.phase] + at] for at in (0, 1))
            cold.append(
                ColdReplay(
                    row.phase,
                    buffers,
                    prefetch,
                    cpu_s=row.cpu_s,
                    warm_cpu_s=median(same),
                    wal_bytes=row.work["record_bytes"],
                    requests=after.requests(buffers, prefetch=prefetch)
                    - before.requests(buffers, prefetch=prefetch),
                )
            )
    return tuple(cold), checkpoints


def _replay_settings(install: Install, buffers: int, prefetch: bool) -> dict[str, str]:
    settings = {
        "shared_buffers": f"{buffers * PAGE_BYTES >> 10}kB",
        "autovacuum": "off",
        # What it writes during replay, the checkpoint need not write; how much depends on time.
        "bgwriter_lru_maxpages": "0",
        # Segments are recycled, as on a server that may have so many.
        "max_wal_size": "20GB",
    }
    if install.version_num >= 150000:
        settings["recovery_prefetch"] = "try" if prefetch else "off"
    return settings
