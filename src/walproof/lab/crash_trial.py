"""The end of a trial whose server is killed: how long it is away, and what its WAL says of other settings.

[ measured window ] -> SIGKILL of every process -> clone -> start, cache warm
                                                -> clone -> start, nothing in the page cache
                                                -> its WAL: what every variant would have written
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from walproof.facts import Crash
from walproof.lab.crash import Cache, CrashImage, MeasuredRecovery, recover
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation
from walproof.units import Lsn
from walproof.wal.target import SETTINGS, target_of
from walproof.wal.whatif import identify, simulate


def crash_and_recover(
    cluster: Cluster, workspace: Workspace, settings: Mapping[str, str], crash: Crash
) -> Observation:
    """Kill the running ``cluster`` and recover copies of its files under the same settings.

    Metrics: ``recovery_wal_bytes`` (from the redo point), ``recovery_redo_s``, ``recovery_cpu_s`` (of redo,
    from 14), ``recovery_checkpoint_s``, ``recovery_checkpoint_buffers`` (at the end of recovery),
    ``recovery_s`` (until connections are accepted); with a cold cache ``recovery_cold_redo_s``,
    ``recovery_cold_cpu_s``, ``recovery_cold_s``. Raises ClusterError, AnalysisError or DiskError.
    """
    cluster.kill()
    (cluster.data / "postmaster.pid").unlink(missing_ok=True)
    templates.sync(cluster.folder)
    image = CrashImage(cluster.install, cluster.folder)
    found = _times(recover(image, workspace, settings, name="recovery-warm"), "")
    if crash.cold:
        cold = _times(recover(image, workspace, settings, Cache.COLD, name="recovery-cold"), "cold_")
        found |= {name: cold[name] for name in _COLD if name in cold}
    return Observation(found)


_COLD = ("recovery_cold_redo_s", "recovery_cold_cpu_s", "recovery_cold_s")
"""What differs with a cold cache: the work is the same."""


def predict_variants(
    wal: Path, start: Lsn, end: Lsn, settings: Mapping[str, Mapping[str, str]]
) -> Observation:
    """What servers under ``settings``, by name, would have written instead, from the WAL of one.

    Metrics: ``recorded_wal_bytes``, ``recorded_images``; ``predicted_wal_bytes.NAME``,
    ``predicted_images.NAME``. ``start`` is just behind a checkpoint. Raises WalError.
    """
    version, segment_size = identify(wal, start=start)
    targets = [
        target_of(version, segment_size, [{name: own[name] for name in SETTINGS if name in own}])
        for own in settings.values()
    ]
    found = simulate(wal, targets=targets, start=start, end=end)
    metrics = {
        "recorded_wal_bytes": float(found.wal_bytes),
        "recorded_images": float(found.recorded.images),
    }
    for name, outcome in zip(settings, found.outcomes, strict=True):
        metrics[f"predicted_wal_bytes.{name}"] = float(outcome.wal_bytes)
        metrics[f"predicted_images.{name}"] = float(outcome.images)
    return Observation(metrics)


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
