"""What the probes cost: throughput with all of them over throughput with none.

One load runs all the time; in pairs of neighbouring segments, in random order, the probes observe one and
leave the other alone, so that what the machine does meanwhile meets both alike. The load is bound by the
processor (synchronous_commit=off), where an observer takes from the observed. Goal: less than 2 % together.

    python bench/probe_overhead.py [PAIRS [SECONDS]]
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from pathlib import Path

from walproof.analysis.interval import mean_interval
from walproof.facts import Workload
from walproof.lab.target import target_of
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.protocol import Subject
from walproof.probe.registry import PROBES
from walproof.probe.throughput import read_pgbench_logs
from walproof.workload.pgbench import PgbenchRun, initialise, setup_description

GAP_S = 1.0
"""Between segments: probes take their last readings here."""


def main() -> None:
    """Run the pairs and print the ratio with its interval."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    length = 5 + pairs * 2 * (seconds + GAP_S + 0.5)
    workload = Workload("w", "tpcb-like", (), 50, 50, 2, length, None, None, "simple", 0.0)
    user = server_user()
    install = reachable_install(find("embedded"), user)
    pgbench = reachable_pgbench([install], user)

    with Workspace(Path(cache_folder("work")), user) as workspace:
        setup = setup_description(workload)
        template = templates.prepare_loaded(
            workspace, install, (), setup, lambda cluster: initialise(pgbench, workload, target_of(cluster))
        )
        folder = workspace.make_folder("overhead")
        templates.clone(template, folder)
        cluster = Cluster(install, workspace, folder)
        cluster.start(
            {"synchronous_commit": "off", "track_wal_io_timing": "on", "log_checkpoints": "on",
             "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
        )  # fmt: skip
        load = PgbenchRun(pgbench, workload, target_of(cluster), folder, seed=1)
        subject = Subject(
            cluster.conninfo, cluster.data, cluster.log, cluster.pid, load.pid, install.version_num
        )
        try:
            segments = _observe_in_turns(subject, pairs, seconds)
            load.finish(patience_s=length)
            tps = [
                {which: read_pgbench_logs(load.logs, *span).metrics["tps"] for which, span in pair.items()}
                for pair in segments
            ]
        finally:
            load.kill()
            cluster.stop("immediate")
    logs = [math.log(pair["with"] / pair["without"]) for pair in tps]
    interval = mean_interval(logs)
    assert interval is not None
    mean = math.exp(statistics.fmean(logs))
    print(f"{pairs} pairs of {seconds:g} s at {statistics.fmean(p['without'] for p in tps):,.0f} tps")
    low, high = math.exp(interval.low), math.exp(interval.high)
    median = math.exp(statistics.median(logs))
    print(f"all probes / none: {mean:.4f} ({low:.4f} to {high:.4f}, 95 %), median {median:.4f}")


def _observe_in_turns(subject: Subject, pairs: int, seconds: float) -> list[dict[str, tuple[float, float]]]:
    """(begin, end) of each pair's segments with and without probes."""
    chance = random.Random(1)
    time.sleep(3)
    found = []
    for _ in range(pairs):
        order = ["with", "without"]
        chance.shuffle(order)
        pair = {}
        for which in order:
            probes = [PROBES[name]() for name in PROBES] if which == "with" else []
            for probe in probes:
                probe.start(subject)
            begun = time.time()
            time.sleep(seconds)
            pair[which] = (begun, time.time())
            for probe in reversed(probes):
                probe.stop()
            time.sleep(GAP_S)
        found.append(pair)
    return found


if __name__ == "__main__":
    main()
