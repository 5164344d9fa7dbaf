"""pg_wal at its largest, measured on a server that recycles, beside the prediction from a recording.

    PYTHONPATH=. python bench/whatif/disk.py [--only WORD]

As bench/whatif/validate.py, but without wal_keep_size: each setting runs once more while the size of pg_wal
is looked at every 20 ms. The prediction comes from the run without checkpoints of the same work.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from bench.whatif.validate import CAMPAIGNS, SETTINGS, Campaign, load, location, say, target_of, work_options
from bench.whatif.validate import bench as run_pgbench
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.template import clone
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.wal.whatif import simulate


def main() -> None:
    """Measure the campaigns whose name holds a word."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="15 tpcb")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-whatif"))
    arguments = parser.parse_args()
    for campaign in CAMPAIGNS:
        if campaign.name == arguments.only and "wal_compression" not in campaign.settings[0]:
            measure(campaign, arguments.work)


def measure(campaign: Campaign, work: Path) -> None:
    """Print measured and predicted sizes."""
    user = server_user()
    install = reachable_install(find(campaign.pg), user)
    pgbench = reachable_pgbench([install, *discover()], user)
    version = install.version_num // 10000
    with Workspace(work, user) as workspace:
        base = workspace.make_folder("base")
        load(Cluster(install, workspace, base), pgbench, campaign)
        sizes: dict[str, int] = {}
        predicted: dict[str, int] = {}
        for number, settings in enumerate(campaign.settings):
            is_recording = number == len(campaign.settings) - 1
            folder = workspace.make_folder(f"run{number}")
            clone(base, folder, flush=False)
            # What loading left behind is not the work's.
            keep = "64GB" if is_recording else "0"
            cluster = Cluster(install, workspace, folder)
            cluster.start({**SETTINGS, **campaign.work.settings, **settings, "wal_keep_size": keep})
            try:
                with cluster.connect() as connection:
                    connection.execute("CHECKPOINT")
                    connection.execute("CHECKPOINT")
                    start = location(connection)
                sizes[say(settings)] = watch(cluster, pgbench, campaign)
                if is_recording:
                    with cluster.connect() as connection:
                        end = location(connection)
                        connection.execute("SELECT pg_switch_wal()")
                    targets = [target_of(chosen, campaign.work, version) for chosen in campaign.settings]
                    found = simulate(cluster.data / "pg_wal", targets=targets, start=start, end=end)
                    for chosen, outcome in zip(campaign.settings, found.outcomes, strict=True):
                        predicted[say(chosen)] = outcome.pg_wal_most
            finally:
                cluster.stop("immediate")
            workspace.remove_folder(folder)
    for name, size in sizes.items():
        print(f"{campaign.name} {name}: pg_wal {size >> 20} MB at most, predicted {predicted[name] >> 20} MB")


def watch(cluster: Cluster, pgbench: Path, campaign: Campaign) -> int:
    """Do the work; return the largest size of all segments meanwhile."""
    done = threading.Event()
    # Segments that loading left ahead are there from the start, and are not removed before they are used.
    most = left = len([path for path in (cluster.data / "pg_wal").iterdir() if len(path.name) == 24])

    def look() -> None:
        nonlocal most
        while not done.wait(0.02):
            names = [path for path in (cluster.data / "pg_wal").iterdir() if len(path.name) == 24]
            most = max(most, len(names))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        run_pgbench(cluster, pgbench, *work_options(cluster, campaign.work))
    finally:
        done.set()
        thread.join()
    with cluster.connect() as connection:
        row = connection.execute("SELECT pg_size_bytes(current_setting('wal_segment_size'))").fetchone()
    assert row is not None
    print(f"{campaign.name}: {left} segments at the start, {most} at most")
    return most * int(str(row[0]))


if __name__ == "__main__":
    main()
