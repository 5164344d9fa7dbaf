"""What the simulated disk costs: throughput with and without the library, and CPU per write and per flush.

    PYTHONPATH=. python bench/preload_overhead.py [PAIRS [SECONDS]]

Two servers on the real disk, one with the library that keeps what a cut would undo (flushes still reach the
disk), one without; in pairs of neighbouring segments, in random order, pgbench loads one and then the other.
Goal: at least 0.97x with synchronous commits, 0.92x without. Then a small program writes and flushes on
tmpfs, with the library and without: its CPU time per call, interleaved.

Beside the throughput stand the flushes of WAL that the servers count (pg_stat_io, track_wal_io_timing): how
long a flush and a write take, and how many transactions share a flush. They tell whether the library makes a
flush longer, or whether fewer commits meet in a flush.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from walproof.analysis.interval import mean_interval
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.facts import Workload
from walproof.lab.pgbench_target import target_of
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.pgbench import PgbenchRun, initialise, setup_description

SCALE, CLIENTS, ROUNDS, CALLS = 10, 16, 7, 60_000
# Flushed now and then, so that the log of old contents stays as small as under a server.
PROGRAM = """
import json, os, random, resource, sys
path, calls, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 64 << 20)
os.fdatasync(fd)
page, rng = os.urandom(8192), random.Random(1)
places = [rng.randrange(8192) * 8192 if every > 1 else n % 8192 * 8192 for n in range(calls)]
before = resource.getrusage(resource.RUSAGE_SELF)
for number, place in enumerate(places):
    os.pwrite(fd, page, place)
    if number % every == 0:
        os.fdatasync(fd)
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps(1e6 * cpu / calls))
"""


def main() -> None:
    """Run both parts and print them."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    for name, settings in (
        ("synchronous commit", {}),
        ("synchronous_commit=off", {"synchronous_commit": "off"}),
    ):
        # Two halves, in which the servers lie on the disk in either order.
        first, memory, flushes = throughput(pairs // 2, seconds, settings, ("without", "with"))
        second, more, others = throughput(pairs - pairs // 2, seconds, settings, ("with", "without"))
        ratios, memory = first + second, max(memory, more)
        interval = mean_interval([math.log(ratio) for ratio in ratios])
        assert interval is not None
        low, high = math.exp(interval.low), math.exp(interval.high)
        middle = math.exp(statistics.fmean(map(math.log, ratios)))
        print(
            f"{name}: {middle:.3f}x ({low:.3f} to {high:.3f}) of the tps without the library, median "
            f"{statistics.median(ratios):.3f}x, {pairs} pairs of {seconds} s; "
            f"undo log {memory / 2**20:.1f} MiB at most",
            flush=True,
        )
        for server in ("without", "with"):
            print(f"  {server}: {words(flushes[server] + others[server])}", flush=True)
    for name, every in (("8 kB write", 64), ("8 kB write and its flush", 1)):
        bare, tracked = zip(*(calls(every) for _ in range(ROUNDS)), strict=True)
        print(
            f"{name}: {statistics.median(bare):.2f} us of CPU without, "
            f"{statistics.median(tracked):.2f} us with the library (medians of {ROUNDS} rounds of "
            f"{CALLS:,} calls, the caller's own time in both)",
            flush=True,
        )


def words(counts: Counter[str]) -> str:
    """Flushes and writes, each with its time."""
    return (
        f"{counts['transactions'] / counts['flushes']:.2f} transactions a flush of WAL, "
        f"{1e3 * counts['flush_ms'] / counts['flushes']:.0f} us a flush, "
        f"{counts['writes'] / counts['flushes']:.2f} writes a flush, "
        f"{1e3 * counts['write_ms'] / counts['writes']:.1f} us a write"
    )


def counted(cluster: Cluster) -> dict[str, float]:
    """What the server has counted so far, of WAL that clients and the WAL writer flush."""
    with cluster.connect() as session:
        row = session.execute(
            "SELECT (SELECT sum(xact_commit) FROM pg_stat_database)::float8, sum(fsyncs)::float8, "
            "sum(fsync_time), sum(writes)::float8, sum(write_time) FROM pg_stat_io "
            "WHERE object = 'wal' AND context = 'normal'"
        ).fetchone()
    assert row is not None
    names = ("transactions", "flushes", "flush_ms", "writes", "write_ms")
    return {name: float(str(value)) for name, value in zip(names, row, strict=True)}


def throughput(
    pairs: int, seconds: int, settings: dict[str, str], order: tuple[str, str]
) -> tuple[list[float], int, dict[str, Counter[str]]]:
    """Ratio of tps with and without the library in each pair; the largest size of the undo log in bytes; what
    each server counted."""
    workload = Workload("w", "tpcb-like", (), SCALE, CLIENTS, 2, seconds, None, None, "prepared", 0.0)
    user = server_user()
    install = reachable_install(find("embedded"), user)
    pgbench = reachable_pgbench([install], user)
    ratios = []
    flushes: dict[str, Counter[str]] = {"without": Counter(), "with": Counter()}
    with Workspace(Path(cache_folder("work")), user) as workspace, ExitStack() as stack:

        def load(cluster: Cluster) -> None:
            initialise(pgbench, workload, target_of(cluster))

        setup = setup_description(workload)
        template = templates.prepare_loaded(workspace, install, (), setup, load)
        clusters = {}
        for name in order:
            folder = workspace.make_folder(name)
            templates.clone(template, folder)
            environment = {}
            if name == "with":
                model = DiskModel(real_flush=True, undo_bytes=4 << 30)
                state = STATE_FOLDER / f"{workspace.folder.name}-overhead"
                disk = stack.enter_context(
                    SimulatedDisk([folder / "data"], model, state, user=workspace.user)
                )
                environment = disk.environment
            cluster = clusters[name] = Cluster(install, workspace, folder, environment)
            stack.callback(cluster.stop, "immediate")
            timed = {"max_wal_size": "4GB", "autovacuum": "off", "track_wal_io_timing": "on"}
            cluster.start({**settings, **timed})
        disk.check_attached()
        for pair in range(pairs):
            tps = {}
            for name in random.Random(pair).sample(["with", "without"], 2):
                cluster = clusters[name]
                before = counted(cluster)
                run = PgbenchRun(pgbench, workload, target_of(cluster), cluster.folder, seed=pair)
                while not run.poll():
                    time.sleep(0.05)
                tps[name] = run.finish(10).tps
                # Sessions report what they counted when they leave.
                time.sleep(0.3)
                flushes[name].update(counted(cluster))
                flushes[name].subtract(before)
                for log in run.logs:
                    log.unlink()
            ratios.append(tps["with"] / tps["without"])
        status = disk.status()
        assert not status.void, status
        return ratios, status.undo_bytes_max, flushes


def calls(every: int) -> tuple[float, float]:
    """CPU microseconds per call, without the library and with it."""
    folder = STATE_FOLDER / f"walproof-overhead-{os.getpid()}"
    (folder / "disk").mkdir(parents=True)
    found = {}
    try:
        model = DiskModel()
        with SimulatedDisk([folder / "disk"], model, folder / "state") as disk:
            for name, environment in (("bare", {}), ("tracked", disk.environment)):
                done = subprocess.run(
                    [sys.executable, "-c", PROGRAM, str(folder / "disk" / name), str(CALLS), str(every)],
                    env={**os.environ, **environment}, capture_output=True, text=True, check=True,
                )  # fmt: skip
                found[name] = float(json.loads(done.stdout))
            assert not disk.status().void, disk.status()
    finally:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    return found["bare"], found["tracked"]


if __name__ == "__main__":
    main()
