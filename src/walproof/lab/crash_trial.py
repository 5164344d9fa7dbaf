"""The end of a trial whose server is killed: how long it is away.

[ measured window ] -> SIGKILL of every process -> clone -> start, cache warm
                                                -> clone -> start, nothing in the page cache
"""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts import Crash
from walproof.lab.crash import Cache, CrashImage, MeasuredRecovery, recover
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation


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
