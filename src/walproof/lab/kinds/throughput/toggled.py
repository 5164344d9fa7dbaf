"""One start of a server whose settings are toggled under a load that never stops.

    clone, start, CHECKPOINT?, pgbench, warm-up -> [ reload, guard, slice ] ... -> pgbench ends -> stop

Before each slice the settings of its variant replace those of the previous slice (a file and SIGHUP). The
slice begins when a session has been seen to have them and the guard time has passed. So the server is its own
control: memory layout, caches, tables and WAL are the same for all variants."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import psycopg

from walproof.errors import WorkloadError
from walproof.facts import Toggling, Variant
from walproof.lab.kinds.throughput.seen import SliceSeen, stored
from walproof.lab.pgbench_tables import open_server, watching_settings
from walproof.lab.pgbench_target import target_of
from walproof.lab.slice_order import slice_orders
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.probe.checkpoints import CheckpointProbe
from walproof.probe.protocol import Subject
from walproof.probe.slices import count_transactions, cpu_spent_s, read_edge, server_cpu_ns
from walproof.probe.throughput import read_pgbench_logs
from walproof.workload.pgbench import PgbenchRun

_MARKER = "walproof.slice"
"""A setting of ours on which nothing acts: a session that has a slice's number in it has the slice's
settings."""
_POLL_S = 0.001
_PATIENCE_S = 60.0
_SETTLE_S = 1.0
"""The least load before the first slice, in seconds."""
_SLACK = 5
"""pgbench is given this many times the time that the slices take; it is ended when they are done."""

Connection = psycopg.Connection[tuple[object, ...]]


def toggle(bench: Bench, order: TrialOrder, cluster: Cluster, measured: Measured) -> None:
    """Start the server, load it, and note its slices. Raises WorkloadError, ProbeError or ClusterError."""
    toggling = bench.plan.toggling
    assert toggling is not None, "the plan toggles"
    variants = {variant.name: variant for variant in bench.plan.toggled}
    orders = slice_orders(list(variants), toggling.passes, f"{bench.plan.seed}/{order.round}")
    open_server(bench, order, cluster, {}, measured)
    ready_at = time.time()
    workload = bench.workload(order)
    longest_s = _SLACK * toggling.start_s(len(variants)) + _PATIENCE_S
    endless = replace(workload, duration_s=longest_s, transactions=None)
    load = PgbenchRun(bench.pgbench, endless, target_of(cluster), cluster.folder, seed=bench.seed(order))
    checkpoints = CheckpointProbe()
    try:
        with cluster.connect() as connection:
            wait_until_connected(connection, load, workload.clients)
            time.sleep(max(_SETTLE_S, workload.warmup_s))
            checkpoints.start(_subject(cluster, load))
            seen = [
                _slice(bench, cluster, connection, load, toggling, variants[name], number, place)
                for number, names in enumerate(orders, 1)
                for place, name in enumerate(names, 1)
            ]
            measured.add("checkpoints", checkpoints.stop())
        load.end()
        summary = load.finish(_PATIENCE_S)
    finally:
        load.kill()
        checkpoints.abandon()
    measured.window_start = seen[0].begin.at
    measured.window_s = seen[-1].end.at - seen[0].begin.at
    measured.add("throughput", read_pgbench_logs(load.logs, seen[0].begin.at, seen[-1].end.at))
    measured.metrics["pgbench_tps"] = summary.tps
    if bench.plan.checkpoint_before:
        measured.metrics["since_checkpoint_s"] = seen[0].begin.at - ready_at
    counted = count_transactions(load.logs, [(span.begin.at, span.end.at) for span in seen])
    measured.slices = stored(seen, counted, has_latencies=True)


def _slice(
    bench: Bench,
    cluster: Cluster,
    connection: Connection,
    load: PgbenchRun,
    toggling: Toggling,
    variant: Variant,
    pass_number: int,
    position: int,
) -> SliceSeen:
    marker = f"{pass_number}.{position}"
    settings: Mapping[str, str] = {
        **watching_settings(bench.plan, cluster.install.version_num),
        **bench.plan.settings_of(variant),
        _MARKER: marker,
    }
    cluster.reload(settings)
    _wait_until_taken(connection, cluster, marker)
    time.sleep(toggling.guard_s)
    cpu = server_cpu_ns(cluster.pid)
    begin = read_edge(connection)
    time.sleep(max(0.0, begin.at + toggling.slice_s - time.time()))
    end = read_edge(connection)
    spent_s = cpu_spent_s(cpu, server_cpu_ns(cluster.pid))
    if load.poll():
        load.finish(_PATIENCE_S)  # says why, where pgbench does
        raise WorkloadError("pgbench ended before the slices did")
    return SliceSeen(pass_number, position, variant.name, begin, end, spent_s)


def wait_until_connected(connection: Connection, load: PgbenchRun, clients: int) -> None:
    """Return when all of pgbench's sessions are there. Raises WorkloadError."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'"
    deadline = time.monotonic() + _PATIENCE_S
    while int(str((connection.execute(query).fetchone() or (0,))[0])) < clients:
        if load.poll():
            load.finish(_PATIENCE_S)
            raise WorkloadError("pgbench ended before the first slice")
        if (said := load.aborted()) is not None:
            # The others go on, and the count would never be reached.
            raise WorkloadError(f"pgbench failed: {said}")
        if time.monotonic() > deadline:
            raise WorkloadError(f"pgbench did not connect {clients} sessions within {_PATIENCE_S:.0f} s")
        time.sleep(0.02)


def _wait_until_taken(connection: Connection, cluster: Cluster, marker: str) -> None:
    """Return when a session has the settings of the slice. Raises WorkloadError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        row = connection.execute("SELECT current_setting(%s, true)", (_MARKER,)).fetchone()
        if row is not None and row[0] == marker:
            return
        if time.monotonic() > deadline:
            raise WorkloadError(
                f"the server did not take its settings within {_PATIENCE_S:.0f} s",
                detail=cluster.last_complaint(),
            )
        time.sleep(_POLL_S)


def _subject(cluster: Cluster, load: PgbenchRun) -> Subject:
    return Subject(
        conninfo=cluster.conninfo,
        data=cluster.data,
        log=cluster.log,
        postmaster_pid=cluster.pid,
        driver_pid=load.pid,
        version_num=cluster.install.version_num,
    )
