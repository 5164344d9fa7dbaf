"""What the probes cost: throughput of slices with all of them over slices with none.

One load runs all the time on one server, as where settings are toggled (docs/designs.md); in each pass of two
slices, in a drawn order, the probes observe one and leave the other alone. So the server is its own control,
and what the machine does meanwhile meets both alike. The load is bound by the processor
(synchronous_commit=off), where an observer takes from the observed. Goal: less than 2 % together.

What a probe does when it starts and when it stops lies outside of the slice, as it lies outside of a window.

    python bench/probe_overhead.py [STARTS [PASSES [SECONDS]]]
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import psycopg

from walproof.analysis.carry_over import fit_carry_over
from walproof.analysis.toggled import estimate
from walproof.facts import Slice, Workload
from walproof.lab.pgbench_target import target_of
from walproof.lab.slice_order import slice_orders
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.protocol import Subject
from walproof.probe.registry import PROBES
from walproof.probe.slices import Edge, count_transactions, read_edge
from walproof.workload.pgbench import PgbenchRun, initialise, setup_description

GAP_S = 0.3
"""After probes have started or stopped, before the next slice: what they do then is over."""
WITH, WITHOUT = "all probes", "no probe"


def main() -> None:
    """Run the starts and print the ratio with its interval, and what probes leave to the slice after them."""
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    passes = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    user = server_user()
    install = reachable_install(find("embedded"), user)
    pgbench = reachable_pgbench([install], user)
    workload = Workload("w", "tpcb-like", (), 50, 50, 2, 60.0, None, None, "simple", 0.0)
    with Workspace(Path(cache_folder("work")), user) as workspace:
        template = templates.prepare_loaded(
            workspace, install, (), setup_description(workload),
            lambda cluster: initialise(pgbench, workload, target_of(cluster)),
        )  # fmt: skip
        found = []
        for number in range(1, starts + 1):
            folder = workspace.make_folder(f"start-{number}")
            templates.clone(template, folder)
            found.append(
                _start(Cluster(install, workspace, folder), pgbench, workload, number, passes, seconds)
            )
            workspace.remove_folder(folder)
    pairs = [
        (
            [slice_ for slice_ in slices if slice_.variant == WITH],
            [slice_ for slice_ in slices if slice_.variant == WITHOUT],
        )
        for slices in found
    ]
    seen = estimate(pairs, "tps")
    assert seen is not None
    assert seen.log_interval is not None
    interval = seen.log_interval.exp()
    without = [slice_.transactions / slice_.length_s for _, base in pairs for slice_ in base]
    print(f"{starts} starts of {passes} passes of {seconds:g} s at {statistics.fmean(without):,.0f} tps")
    print(f"all / none: {math.exp(seen.log_ratio):.4f} ({interval.low:.4f} to {interval.high:.4f}, 95 %)")
    print(f"the starts: {', '.join(f'{math.exp(_whole(watched, base)):.4f}' for watched, base in pairs)}")
    _, ratio, left, _ = fit_carry_over(found, WITHOUT, [WITH], "tps")[WITH]
    print(f"left to the slice after: {ratio:.4f} ({left.low:.4f} to {left.high:.4f})")
    print(f"below 2 %: {'yes' if interval.low > 0.98 else 'not shown' if interval.high > 0.98 else 'no'}")


def _start(
    cluster: Cluster, pgbench: Path, workload: Workload, number: int, passes: int, seconds: float
) -> tuple[Slice, ...]:
    """The slices of one start of a server."""
    cluster.start(
        {"synchronous_commit": "off", "track_wal_io_timing": "on", "log_checkpoints": "on",
         "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
    )  # fmt: skip
    endless = replace(workload, duration_s=60 + 10 * passes * (seconds + GAP_S))
    load = PgbenchRun(pgbench, endless, target_of(cluster), cluster.folder, seed=number)
    subject = Subject(
        cluster.conninfo, cluster.data, cluster.log, cluster.pid, load.pid, cluster.install.version_num
    )
    try:
        time.sleep(3)
        with cluster.connect() as connection:
            seen = [
                (at, place, which, *_slice(connection, subject, which, seconds))
                for at, order in enumerate(slice_orders((WITHOUT, WITH), passes, f"1/{number}"), 1)
                for place, which in enumerate(order, 1)
            ]
        load.end()
        load.finish(patience_s=60)
        counts = count_transactions(load.logs, [(begin.at, end.at) for *_, begin, end in seen])
    finally:
        load.kill()
        cluster.stop("immediate")
    before = [None, *(which for _, _, which, _, _ in seen)]
    return tuple(
        Slice(
            number=at, pass_number=pass_number, position=place, variant=which, predecessor=before[at - 1],
            began_at=begin.at, ended_at=end.at, lsn_begin=begin.lsn, lsn_end=end.lsn,
            transactions=count.transactions, latency_ms_sum=count.latency_ms_sum,
            latency_ms_p50=count.latency_ms_p50, latency_ms_p95=count.latency_ms_p95,
            latency_ms_p99=count.latency_ms_p99, cpu_s=None,
        )
        for at, ((pass_number, place, which, begin, end), count) in enumerate(
            zip(seen, counts, strict=True), 1
        )
    )  # fmt: skip


def _slice(
    connection: psycopg.Connection[tuple[object, ...]], subject: Subject, which: str, seconds: float
) -> tuple[Edge, Edge]:
    probes = [PROBES[name]() for name in PROBES] if which == WITH else []
    try:
        for probe in probes:
            probe.start(subject)
        time.sleep(GAP_S)
        begin = read_edge(connection)
        time.sleep(seconds)
        end = read_edge(connection)
        for probe in reversed(probes):
            probe.stop()
    finally:
        for probe in probes:
            probe.abandon()
    time.sleep(GAP_S)
    return begin, end


def _whole(watched: list[Slice], base: list[Slice]) -> float:
    """Logarithm of the ratio of the totals of a start."""
    first, second = (
        sum(slice_.transactions for slice_ in side) / sum(slice_.length_s for slice_ in side)
        for side in (watched, base)
    )
    return math.log(first / second)


if __name__ == "__main__":
    main()
