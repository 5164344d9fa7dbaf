"""A server under load is recorded, WAL with another max_wal_size predicted, and the setting really changed.

    PYTHONPATH=. python bench/whatif/captured.py [--pg 16] [--from 96MB] [--to 256MB] [--seconds 150]

pgbench runs at a fixed rate all the time. ``walproof wal capture`` records the server, as a user with
REPLICATION and pg_monitor and nothing else; ``walproof wal whatif`` predicts. Then max_wal_size is changed by
ALTER SYSTEM and a reload, and WAL is measured between the first redo point and the last: over whole cycles.
WAL is told by transaction, since a busy machine does not hold the rate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.whatif.validate import SETTINGS
from bench.whatif.validate import bench as run_pgbench
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, find, find_driver
from walproof.postgres.reach import reachable_install, server_user
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn, format_bytes

SCALE, RATE = 20, 800


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
    pgbench, _ = find_driver([install, *discover()])
    with Workspace(arguments.work, user) as workspace:
        cluster = Cluster(install, workspace, workspace.make_folder("base"))
        cluster.init()
        settings = {**SETTINGS, "wal_keep_size": "0", "max_wal_size": arguments.before}
        cluster.start(settings)
        load: subprocess.Popen[bytes] | None = None
        try:
            run_pgbench(cluster, pgbench, "-i", "-q", "-s", str(SCALE))
            with cluster.connect() as connection:
                connection.execute("CREATE USER recorder REPLICATION IN ROLE pg_monitor")
                connection.execute("VACUUM FREEZE ANALYZE")
            command = [
                str(pgbench), "-n", "-c", "4", "-j", "2", "-M", "prepared", "-R", str(RATE), "-h",
                str(cluster.sockets), "-p", str(cluster.port), "-U", "postgres",
                "-T", str(3 * arguments.seconds + 60), "postgres",
            ]  # fmt: skip
            load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(10)
            recording = arguments.keep or workspace.make_folder("recording") / "wal"
            compare(cluster, recording, arguments)
        finally:
            if load is not None:
                load.terminate()
                load.wait()
            cluster.stop("immediate")


def compare(cluster: Cluster, recording: Path, arguments: argparse.Namespace) -> None:
    """Print what was predicted and what was measured."""
    dsn = f"host={cluster.sockets} port={cluster.port} user=recorder dbname=postgres"
    walproof("wal", "capture", dsn, "--for", f"{arguments.seconds}s", "--to", str(recording))
    asked = f"max_wal_size={arguments.after}"
    said = json.loads(walproof("wal", "whatif", str(recording), "--set", asked, "--json"))
    written = json.loads(walproof("wal", "stats", str(recording), "--json"))
    commits = written["commits"]
    hours = said["recorded"]["seconds"] / 3600
    measured = {arguments.before: rate(cluster, arguments.seconds)}
    with cluster.connect() as connection:
        connection.execute(f"ALTER SYSTEM SET max_wal_size = '{arguments.after}'".encode())
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CHECKPOINT")
    measured[arguments.after] = rate(cluster, arguments.seconds)
    print(f"recorded: {format_bytes(said['recorded']['wal_bytes'])}, {commits:,} transactions")
    print("| max_wal_size | predicted bytes a transaction | interval | measured | cycles | error |")
    print("|---|---:|---:|---:|---:|---:|")
    for size, (found, cycles) in measured.items():
        one = prediction(said, size)
        value, low, high = (
            one[name] * hours / commits for name in ("wal_bytes", "wal_bytes_low", "wal_bytes_high")
        )
        print(
            f"| {size} | {value:,.0f} | {low:,.0f} to {high:,.0f} | {found:,.0f} | {cycles} |"
            f" {100 * (value / found - 1):+.1f} % |"
        )


def prediction(said: Any, size: str) -> Any:
    """Of the present settings, with that max_wal_size."""
    wanted = {**said["present"], "max_wal_size_mb": int(size.removesuffix("MB"))}
    return next(
        one
        for one in said["predictions"]
        if all(wanted[name] == value for name, value in one["settings"].items())
    )


def rate(cluster: Cluster, seconds: int) -> tuple[float, int]:
    """Bytes of WAL a transaction between the redo points that were seen, and how many cycles these are.

    A redo point is seen when its checkpoint is complete, always after the same share of the cycle behind it.
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
    """Standard output of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "walproof", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


if __name__ == "__main__":
    main()
