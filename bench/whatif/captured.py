"""A server under load is recorded, WAL with another max_wal_size predicted, and the setting really changed.

    PYTHONPATH=. python bench/whatif/captured.py [--pg 16] [--from 96MB] [--to 256MB] [--seconds 150]

pgbench runs at a fixed rate. ``walproof wal capture`` records the server, as a user with REPLICATION and
pg_monitor and nothing else; ``walproof wal whatif`` predicts. Then the same load runs again from the same
data directory, since updates become cheaper as pages get room: later minutes are another load. max_wal_size
is changed by ALTER SYSTEM and a reload under it, and WAL is measured between the first redo point and the
last: over whole cycles. It is told by transaction, since a busy machine does not hold the rate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.whatif.validate import SETTINGS
from bench.whatif.validate import bench as run_pgbench
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.template import clone
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import Lsn, format_bytes

SCALE, RATE, WARM_UP_S = 20, 800, 5


def main() -> None:
    """Record, predict, change, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="16")
    parser.add_argument("--from", dest="before", default="96MB")
    parser.add_argument("--to", dest="after", default="256MB")
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-captured"))
    parser.add_argument("--keep", type=Path, help="new folder for the recording")
    arguments = parser.parse_args()
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    pgbench = reachable_pgbench([install, *discover()], user)
    settings = {**SETTINGS, "wal_keep_size": "0", "max_wal_size": arguments.before}
    seconds = arguments.seconds
    with Workspace(arguments.work, user) as workspace:
        base = workspace.make_folder("base")
        load(Cluster(install, workspace, base), pgbench)
        recording = arguments.keep or workspace.make_folder("recording") / "wal"
        folder = workspace.make_folder("recorded")
        clone(base, folder, flush=False)
        with under_load(Cluster(install, workspace, folder), pgbench, settings, seconds) as cluster:
            dsn = f"host={cluster.sockets} port={cluster.port} user=recorder dbname=postgres"
            capture = subprocess.Popen(
                command("wal", "capture", dsn, "--for", f"{seconds}s", "--to", str(recording))
            )
            measured = {arguments.before: rate(cluster, seconds)}
            assert capture.wait() == 0
        said = json.loads(
            walproof("wal", "whatif", str(recording), "--set", f"max_wal_size={arguments.after}", "--json")
        )
        commits = json.loads(walproof("wal", "stats", str(recording), "--json"))["commits"]
        folder = workspace.make_folder("changed")
        clone(base, folder, flush=False)
        with under_load(Cluster(install, workspace, folder), pgbench, settings, seconds) as cluster:
            with cluster.connect() as connection:
                connection.execute(f"ALTER SYSTEM SET max_wal_size = '{arguments.after}'".encode())
                connection.execute("SELECT pg_reload_conf()")
            measured[arguments.after] = rate(cluster, seconds)
    compare(said, commits, measured)


def load(cluster: Cluster, pgbench: Path) -> None:
    """Make pgbench's tables, and the user that records."""
    cluster.init()
    cluster.start({**SETTINGS, "max_wal_size": "100GB", "wal_keep_size": "0"})
    try:
        run_pgbench(cluster, pgbench, "-i", "-q", "-s", str(SCALE))
        with cluster.connect() as connection:
            connection.execute("CREATE USER recorder REPLICATION IN ROLE pg_monitor")
            connection.execute("VACUUM FREEZE ANALYZE")
    finally:
        cluster.stop("fast")


@contextmanager
def under_load(cluster: Cluster, pgbench: Path, settings: dict[str, str], seconds: int) -> Iterator[Cluster]:
    """Run the server, with pgbench at work for longer than this."""
    cluster.start(settings)
    clients: subprocess.Popen[bytes] | None = None
    try:
        options = [
            str(pgbench), "-n", "-c", "4", "-j", "2", "-M", "prepared", "-R", str(RATE), "--random-seed=7",
            "-h", str(cluster.sockets), "-p", str(cluster.port), "-U", "postgres", "-T", str(seconds + 60),
            "postgres",
        ]  # fmt: skip
        clients = subprocess.Popen(options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(WARM_UP_S)
        yield cluster
    finally:
        if clients is not None:
            clients.terminate()
            clients.wait()
        cluster.stop("immediate")


def compare(said: Any, commits: int, measured: dict[str, tuple[float, int]]) -> None:
    """Print what was predicted and what was measured."""
    hours = said["recorded"]["seconds"] / 3600
    print(f"recorded: {format_bytes(said['recorded']['wal_bytes'])}, {commits:,} transactions")
    print("| max_wal_size | predicted bytes a transaction | interval | measured | cycles | error |")
    print("|---|---:|---:|---:|---:|---:|")
    for size, (found, cycles) in measured.items():
        predicted = prediction(said, size)
        value, low, high = (
            predicted[name] * hours / commits for name in ("wal_bytes", "wal_bytes_low", "wal_bytes_high")
        )
        print(
            f"| {size} | {value:,.0f} | {low:,.0f} to {high:,.0f} | {found:,.0f} | {cycles} |"
            f" {100 * (value / found - 1):+.1f} % |"
        )


def prediction(said: Any, size: str) -> Any:
    """Of the present settings, with that max_wal_size."""
    wanted = {**said["present"], "max_wal_size_mb": int(size.removesuffix("MB"))}
    return next(
        prediction
        for prediction in said["predictions"]
        if all(wanted[name] == value for name, value in prediction["settings"].items())
    )


def rate(cluster: Cluster, seconds: int) -> tuple[float, int]:
    """Bytes of WAL a transaction between the redo points that were seen, and how many cycles these are.

    A redo point is seen when its checkpoint is complete, always after the same share of the next cycle.
    """
    seen: list[tuple[Lsn, int]] = []
    until = time.monotonic() + seconds
    with cluster.connect() as connection:
        while time.monotonic() < until:
            row = connection.execute(
                "SELECT redo_lsn::text, sum(xact_commit) FROM pg_control_checkpoint(), pg_stat_database"
                " WHERE datname = 'postgres' GROUP BY 1"
            ).fetchone()
            assert row is not None
            redo = Lsn.parse(str(row[0]))
            if not seen or seen[-1][0] != redo:
                seen.append((redo, int(str(row[1]))))
            time.sleep(0.2)
    # The first was seen at some time of its cycle.
    whole = seen[1:]
    if len(whole) < 2:
        raise SystemExit(f"{len(whole)} checkpoints in {seconds} s: more --seconds are needed")
    (first, before), (last, behind) = whole[0], whole[-1]
    return (last - first) / (behind - before), len(whole) - 1


def walproof(*arguments: str) -> str:
    """Run the command; return its standard output."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def command(*arguments: str) -> list[str]:
    """Run walproof with these arguments."""
    return [sys.executable, "-m", "walproof", *arguments]


if __name__ == "__main__":
    main()
