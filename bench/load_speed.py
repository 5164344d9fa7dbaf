"""How fast walproof's own client loads: its COPY of ready bytes beside psql's, and two sessions beside one.

    PYTHONPATH=. python bench/load_speed.py [ROUNDS [ROWS [PG]]]

One server and one file of rows. In each round, in random order and each into a table that was just emptied:
``psql \\copy`` of the file, walproof's COPY of the same bytes, and the same in two sessions. Where client and
COPY are measured the table has no index; for the two sessions it is bare, bare and unlogged, or has a primary
key. What psql takes to start and connect is timed apart and taken off, because walproof's clients are
connected when the clock starts.

What two sessions gain ends where the machine does. So each round has two processes that only compute, beside
one: what they gain is the most that any two sessions could have gained in it, whoever else uses the cores.
And beside each rate stand the CPU seconds of clients and server, the cores that others used, and what
backends waited for.
Goals: at least 90 % of psql; two sessions at least 1.6x of one where the server and the machine allow it.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from walproof.analysis.interval import Interval, mean_interval
from walproof.facts import LoadFeed
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.cpu import CpuProbe
from walproof.probe.protocol import Subject
from walproof.probe.waits import WaitProbe
from walproof.workload.loading.client import Order
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import TEXT_FILE
from walproof.workload.loading.sessions import LoadSessions

COLUMNS = ("id", "account", "amount", "kind", "payload")
TYPES = ("bigint", "bigint", "double precision", "text", "text")
BASES = ("int8", "int8", "float8", "text", "text")
SETTINGS = {
    "max_wal_size": "16GB",
    "autovacuum": "off",
    "synchronous_commit": "off",
    # Room for the WAL that two sessions make while one of them writes: with the 4 MB of a small
    # shared_buffers they wait for each other (LWLock:WALWrite).
    "wal_buffers": "64MB",
    "shared_buffers": "512MB",
}
TABLES = {"bare": "", "unlogged": "", "keyed": ", PRIMARY KEY (id)"}
COMPUTE = "x = 0\nfor i in range({turns}): x = (x * 1103515245 + i) & 0xFFFFFFFF"
TURNS = 6_000_000
WAITS_HZ = 40.0
WAIT_SHOWN = 0.03


@dataclass(frozen=True, slots=True)
class Taken:
    """What a load or a computation took."""

    seconds: float
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    others_cores: float = 0.0
    """Cores that everybody else used meanwhile."""
    waits: tuple[tuple[str, float], ...] = ()
    """Share of samples of all backends."""


def main() -> None:
    """Run the rounds and print rates, who used the CPU, and the ratios with their intervals."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    user = server_user()
    install = reachable_install(find(sys.argv[3] if len(sys.argv) > 3 else None), user)
    psql = Path(install.bindir) / "psql"
    taken: dict[str, list[Taken]] = {}
    with Workspace(cache_folder("work"), user) as workspace:
        folder = workspace.make_folder("speed")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder)
        write_rows(folder / TEXT_FILE, rows)
        cluster = Cluster(install, workspace, folder)
        cluster.start(SETTINGS)
        try:
            with cluster.connect() as session:
                listed = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, TYPES, strict=True))
                for table, keys in TABLES.items():
                    kind = "UNLOGGED TABLE" if table == "unlogged" else "TABLE"
                    session.execute(f"CREATE {kind} {table} ({listed}{keys})".encode())
            chance = random.Random(1)
            ways: dict[str, Callable[[], Taken]] = {"psql": lambda: by_psql(psql, cluster, folder)}
            for table in TABLES:
                for sessions in (1, 2):
                    ways[name_of(table, sessions)] = lambda t=table, n=sessions: by_client(  # type: ignore[misc]
                        cluster, folder, t, rows, n
                    )
            ways |= {name_of("compute", sessions): lambda n=sessions: compute(n) for sessions in (1, 2)}  # type: ignore[misc]
            for _ in range(rounds):
                for name in chance.sample(list(ways), len(ways)):
                    with cluster.connect() as session:
                        session.execute(f"TRUNCATE {', '.join(TABLES)}".encode())
                        session.execute("CHECKPOINT")
                    taken.setdefault(name, []).append(ways[name]())
        finally:
            cluster.stop("immediate")
    show(taken, rows)


def name_of(table: str, sessions: int) -> str:
    """The name of a way of loading."""
    return f"{table}, {sessions} session{'s' if sessions > 1 else ''}"


def show(taken: dict[str, list[Taken]], rows: int) -> None:
    """Print rates, CPU, what others used and waits; then the ratios."""
    cores = os.cpu_count() or 1
    print(f"{'':22}{'rows/s':>12}  CPU s/M rows: client server  others' cores  waits")
    for name, found in taken.items():
        if name.startswith("compute"):
            continue
        millions = rows / 1e6
        shares: dict[str, float] = {}
        for load in found:
            for wait, share in load.waits:
                shares[wait] = shares.get(wait, 0.0) + share / len(found)
        waits = ", ".join(
            f"{wait} {share:.0%}"
            for wait, share in sorted(shares.items(), key=lambda item: -item[1])
            if share >= WAIT_SHOWN and wait != "CPU"
        )
        rate = rows / statistics.median(load.seconds for load in found)
        if name == "psql":
            print(f"{name:22}{rate:12,.0f}")
            continue
        client = statistics.median(load.client_cpu_s for load in found) / millions
        server = statistics.median(load.server_cpu_s for load in found) / millions
        others = statistics.median(load.others_cores for load in found)
        print(f"{name:22}{rate:12,.0f}{client:22.2f}{server:7.2f}{others:15.2f}  {waits}")
    print()
    print("walproof / psql:            ", say(taken["psql"], taken[name_of("bare", 1)]), "goal 0.90x")
    for table in (*TABLES, "compute"):
        single, double = taken[name_of(table, 1)], taken[name_of(table, 2)]
        if table == "compute":
            # Twice the work in the second case.
            single = [Taken(2 * each.seconds) for each in single]
            print(f"two that compute / one:      {say(single, double)} at most {min(2, cores)}x")
        else:
            print(f"{f'two sessions / one, {table}:':29}{say(single, double)} goal 1.6x")


def say(base: Sequence[Taken], other: Sequence[Taken]) -> str:
    """The ratio of rates within rounds, and of the fastest rounds."""
    logs = [math.log(a.seconds / b.seconds) for a, b in zip(base, other, strict=True)]
    middle = math.exp(sum(logs) / len(logs))
    interval: Interval | None = mean_interval(logs)
    bounds = "" if interval is None else f" ({interval.exp().low:.2f} to {interval.exp().high:.2f})"
    # Others only ever take time away: the fastest rounds are nearest to a quiet machine.
    fastest = min(load.seconds for load in base) / min(load.seconds for load in other)
    return f"{middle:.2f}x{bounds}, fastest rounds {fastest:.2f}x;"


def by_psql(psql: Path, cluster: Cluster, folder: Path) -> Taken:
    """Seconds of psql with \\copy, less those of psql with an empty statement."""
    timed = []
    for command in ("SELECT 1", f"\\copy bare FROM '{folder / TEXT_FILE}'"):
        began = time.monotonic()
        subprocess.run(
            [str(psql), "-X", "-q", "-d", cluster.conninfo, "-c", command],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        timed.append(time.monotonic() - began)
    return Taken(timed[1] - timed[0])


def by_client(cluster: Cluster, folder: Path, table: str, rows: int, sessions: int) -> Taken:
    """Seconds from the begin of the first session to the end of the last one."""
    feed: LoadFeed = "copy"
    target = LoadTarget(table, COLUMNS, TYPES, BASES)
    bounds = [rows * number // sessions for number in range(sessions + 1)]
    orders = [
        Order(cluster.conninfo, str(folder), feed, None, bounds[i], bounds[i + 1], False, target)
        for i in range(sessions)
    ]
    with LoadSessions(orders) as clients:
        subject = Subject(
            cluster.conninfo,
            cluster.data,
            cluster.log,
            cluster.pid,
            clients.pids[0],
            cluster.install.version_num,
        )
        cpu, waits = CpuProbe(), WaitProbe(WAITS_HZ)
        waits.start(subject)
        cpu.start(subject)
        clients.go()
        began = time.monotonic()
        loaded = clients.wait(600.0)
        watched_s = time.monotonic() - began
        used, waited = cpu.stop().metrics, waits.stop().metrics
    server_cpu_s = used["server_cpu_s"]
    busy_cores = used["host_cpu_busy_share"] * (os.cpu_count() or 1)
    return Taken(
        loaded.ended_s - loaded.began_s,
        loaded.cpu_s,
        server_cpu_s,
        max(0.0, busy_cores - (loaded.cpu_s + server_cpu_s) / watched_s),
        tuple((n.removeprefix("wait_share."), v) for n, v in waited.items() if n.startswith("wait_share.")),
    )


def compute(processes: int) -> Taken:
    """Run this many processes at once, each with the same computation."""
    began = time.monotonic()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", COMPUTE.format(turns=TURNS)],
            # As clients and backends are: the scheduler shares cores out by session.
            start_new_session=True,
        )
        for _ in range(processes)
    ]
    for process in started:
        process.wait()
    return Taken(time.monotonic() - began)


def write_rows(file: Path, rows: int) -> None:
    """Rows of the shape of the study ``bulk-load``, in COPY's text format."""
    chance = random.Random(1)
    with file.open("w") as out:
        for number in range(rows):
            digest = f"{chance.getrandbits(128):032x}"
            out.write(
                f"{number}\t{chance.getrandbits(60)}\t{chance.random()}\t{digest[:12]}\t{digest[:31]}\n"
            )


if __name__ == "__main__":
    main()
