"""What recovery_prefetch fetches where pages have full-page images: the server's counts beside ours.

    PYTHONPATH=. python bench/recovery/prefetch.py [--pg 15 --pg 17.5 ...] [--pages 12000] [--iops 3000]

A table whose every page is changed four times in a row after a checkpoint: with an image, then without. Its
WAL is recovered with a cold cache and recovery_prefetch=try and off. With images on, replay needs no page of
the disk at all; what try reads besides the WAL is fetched for nothing. ``--iops`` (as root) recovers once
more with so many reads a second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from walproof.analysis.forecast import Costs, forecast
from walproof.analysis.recovery_costs import Disk
from walproof.lab.recovery.crash import Cache, recover, take_crash_image
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.device import find_read_ahead_kb

SETTINGS = {"shared_buffers": "256MB", "autovacuum": "off", "bgwriter_lru_maxpages": "0"}
BUFFERS = 32768
QUERY = "SELECT prefetch, hit, skip_init, skip_new, skip_fpw, skip_rep FROM pg_stat_recovery_prefetch"


def main() -> None:
    """Print a row for each version, value of full_page_writes and value of recovery_prefetch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", action="append")
    parser.add_argument("--pages", type=int, default=12000)
    parser.add_argument("--iops", type=int)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    print(
        "| PostgreSQL | full_page_writes | recovery_prefetch | prefetch, counted / simulated | skip_fpw | "
        "pages from the disk, simulated | read, measured / simulated, MB | redo: elapsed, CPU, s |"
        + (f" redo with {arguments.iops:,} reads/s, measured / simulated, s |" if arguments.iops else "")
    )
    print("|---" * (9 if arguments.iops else 8) + "|")
    for name in arguments.pg or ["15", "embedded-16", "embedded"]:
        for images in ("on", "off"):
            measure(name, images, arguments.pages, arguments.work, arguments.iops)


def measure(name: str, images: str, pages: int, work: Path, iops: int | None) -> None:
    """Fill one server, and recover its files with a cold cache under both values."""
    user = server_user()
    install = reachable_install(find(name), user)
    with Workspace(work, user) as workspace:
        folder = workspace.make_folder("filled")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
        cluster = Cluster(install, workspace, folder)
        off = {"fsync": "off", "max_wal_size": "20GB", "checkpoint_timeout": "1h", "full_page_writes": images}
        cluster.start(SETTINGS | off)
        try:
            with cluster.connect() as connection:
                connection.execute("CREATE TABLE t (id int, v int, f text) WITH (fillfactor = 80)")
                rows = pages * 48
                connection.execute(
                    f"INSERT INTO t SELECT n, 0, repeat('x', 100) FROM generate_series(1, {rows}) n".encode()
                )
                connection.execute("CHECKPOINT")
                connection.execute("UPDATE t SET v = v + 1 WHERE id % 48 < 4")
            image = take_crash_image(cluster, workspace.make_folder("image"))
        finally:
            cluster.stop("immediate")
        disk = Disk(iops, read_ahead_kb=find_read_ahead_kb(workspace.folder))
        predicted = forecast(image.wal, buffers=[BUFFERS], costs=Costs(disk=disk))
        replayed, (both,) = predicted.analysis.last, predicted.predictions
        for prefetch in ("try", "off"):
            settings = SETTINGS | {"recovery_prefetch": prefetch}
            found = recover(image, workspace, settings, Cache.COLD, query=QUERY)
            counted = found.answer or ()
            is_on = prefetch == "try"
            pool = replayed.pool(BUFFERS, prefetch=is_on)
            fetched = pool.disk_reads
            expected = (replayed.record_bytes + 8192 * fetched) / 1e6
            read = (found.course.read_bytes or 0) / 1e6
            limited = ""
            if iops is not None:
                slow = recover(image, workspace, settings, Cache.COLD, iops=iops).times.redo_elapsed_s
                expected_s = max(
                    found.times.cpu_s or 0.0, (both.cold if is_on else both.cold_off).disk_s or 0.0
                )
                limited = f" {slow:.2f} / {expected_s:.2f} |"
            print(
                f"| {install.version} | {images} | {prefetch} "
                f"| {counted[0]} / {pool.prefetches} |"
                f" {counted[4]} | {fetched} | {read:.0f} / {expected:.0f} |"
                f" {found.times.redo_elapsed_s:.2f}, {found.times.cpu_s:.2f} |{limited}",
                flush=True,
            )


if __name__ == "__main__":
    main()
