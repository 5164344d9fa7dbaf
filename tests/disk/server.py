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
from walproof.postgres.build import has_extension
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.workload import ledger
from walproof.workload.books import Books, check_books

SETTINGS = {
    **ledger.SETTINGS,
    "shared_buffers": "2MB",
    "bgwriter_delay": "10ms",
    "max_wal_size": "64MB",
    "autovacuum": "off",
}
_SESSIONS = range(3)


class Load:
    """Sessions of a ledger, and a checkpoint again and again, until the server is gone."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        with cluster.connect() as connection:
            for statement in ledger.table_statements():
                connection.execute(statement.encode())
            connection.execute("CHECKPOINT")
        self._ledger = ledger.LedgerLoad(cluster.conninfo, _SESSIONS)
        self._checkpointer = threading.Thread(target=self._checkpoint)
        self._ledger.start()
        self._checkpointer.start()

    def _checkpoint(self) -> None:
        try:
            with self._cluster.connect() as connection:
                while True:
                    connection.execute("CHECKPOINT")
                    connection.execute("SELECT pg_sleep(0.05)")
        except (psycopg.Error, ClusterError):
            pass  # the server is gone

    def record(self, disk: SimulatedDisk) -> ledger.Record:
        """What clients had been told when the power was cut; after the server is gone."""
        self._checkpointer.join(30)
        assert not self._checkpointer.is_alive()
        return ledger.known_before(self._ledger.record(), disk.status().cut_monotonic_ns)


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
    with SimulatedDisk(roots, model, state, user=workspace.user, seed=seed) as disk:
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
    record: ledger.Record,
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
            has_amcheck = has_extension(cluster.install, "amcheck")
            books = check_books(connection, record, has_amcheck=has_amcheck)
    except (ClusterError, psycopg.Error) as error:
        return f"{error}"
    finally:
        recovered.kill()
        workspace.remove_folder(folder)
    return None if books == _SOUND else f"{books}"


_SOUND = Books(lost=0, oldest_lost_ns=None, hole=None, unbalanced=None, wrong=None)
