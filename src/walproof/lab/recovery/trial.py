"""The end of a trial whose server is killed: how long it is away, and what its WAL says about other settings.

[ measured window ] -> SIGKILL of every process -> clone -> start, cache warm
                                                -> clone -> start, nothing in the page cache
                                                -> the same, with few reads a second
                                                -> what was flushed, as after a power cut, cache cold
                                                -> its WAL: how much it is, and, of the baseline's, what every
                                                   variant would have written and had to replay
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import SimulatedDisk
from walproof.errors import DiskError, WalproofError
from walproof.facts import Crash
from walproof.lab.recovery.crash import (
    Cache,
    CrashImage,
    MeasuredRecovery,
    crash_server,
    recover,
)
from walproof.lab.sizes import shared_buffers
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation
from walproof.units import Lsn
from walproof.wal.recovery import Images, analyse
from walproof.wal.whatif import SimulatedRun, Target, WhatIf, identify, simulate
from walproof.wal.whatif_target import SETTINGS, target_of


def crash_and_recover(
    cluster: Cluster,
    workspace: Workspace,
    settings: Mapping[str, str],
    crash: Crash,
    disk: SimulatedDisk | None,
) -> Observation:
    """Kill the running ``cluster`` and recover copies of its files under the same settings.

    ``disk`` is what it runs on where its power is to be cut, at the same moment.

    Metrics: ``recovery_wal_bytes`` (from the redo point), ``recovery_redo_s``, ``recovery_cpu_s`` (of redo,
    from 14), ``recovery_checkpoint_s``, ``recovery_checkpoint_buffers`` (at the end of recovery),
    ``recovery_s`` (until connections are accepted); with a cold cache ``recovery_cold_redo_s``,
    ``recovery_cold_cpu_s``, ``recovery_cold_s``, and where reads are limited, too,
    ``recovery_limited_redo_s`` and so on, a warning where they cannot be; after a power cut, of which nothing
    survives that was not flushed, ``recovery_cut_redo_s`` and so on and ``recovery_cut_wal_bytes``, a warning
    where the server does not come back. Raises ClusterError, AnalysisError or DiskError.
    """
    if disk is not None:
        disk.check_attached()
        disk.cut()
        disk.settle()
    image = crash_server(cluster)
    found = _times(recover(image, workspace, settings, name="recovery-warm"), "")
    warnings = []
    if crash.cold:
        found |= _cold(recover(image, workspace, settings, Cache.COLD, name="recovery-cold"), "cold_")
    if crash.iops is not None:
        try:
            limited = recover(
                image, workspace, settings, Cache.COLD, name="recovery-limited", iops=crash.iops
            )
            found |= _cold(limited, "limited_")
        except DiskError as error:
            warnings.append(f"no recovery with {crash.iops} reads a second: {error.message}")
    if disk is not None:
        try:
            cut = _recover_flushed(disk, image, workspace, settings)
            found |= _cold(cut, "cut_") | {"recovery_cut_wal_bytes": float(cut.times.wal_bytes)}
        except WalproofError as error:
            warnings.append(f"no recovery from the power cut: {error.message}")
    return Observation(found, warnings=tuple(warnings))


def _recover_flushed(
    disk: SimulatedDisk, image: CrashImage, workspace: Workspace, settings: Mapping[str, str]
) -> MeasuredRecovery:
    """Recover from the files as they are when everything that was not flushed is lost: replay has the most to
    do."""
    folder = workspace.make_folder("power-cut")
    try:
        build_image(disk, [folder / "data"], 0, Survival("nothing"))
        templates.sync(folder)
        flushed = CrashImage(image.install, folder)
        return recover(flushed, workspace, settings, Cache.COLD, name="recovery-cut")
    finally:
        workspace.remove_folder(folder)


def _cold(measured: MeasuredRecovery, prefix: str) -> dict[str, float]:
    """The metrics that differ with a cold cache; the work is the same."""
    times = _times(measured, prefix)
    names = (f"recovery_{prefix}{name}" for name in ("redo_s", "cpu_s", "s"))
    return {name: times[name] for name in names if name in times}


def predict_variants(wal: Path, start: Lsn, settings: Mapping[str, Mapping[str, str]]) -> Observation:
    """What the WAL of a load is, and what servers under ``settings``, by name, would have made of the load.

    It ends where that of the killed server does: records that it had not written yet are in no file.

    Metrics: ``recorded_wal_bytes``, ``recorded_images``; for each of ``settings``
    ``predicted_wal_bytes.NAME``, ``predicted_images.NAME``, and of recovery from a crash at the end
    ``predicted_recovery_wal_bytes.NAME`` and its work, ``predicted_QUANTITY.NAME``
    (``walproof.wal.recovery.QUANTITIES`` and ``RecoveryWork.checkpoint``).
    ``start`` is just after a checkpoint. Raises WalError.
    """
    version, segment_size = identify(wal, start=start)
    targets = [
        target_of(version, segment_size, [{name: changed[name] for name in SETTINGS if name in changed}])
        for changed in settings.values()
    ]
    found = simulate(wal, targets=targets, start=start)
    metrics = {
        "recorded_wal_bytes": float(found.wal_bytes),
        "recorded_images": float(found.recorded.images),
    }
    for (name, changed), target, outcome in zip(settings.items(), targets, found.outcomes, strict=True):
        metrics[f"predicted_wal_bytes.{name}"] = float(outcome.wal_bytes)
        metrics[f"predicted_images.{name}"] = float(outcome.images)
        prefetch = changed.get("recovery_prefetch") != "off"
        buffers = shared_buffers(version * 10000, changed)
        work = _recovery_work(wal, found, outcome, target, buffers, prefetch=prefetch)
        metrics |= {f"predicted_{quantity}.{name}": count for quantity, count in work.items()}
    return Observation(metrics)


def _recovery_work(
    wal: Path,
    found: WhatIf,
    outcome: SimulatedRun,
    target: Target,
    buffers: int,
    *,
    prefetch: bool,
) -> dict[str, float]:
    """Work after a crash at the end: the records since the simulated redo point, with the simulated
    images."""
    redo = Lsn(found.start + outcome.crash_offset)
    images: Images = "first" if target.full_page_writes else "off"
    analysis = analyse(wal, start=redo, end=found.end, buffers=[buffers], images=images, crashed=buffers)
    as_recorded = target.wal_compression == "as recorded"
    compression = found.recorded.compression if as_recorded else target.wal_compression
    mean = outcome.image_bytes / outcome.images if outcome.images else 0.0
    work = analysis.last.with_restored(mean, compression)
    counts = work.quantities(buffers, prefetch=prefetch) | work.checkpoint(buffers, prefetch=prefetch)
    return {
        "recovery_wal_bytes": float(work.wal_bytes),
        **{name: float(count) for name, count in counts.items()},
    }


def _times(measured: MeasuredRecovery, prefix: str) -> dict[str, float]:
    times = measured.times
    checkpoint = times.checkpoint
    found = {
        "wal_bytes": float(times.wal_bytes),
        "redo_s": times.redo_elapsed_s,
        "cpu_s": times.cpu_s,
        "checkpoint_s": None if checkpoint is None else checkpoint.total_s,
        "checkpoint_buffers": None if checkpoint is None else float(checkpoint.buffers),
        "s": times.total_s,
    }
    return {f"recovery_{prefix}{name}": value for name, value in found.items() if value is not None}
