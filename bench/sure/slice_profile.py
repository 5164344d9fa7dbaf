"""How fast is a load after it was stopped, and while somebody looks at it? What slices have to leave out.

    PYTHONPATH=. python bench/sure/slice_profile.py [--clients 1,4,16] [--turns 80]

A server that does not wait for its disk (synchronous_commit=off) has a load that is stopped for 0.7 s and
runs for a second, in turn, as where servers take turns. Printed is, for each number of clients, the
throughput of each 25 ms after the load goes on, over that of the rest of the second, with standard errors
over turns. A client and its session that have both waited may begin on one processor, where they wake each
other without an interrupt, until the kernel puts them on two.

In every second turn a process looks every 2 ms whether pgbench has ended, as windows did until November 2026.
The last column is the throughput of the rest of the second with looks over that without, with its standard
error over pairs. Two minutes for each number of clients.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from walproof.facts import Workload
from walproof.lab.pgbench_target import target_of
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.throughput import read_transactions
from walproof.workload.pgbench import PgbenchRun, initialise, setup_description

STOPPED_S, AWAKE_S, LOOK_S = 0.7, 1.0, 0.002
BIN_S, SHOWN, LATER = 0.025, 8, 10
"""Length of a bin; how many are shown; from which on the load is as it stays."""
SETTINGS = {
    "synchronous_commit": "off", "shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
}  # fmt: skip

Counts = NDArray[np.int64]
"""Transactions that ended, shape (turns, bins)."""


def main() -> None:
    """Measure each number of clients and print its row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--turns", type=int, default=80)
    parser.add_argument("--scale", type=int, default=10)
    given = parser.parse_args()
    edges = [round(1000 * BIN_S * number) for number in range(SHOWN + 1)]
    heads = " | ".join(f"{low} to {high} ms" for low, high in pairwise(edges))
    print(f"| clients | tps later | {heads} | looked at |")
    print("|---:" * (SHOWN + 3) + "|")
    user = server_user()
    install = reachable_install(find("embedded"), user)
    pgbench = reachable_pgbench([install], user)
    for clients in map(int, given.clients.split(",")):
        workload = Workload(
            "w", "tpcb-like", (), given.scale, clients, min(2, clients), 3600.0, None, None, "simple", 0.0
        )
        with Workspace(Path(cache_folder("work")), user) as workspace:
            template = templates.prepare_loaded(
                workspace, install, (), setup_description(workload),
                partial(fill, pgbench, workload),
            )  # fmt: skip
            folder = workspace.make_folder("profiled")
            templates.clone(template, folder)
            counts = profile(Cluster(install, workspace, folder), pgbench, workload, given.turns)
        looked, counts = counts[1::2], counts[::2]
        later = counts[:, LATER:].mean()
        pairs = looked[:, LATER:].mean(axis=1) / counts[: len(looked), LATER:].mean(axis=1)
        beside = f"{pairs.mean():.2f} ± {pairs.std(ddof=1) / np.sqrt(len(pairs)):.2f}"
        shares = counts[:, :SHOWN].mean(axis=0) / later
        errors = counts[:, :SHOWN].std(axis=0, ddof=1) / np.sqrt(len(counts)) / later
        cells = [f"{share:.2f} ± {error:.2f}" for share, error in zip(shares, errors, strict=True)]
        print(f"| {clients} | {later / BIN_S:,.0f} | " + " | ".join([*cells, beside]) + " |", flush=True)


def fill(pgbench: Path, workload: Workload, cluster: Cluster) -> None:
    """Make pgbench's tables."""
    initialise(pgbench, workload, target_of(cluster))


def profile(cluster: Cluster, pgbench: Path, workload: Workload, turns: int) -> Counts:
    """Transactions that ended in each bin of each turn; in every second one the load was looked at."""
    cluster.start(SETTINGS)
    load = PgbenchRun(pgbench, workload, target_of(cluster), cluster.folder, seed=1)
    begins = []
    try:
        time.sleep(3)
        for turn in range(turns):
            load.pause()
            time.sleep(STOPPED_S)
            begins.append(time.time())
            load.resume()
            while turn % 2 and time.time() < begins[-1] + AWAKE_S:
                load.poll()
                time.sleep(LOOK_S)
            time.sleep(max(0.0, begins[-1] + AWAKE_S - time.time()))
        load.end()
        load.finish(patience_s=60)
        ended, _ = read_transactions(load.logs)
    finally:
        load.kill()
        cluster.stop("immediate")
    edges = np.arange(round(AWAKE_S / BIN_S) + 1) * BIN_S
    return np.array([np.histogram(ended - begin, edges)[0] for begin in begins])


if __name__ == "__main__":
    main()
