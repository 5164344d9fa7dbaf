"""One window of pgbench's load, and what the probes see of it.

    clone, start, CHECKPOINT?, probes start, pgbench -> [ first transaction ... pgbench ends ], probes stop
    clone, start, CHECKPOINT?, pgbench, warm-up, probes start -> [ ... pgbench ends ], probes stop
                                                                 '----- window -----'

What is divided by transactions has to be of the same stretch as they are. Without warm-up all of pgbench's
work is in the window: its transactions, and what the probes counted since before it began. After a warm-up
the window opens at the reading of the WAL position, which has its time; CPU and bytes by process are read
right after it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from walproof.errors import ProbeError, WorkloadError
from walproof.facts import Workload
from walproof.lab.pgbench_target import target_of
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.probe.protocol import Probe, Subject
from walproof.probe.ratios import per_transaction
from walproof.probe.registry import COUNTING, PROBES
from walproof.probe.throughput import first_begin, read_pgbench_logs
from walproof.workload.pgbench import PgbenchRun, Summary

_SUMMARY_PATIENCE_S = 10.0


def measure_window(bench: Bench, order: TrialOrder, cluster: Cluster, measured: Measured) -> None:
    """The load of the trial on a server that runs. Raises WorkloadError, ProbeError or ClusterError."""
    workload = bench.workload(order)
    ready_at = time.time()
    load = PgbenchRun(
        bench.pgbench,
        workload,
        target_of(cluster),
        cluster.folder,
        seed=bench.seed(order),
        held=True,
    )
    probes: list[tuple[str, Probe]] = [(name, PROBES[name]()) for name in bench.plan.probes]
    try:
        summary, opened_at, closed_at = _watch(load, workload, cluster, probes, measured)
    finally:
        load.kill()
        for _, probe in probes:
            probe.abandon()
    if not cluster.is_running():
        raise WorkloadError(f"the server ended during the load: {cluster.last_complaint()}")
    measured.window_start, measured.window_s = opened_at, closed_at - opened_at
    if bench.plan.checkpoint_before:
        measured.metrics["since_checkpoint_s"] = opened_at - ready_at
    measured.add("throughput", read_pgbench_logs(load.logs, opened_at, closed_at))
    measured.metrics["pgbench_tps"] = summary.tps
    if summary.connect_ms is not None:
        measured.metrics["connect_ms"] = summary.connect_ms
    measured.metrics.update(per_transaction(measured.metrics))


def _watch(
    load: PgbenchRun,
    workload: Workload,
    cluster: Cluster,
    probes: list[tuple[str, Probe]],
    measured: Measured,
) -> tuple[Summary, float, float]:
    """pgbench's summary, when the window opened, and when it closed."""
    subject = Subject(
        conninfo=cluster.conninfo,
        data=cluster.data,
        log=cluster.log,
        postmaster_pid=cluster.pid,
        driver_pid=load.pid,
        version_num=cluster.install.version_num,
    )
    launched_at = opened_at = time.time()
    if workload.warmup_s:
        load.go()
        load.wait_until(launched_at + workload.warmup_s)
        _start([item for item in probes if item[0] not in COUNTING], subject, measured)
        _start([item for item in probes if item[0] in COUNTING], subject, measured)
        opened_at = time.time()
    else:
        _start(probes, subject, measured)
        launched_at = time.time()
        load.go()
    deadline = launched_at + load.longest_s
    load.wait_until(deadline)
    closed_at = time.time()
    # In reverse, because the first of them waits for the server's statistics, which would stretch the others.
    for name, probe in reversed(probes):
        try:
            seen = probe.stop()
        except ProbeError as error:
            measured.warnings.append(f"{name}: {error.message}")
            continue
        measured.add(name, seen)
        if workload.warmup_s and seen.opened_at is not None:
            opened_at = seen.opened_at
    if closed_at >= deadline:
        load.kill()
        raise WorkloadError(f"pgbench did not end within {load.longest_s:.0f} s")
    summary = load.finish(_SUMMARY_PATIENCE_S)
    if not workload.warmup_s:
        opened_at = _first_at(load, workload, launched_at + (summary.connect_ms or 0.0) / 1000)
    if closed_at <= opened_at:
        raise WorkloadError("pgbench ended before the window opened", hint="Use a longer duration.")
    return summary, opened_at, closed_at


def _start(probes: Sequence[tuple[str, Probe]], subject: Subject, measured: Measured) -> None:
    for name, probe in probes:
        try:
            probe.start(subject)
        except ProbeError as error:
            measured.warnings.append(f"{name}: {error.message}")


def _first_at(load: PgbenchRun, workload: Workload, connected_at: float) -> float:
    """When the load began. At a rate the wait for the first transaction belongs to it."""
    first_at = first_begin(load.logs)
    if first_at is None:
        return connected_at
    return first_at if workload.rate_tps is None else min(connected_at, first_at)
