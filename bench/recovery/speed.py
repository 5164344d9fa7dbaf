"""What the simulation of recovery costs beside statistics of the same WAL.

    PYTHONPATH=. python bench/recovery/speed.py [--pg 15] [--megabytes 300 400 1200]

WAL of a TPC-B-like load, of each of these lengths, is in the kernel's cache; it is read nine times in each
way, in turn, the median counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.recovery.validate import images
from bench.recovery.workloads import WORKLOADS
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.wal import stats
from walproof.wal.recovery import analyse, find_redo

SIZES = [1024 << n for n in range(8)]
"""8 MB to 1 GB."""

TIMES = 9


def main() -> None:
    """Print medians of elapsed time and CPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[300, 400, 1200])
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    with Workspace(arguments.work, user) as workspace:
        lengths = [megabytes << 20 for megabytes in arguments.megabytes]
        for image in images(install, workspace, WORKLOADS[0], lengths):
            compare(image.wal)


def compare(wal: Path) -> None:
    """Read it in each way, in turn."""
    redo = find_redo(wal).redo
    ways: dict[str, Callable[[], object]] = {
        "wal stats": lambda: stats(wal, start=redo),
        "find_redo": lambda: find_redo(wal),
        "1 size": lambda: analyse(wal, start=redo, buffers=SIZES[4:5]),
        "8 sizes": lambda: analyse(wal, start=redo, buffers=SIZES),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(TIMES):
        for name, way in ways.items():
            began, cpu = time.monotonic(), time.process_time()
            way()
            spent[name].append((time.monotonic() - began, time.process_time() - cpu))
    work = analyse(wal, start=redo, buffers=SIZES[:1]).last
    print(f"{work.wal_bytes / 1e6:.0f} MB, {work.records:,} records, {work.references:,} references")
    elapsed = {name: median(seconds for seconds, _ in times) for name, times in spent.items()}
    cpu_time = {name: median(seconds for _, seconds in times) for name, times in spent.items()}
    for name in ways:
        ratios = elapsed[name] / elapsed["wal stats"], cpu_time[name] / cpu_time["wal stats"]
        print(
            f"{name:10} {elapsed[name]:6.3f} s ({ratios[0]:.2f}), "
            f"CPU {cpu_time[name]:6.3f} s ({ratios[1]:.2f} times wal stats)"
        )


if __name__ == "__main__":
    main()
