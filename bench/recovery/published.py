"""Three published crashes again: rare and frequent checkpoints, with and without full-page images.

    PYTHONPATH=. python bench/recovery/published.py [--pg embedded-16] [--seconds 240] [--calibration FILE]

As published: one client runs "update t set u = gen_random_uuid()" on a table of one column with
wal_level=logical; then kill -9 of the postmaster, and the time of redo from the log. The number of rows is
not told; 1000 is that of other experiments of the article. With a calibration they are predicted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from walproof.analysis.forecast import Costs, calibrated_costs, forecast
from walproof.facts.calibration import read_calibration
from walproof.lab.recovery.crash import recover, take_crash_image
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import format_bytes

BUFFERS = 16384
ROWS = 1000


@dataclass(frozen=True, slots=True)
class Case:
    """The settings of a crash, and the published figures."""

    name: str
    settings: dict[str, str]
    wal: str
    elapsed_s: float
    cpu_s: float


CASES = (
    Case("rare checkpoints", {"checkpoint_timeout": "5min", "max_wal_size": "10GB"}, "7.1 GB", 49.73, 49.35),
    Case(
        "frequent, no images",
        {"checkpoint_timeout": "1min", "max_wal_size": "1GB", "full_page_writes": "off"},
        "about 1 GB", 5.13, 5.13,
    ),
    Case("frequent", {"checkpoint_timeout": "1min", "max_wal_size": "1GB"}, "about 1 GB", 4.48, 4.47),
)  # fmt: skip


def main() -> None:
    """Print a row of the table for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="embedded-16")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    print("| case | published: WAL, redo, MB/s | here: WAL, redo, CPU, MB/s of CPU | predicted CPU |")
    print("|---|---|---|---|")
    for case in CASES:
        measure(case, arguments)


def measure(case: Case, arguments: argparse.Namespace) -> None:
    """Fill, crash, recover."""
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    pgbench = reachable_pgbench([install, *discover()], user)
    given = arguments.calibration
    costs = Costs() if given is None else calibrated_costs(read_calibration(given))
    with Workspace(arguments.work, user) as workspace:
        folder = workspace.make_folder("filled")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
        cluster = Cluster(install, workspace, folder)
        cluster.start({"wal_level": "logical", **case.settings})
        script = workspace.folder / "write.sql"
        script.write_text("update t set u = gen_random_uuid();\n")
        script.chmod(0o644)
        try:
            with cluster.connect() as connection:
                connection.execute("CREATE TABLE t (u uuid)")
                connection.execute(
                    f"INSERT INTO t SELECT gen_random_uuid() FROM generate_series(1, {ROWS})".encode()
                )
                connection.execute("VACUUM FULL")
                connection.execute("CHECKPOINT")
            command = [
                str(pgbench), "-n", "-c", "1", "-T", str(arguments.seconds), "-f", str(script),
                "-h", str(cluster.sockets), "-p", str(cluster.port), "-U", SUPERUSER, "postgres",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(done.stderr)
            image = take_crash_image(cluster, workspace.make_folder("image"))
        finally:
            cluster.stop("immediate")
        (predicted,) = forecast(image.wal, buffers=[BUFFERS], costs=costs).predictions
        times = recover(image, workspace, {"shared_buffers": f"{BUFFERS * 8}kB"}).times
    cpu = times.cpu_s or 0.0
    rate = f"{times.wal_bytes / 1e6 / cpu:.0f}" if cpu else "-"
    published = {"7.1 GB": 7.1 * 1024, "about 1 GB": 1024.0}[case.wal] * 1.048576 / case.elapsed_s
    print(
        f"| {case.name} | {case.wal}, {case.elapsed_s} s, {published:.0f} | {format_bytes(times.wal_bytes)}, "
        f"{times.redo_elapsed_s} s, {cpu:.2f} s, {rate} | {predicted.warm_s:.2f} s |",
        flush=True,
    )


if __name__ == "__main__":
    main()
