"""How fast walproof's own client loads: its COPY of ready bytes beside psql's, and two sessions beside one.

    PYTHONPATH=. python bench/load_speed.py [ROUNDS [ROWS [PG]]]

One server and one file of rows. In each round, in random order and each into a table that was just emptied:
``psql \\copy`` of the file, walproof's COPY of the same bytes, and the same in two sessions. The table has no
index, so that the client and COPY are what is measured, and a primary key for the two sessions. What psql
takes to start and connect is timed apart and taken off, because walproof's clients are connected when the
clock starts.
Goals: at least 90 % of psql; two sessions at least 1.6x of one.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from pathlib import Path

from walproof.analysis import Interval, mean_interval
from walproof.facts import LoadFeed
from walproof.postgres import template as templates
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install, server_user
from walproof.postgres.workspace import Workspace
from walproof.workload.loading.client import Order
from walproof.workload.loading.rows import TEXT_FILE
from walproof.workload.loading.sessions import LoadSessions
from walproof.workload.loading.target import Target

COLUMNS = ("id", "account", "amount", "kind", "payload")
TYPES = ("bigint", "bigint", "double precision", "text", "text")
BASES = ("int8", "int8", "float8", "text", "text")
SETTINGS = {"max_wal_size": "16GB", "autovacuum": "off", "synchronous_commit": "off"}


def main() -> None:
    """Run the rounds and print both ratios with their intervals."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    user = server_user()
    install = reachable_install(find(sys.argv[3] if len(sys.argv) > 3 else None), user)
    psql = Path(install.bindir) / "psql"
    seconds: dict[str, list[float]] = {}
    with Workspace(cache_folder("work"), user) as workspace:
        folder = workspace.make_folder("speed")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder)
        write_rows(folder / TEXT_FILE, rows)
        cluster = Cluster(install, workspace, folder)
        cluster.start(SETTINGS)
        try:
            with cluster.connect() as session:
                listed = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, TYPES, strict=True))
                session.execute(f"CREATE TABLE bare ({listed})".encode())
                session.execute(f"CREATE TABLE keyed ({listed}, PRIMARY KEY (id))".encode())
            chance = random.Random(1)
            ways = {
                "psql": lambda: by_psql(psql, cluster, folder),
                "walproof": lambda: by_client(cluster, folder, "bare", rows, 1),
                "one session": lambda: by_client(cluster, folder, "keyed", rows, 1),
                "two sessions": lambda: by_client(cluster, folder, "keyed", rows, 2),
            }
            for _ in range(rounds):
                for name in chance.sample(list(ways), len(ways)):
                    with cluster.connect() as session:
                        session.execute("TRUNCATE bare, keyed")
                        session.execute("CHECKPOINT")
                    seconds.setdefault(name, []).append(ways[name]())
        finally:
            cluster.stop("immediate")
    for name, found in seconds.items():
        print(f"{name:14} {sorted(rows / one for one in found)[len(found) // 2]:12,.0f} rows/s, median")
    print("walproof / psql            ", say(seconds["psql"], seconds["walproof"]), "goal 0.90x")
    print("two sessions / one session ", say(seconds["one session"], seconds["two sessions"]), "goal 1.6x")


def say(base: list[float], other: list[float]) -> str:
    """The ratio of rates within rounds."""
    logs = [math.log(a / b) for a, b in zip(base, other, strict=True)]
    middle = math.exp(sum(logs) / len(logs))
    interval: Interval | None = mean_interval(logs)
    if interval is None:
        return f"{middle:.2f}x"
    return f"{middle:.2f}x ({interval.exp().low:.2f} to {interval.exp().high:.2f})"


def by_psql(psql: Path, cluster: Cluster, folder: Path) -> float:
    """Seconds of psql with \\copy less those of psql with an empty statement."""
    timed = []
    for command in ("SELECT 1", f"\\copy bare FROM '{folder / TEXT_FILE}'"):
        began = time.monotonic()
        subprocess.run(
            [str(psql), "-X", "-q", "-d", cluster.conninfo, "-c", command],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        timed.append(time.monotonic() - began)
    return timed[1] - timed[0]


def by_client(cluster: Cluster, folder: Path, table: str, rows: int, sessions: int) -> float:
    """Seconds from the first session's begin to the last one's end."""
    feed: LoadFeed = "copy"
    target = Target(table, COLUMNS, TYPES, BASES)
    bounds = [rows * number // sessions for number in range(sessions + 1)]
    orders = [
        Order(cluster.conninfo, str(folder), feed, None, bounds[i], bounds[i + 1], False, target)
        for i in range(sessions)
    ]
    with LoadSessions(orders) as clients:
        clients.go()
        loaded = clients.wait(600.0)
    return loaded.ended_s - loaded.began_s


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
