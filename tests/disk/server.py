"""A server on a simulated disk with a load whose acknowledged commits are known."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace

SESSIONS = 3
SETTINGS = {"shared_buffers": "2MB", "bgwriter_delay": "10ms", "max_wal_size": "64MB", "autovacuum": "off"}


class Load:
    """Sessions that insert and update rows; each row's number is kept when its commit is acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.acknowledged: list[list[int]] = [[] for _ in range(SESSIONS)]
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE ledger (session int, number int, padding text)")
            connection.execute("CREATE TABLE balance (session int PRIMARY KEY, total bigint)")
            connection.execute(f"INSERT INTO balance SELECT s, 0 FROM generate_series(0, {SESSIONS - 1}) s")
            connection.execute("CHECKPOINT")
        self._threads = [threading.Thread(target=self._run, args=(s,)) for s in range(SESSIONS)]
        self._threads.append(threading.Thread(target=self._checkpoint))
        for thread in self._threads:
            thread.start()

    def _run(self, session: int) -> None:
        try:
            with self._cluster.connect() as connection:
                for number in range(1, 10**9):
                    with connection.transaction():
                        connection.execute(
                            "INSERT INTO ledger VALUES (%s, %s, repeat(%s, 300))", [session, number, "x"]
                        )
                        connection.execute(
                            "UPDATE balance SET total = total + %s WHERE session = %s", [number, session]
                        )
                    self.acknowledged[session].append(number)
        except (psycopg.Error, ClusterError):
            pass  # the server is gone

    def _checkpoint(self) -> None:
        try:
            with self._cluster.connect() as connection:
                while True:
                    connection.execute("CHECKPOINT")
                    connection.execute("SELECT pg_sleep(0.05)")
        except (psycopg.Error, ClusterError):
            pass

    def join(self) -> None:
        """After the server is gone."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def simulated(
    install: Install,
    workspace: Workspace,
    model: DiskModel,
    *,
    seed: int = 0,
    wal_elsewhere: bool = False,
) -> Iterator[tuple[Cluster, SimulatedDisk]]:
    """A new cluster, not started, on a simulated disk; killed at the end."""
    folder = workspace.make_folder(f"cluster-{seed}")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder)
    roots = [folder / "data"]
    if wal_elsewhere:
        roots.append(folder / "wal")
        (folder / "data" / "pg_wal").rename(folder / "wal")
        (folder / "data" / "pg_wal").symlink_to(folder / "wal")
    state = STATE_FOLDER / f"{workspace.folder.name}-{seed}"
    with SimulatedDisk(roots, model, state, owner=workspace.owner, seed=seed) as disk:
        cluster = Cluster(install, workspace, folder, disk.environment)
        try:
            yield cluster, disk
        finally:
            cluster.kill()
            workspace.remove_folder(folder)


def lost_after(
    cluster: Cluster,
    workspace: Workspace,
    disk: SimulatedDisk,
    load: Load,
    seed: int,
    survival: Survival,
) -> str | None:
    """Build an image, start a server on it, and say what is wrong with it; None when all is there."""
    folder = workspace.make_folder(f"image-{seed}")
    names: Sequence[Path] = [folder / root.name for root in disk.roots]
    build_image(disk, names, seed, survival)
    recovered = Cluster(cluster.install, workspace, folder)
    try:
        # Nothing has to be durable any more.
        recovered.start({**SETTINGS, "fsync": "off"})
        with recovered.connect() as connection:
            return _compare(connection, load)
    except (ClusterError, psycopg.Error) as error:
        return f"{error}"
    finally:
        recovered.kill()
        workspace.remove_folder(folder)


def _compare(connection: psycopg.Connection[tuple[object, ...]], load: Load) -> str | None:
    rows = connection.execute("SELECT session, number FROM ledger").fetchall()
    totals = {row[0]: row[1] for row in connection.execute("SELECT session, total FROM balance")}
    for session in range(SESSIONS):
        numbers = sorted(int(str(number)) for owner, number in rows if owner == session)
        missing = sorted(set(load.acknowledged[session]) - set(numbers))
        if missing:
            return f"session {session} lost {len(missing)} acknowledged commits, the first is {missing[0]}"
        if numbers != list(range(1, len(numbers) + 1)):
            return f"session {session} has holes or doubles"
        if totals.get(session) != sum(numbers):
            return f"session {session}: balance {totals.get(session)}, expected {sum(numbers)}"
    return None
