"""The sync of the data directory before redo: forecast beside measured, with 10^3, 10^4 and 10^5 files.

    PYTHONPATH=. python bench/recovery/sync_phase.py --pg 18 [--on FOLDER] [--repeats 3]

A server is killed in place, clean and with a page of a tenth of its files just written, with
recovery_init_sync_method = fsync and syncfs. Costs are measured anew in each repeat. A line each.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.live.crash_sync import SETTINGS, crash
from tests.postgres.replication import running_primary
from walproof.lab.recovery.sync_cost import measure_sync
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

_FILES = (1_000, 10_000, 100_000)


def main() -> None:
    """Measure, and print a line for each crash."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pg", default="18")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    user = server_user()
    install = reachable_install(find(given.pg), user)
    with Workspace(given.on, user) as workspace, running_primary(install, workspace, SETTINGS) as cluster:
        print("files\tstate\tmethod\tforecast_s\tlow_s\thigh_s\tmeasured_s")
        for files in _FILES:
            for _ in range(given.repeats):
                costs = measure_sync(workspace.folder)
                for is_dirty in (False, True):
                    for method in ("fsync", "syncfs"):
                        one = crash(cluster, costs, files, method, is_dirty=is_dirty)
                        span = one.forecast.span
                        print(
                            files, "dirty" if is_dirty else "clean", method, f"{span.seconds:.3f}",
                            f"{span.low:.3f}", f"{span.high:.3f}", f"{one.measured_s:.3f}", sep="\t",
                        )  # fmt: skip
                        sys.stdout.flush()


if __name__ == "__main__":
    main()
