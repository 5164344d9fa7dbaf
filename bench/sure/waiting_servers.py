"""Do servers that wait make a load faster? Where servers take turns, processors rest less than in windows.

    PYTHONPATH=. python bench/sure/waiting_servers.py [--clients 1,8] [--servers 5] [--pairs 60]

A server that does not wait for its disk (synchronous_commit=off) has a load that never stops, beside servers
without one. Before each second they all write a little, so that their background processes are as awake as a
moment after a slice. In every second one all of their processes are stopped (SIGSTOP). Printed is, for each
number of clients, the throughput beside servers that wait over that beside stopped ones, with its standard
error over pairs. Two and a half minutes for each number of clients.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from bench.sure.slice_profile import SETTINGS, fill
from walproof.facts import Workload
from walproof.lab.pgbench_target import target_of
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.processes import children
from walproof.probe.throughput import read_transactions
from walproof.workload.pgbench import PgbenchRun, setup_description

TURN_S, SETTLE_S = 1.0, 0.1


def main() -> None:
    """Measure each number of clients and print its row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", default="1,8")
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=60)
    given = parser.parse_args()
    print("| clients | tps beside stopped servers | beside servers that wait |\n|---:|---:|---:|")
    user = server_user()
    install = reachable_install(find("embedded"), user)
    pgbench = reachable_pgbench([install], user)
    for clients in map(int, given.clients.split(",")):
        workload = Workload(
            "w", "tpcb-like", (), 10, clients, min(2, clients), 3600.0, None, None, "simple", 0.0
        )
        with Workspace(Path(cache_folder("work")), user) as workspace, ExitStack() as stack:
            template = templates.prepare_loaded(
                workspace, install, (), setup_description(workload), partial(fill, pgbench, workload)
            )
            clusters = []
            for number in range(1 + given.servers):
                folder = workspace.make_folder(f"server-{number}")
                templates.clone(template, folder)
                cluster = Cluster(install, workspace, folder)
                cluster.start(SETTINGS)
                stack.callback(cluster.stop, "immediate")
                clusters.append(cluster)
            waiting, stopped = turns(clusters, pgbench, workload, given.pairs, stack)
        ratios = np.array(waiting) / np.array(stopped)
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        print(
            f"| {clients} | {np.mean(stopped) / TURN_S:,.0f} | {ratios.mean():.3f} ± {error:.3f} |",
            flush=True,
        )


def turns(
    clusters: list[Cluster], pgbench: Path, workload: Workload, pairs: int, stack: ExitStack
) -> tuple[list[int], list[int]]:
    """Transactions of each second beside servers that wait, and beside stopped ones."""
    loaded, *others = clusters
    sessions = [stack.enter_context(other.connect()) for other in others]
    processes = [pid for other in others for pid in (other.pid, *children(other.pid))]
    load = PgbenchRun(pgbench, workload, target_of(loaded), loaded.folder, seed=1)
    stack.callback(load.kill)
    time.sleep(3)
    spans: list[tuple[bool, float]] = []
    for number in range(2 * pairs):
        for session in sessions:
            session.execute("SELECT txid_current()")
        # Pairs in both orders, so that a drift favours none.
        is_stopped = (number % 2 == 1) != (number // 2 % 2 == 1)
        if is_stopped:
            _signal(processes, signal.SIGSTOP)
        time.sleep(SETTLE_S)
        spans.append((is_stopped, time.time()))
        time.sleep(TURN_S)
        _signal(processes, signal.SIGCONT)
    load.end()
    load.finish(patience_s=60)
    ended, _ = read_transactions(load.logs)
    counts: dict[bool, list[int]] = {True: [], False: []}
    for is_stopped, begin in spans:
        counts[is_stopped].append(int(((ended >= begin) & (ended < begin + TURN_S)).sum()))
    return counts[False], counts[True]


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        os.kill(pid, number)


if __name__ == "__main__":
    main()
