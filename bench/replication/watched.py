"""What ``walproof replica watch`` prints while causes of lag are provoked on a real pair, one by one.

    PYTHONPATH=. python bench/replication/watched.py [--pg embedded] [--for 9s] [--every 3s] [--to FILE]

A primary writes small rows; its standby is paused, its link narrowed, its startup process given a share of a
core, its disk made slow. Each time the command itself is run, by a role that has pg_monitor and no more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from walproof.lab.emulated_disk import emulated_disk
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.cpu_share import CpuShare
from walproof.postgres.install import find
from walproof.postgres.link import Link
from walproof.postgres.reach import reachable_install
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.processes import startup_pid
from walproof.probe.startup import read_startup

SETTINGS = {"shared_buffers": "64MB", "autovacuum": "off", "max_wal_size": "4GB", "checkpoint_timeout": "1h"}
LINK_BYTES_PER_S = 300_000
CORE_SHARE = 0.02
DEVICE = "flush=1ms,write=500kB/s"
INSERT = "INSERT INTO t SELECT hashint8extended(i, %s) FROM generate_series(1, 2000) i"
"""About 300 kB of WAL: rows, and their entries in an index in random order."""
EVERY_S = 0.1
WATCHER = "watcher"


def main() -> None:
    """Print a block of text for each cause."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--for", dest="for_", default="9s")
    parser.add_argument("--every", default="3s")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-replication"))
    parser.add_argument("--to", type=Path)
    arguments = parser.parse_args()
    watching = ["--for", arguments.for_, "--every", arguments.every]
    said = list(watched(arguments.pg, arguments.work, watching))
    text = "\n\n".join(said) + "\n"
    if arguments.to is None:
        sys.stdout.write(text)
    else:
        arguments.to.write_text(text)


def watched(pg: str, work: Path, watching: list[str]) -> Iterator[str]:
    """Text of what was done to the pair, of the command, and of what it printed."""
    user = server_user()
    install = reachable_install(find(pg), user)
    with Workspace(work, user) as workspace:
        folder = workspace.make_folder("primary")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
        primary = Cluster(install, workspace, folder)
        primary.start(SETTINGS)
        standby = None
        try:
            with primary.connect() as session:
                session.execute(f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor")
                session.execute("CREATE TABLE t (i bigint)")
                session.execute("CREATE INDEX ON t (i)")
            with Link(workspace, primary) as link:
                standby = Standby(primary, workspace, "standby", route=link.route)
                standby.build()
                standby.start(SETTINGS)

                def watch(what: str) -> str:
                    assert standby is not None
                    return f"PostgreSQL {install.version}: {what}\n{_watch(primary, standby, watching)}"

                with _writing(primary):
                    with _paused(standby):
                        yield watch("SELECT pg_wal_replay_pause() on the standby")
                    link.shape(bytes_per_s=LINK_BYTES_PER_S)
                    yield watch(f"a link of {LINK_BYTES_PER_S // 1000} kB/s")
                    link.shape()
                with _quota(standby):
                    with _writing(primary):
                        yield watch(f"{CORE_SHARE * 100:g} % of a core for the startup process")
                    yield watch("the same when the load has ended")
                standby.stop("fast")
                with emulated_disk(workspace, standby.folder, DEVICE) as disk:
                    assert disk is not None
                    standby.environment.update(disk.environment)
                    standby.start(SETTINGS)
                    with _writing(primary):
                        yield watch(f"a disk of the standby with {DEVICE}")
                    standby.stop("immediate")
        finally:
            if standby is not None:
                standby.stop("immediate")
            primary.stop("immediate")


@contextmanager
def _paused(standby: Standby) -> Iterator[None]:
    """Pause the standby's replay."""
    with standby.connect() as session:
        session.execute("SELECT pg_wal_replay_pause()")
        try:
            yield
        finally:
            session.execute("SELECT pg_wal_replay_resume()")


@contextmanager
def _quota(standby: Standby) -> Iterator[None]:
    startup = startup_pid(standby.pid)
    assert startup is not None

    def cpu_s() -> float | None:
        counted = read_startup(startup)
        return None if counted is None else counted.cpu_s

    with CpuShare(startup, CORE_SHARE, cpu_s):
        yield


@contextmanager
def _writing(primary: Cluster) -> Iterator[None]:
    """Write about 3 MB of WAL per second."""
    stopping = threading.Event()

    def write() -> None:
        with suppress(psycopg.Error), psycopg.connect(primary.conninfo, autocommit=True) as session:
            number = 0
            while not stopping.wait(EVERY_S):
                session.execute(INSERT.encode(), [number := number + 1])

    thread = threading.Thread(target=write, name="writer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _watch(primary: Cluster, standby: Standby, watching: list[str]) -> str:
    """The command as a user types it, and its output."""
    command = ["replica", "watch"]
    for option, server in (("--primary", primary), ("--standby", standby)):
        command += [option, f"host={server.sockets} port={server.port} user={WATCHER} dbname=postgres"]
    done = subprocess.run(
        [sys.executable, "-m", "walproof", *command, *watching],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "110"},
    )  # fmt: skip
    shown = f'$ walproof replica watch --primary "$PRIMARY" --standby "$STANDBY" {" ".join(watching)}'
    return "\n".join([shown, *(line.rstrip() for line in done.stdout.rstrip().splitlines())])


if __name__ == "__main__":
    main()
