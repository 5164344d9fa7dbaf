"""The sync of the data directory before redo: forecast beside measured, with 10^3, 10^4 and 10^5 files.

    PYTHONPATH=. python bench/recovery/sync_phase.py [--pg 18] [--on FOLDER] [--repeats 3] [--minutes N]

A server is killed in place, clean and with a page of a tenth of its files just written, with
recovery_init_sync_method = fsync and syncfs. Costs are measured anew in each repeat. A line for each crash,
and one of JSON in --out. The same command goes on where it was stopped, and says at the end how many bands
hold.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from bench.rows import read_rows
from tests.live.crash_sync import SETTINGS, crash
from tests.postgres.replication import running_primary
from walproof.lab.recovery.sync_cost import measure_sync
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

_FILES = (1_000, 10_000, 100_000)


def main() -> None:
    """Make the crashes that are missing, and sum up all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--pg", default="18")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--files-most", type=int, default=max(_FILES))
    parser.add_argument("--minutes", type=float, help="begin no repeat after so long")
    parser.add_argument("--out", type=Path, default=Path("bench/recovery/sync_phase.jsonl"))
    given = parser.parse_args()
    rows = read_rows(given.out) if given.out.exists() else []
    _make(given, rows)
    _summarise(rows)


def _make(given: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    until_s = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    done = {(row["pg"], row["files"], row["repeat"], row["is_dirty"], row["method"]) for row in rows}
    user = server_user()
    install = reachable_install(find(given.pg), user)
    with Workspace(given.on, user) as workspace, running_primary(install, workspace, SETTINGS) as cluster:
        for files, repeat in product(_FILES, range(given.repeats)):
            missing = [
                (is_dirty, method)
                for is_dirty, method in product((False, True), ("fsync", "syncfs"))
                if (given.pg, files, repeat, is_dirty, method) not in done
            ]
            if not missing or files > given.files_most or time.monotonic() > until_s:
                continue
            costs = measure_sync(workspace.folder)
            for is_dirty, method in missing:
                found = crash(cluster, costs, files, method, is_dirty=is_dirty)
                span = found.forecast.span
                rows.append({
                    "pg": given.pg, "files": files, "repeat": repeat, "is_dirty": is_dirty,
                    "method": method, "seconds": span.seconds, "low": span.low, "high": span.high,
                    "measured_s": found.measured_s,
                })  # fmt: skip
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                print(_line(rows[-1]), flush=True)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['files']:7,} files, {'dirty' if row['is_dirty'] else 'clean'}, {row['method']:6}: forecast "
        f"{row['seconds']:.3f} s ({row['low']:.3f} to {row['high']:.3f}), measured {row['measured_s']:.3f} s"
    )


def _summarise(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    held = sum(row["low"] <= row["measured_s"] <= row["high"] for row in rows)
    ratios = [row["seconds"] / max(row["measured_s"], 0.001) for row in rows]
    print(f"{len(rows)} crashes, the band holds in {held}; forecast over measured: {min(ratios):.2f} to "
          f"{max(ratios):.2f}, median {median(ratios):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
