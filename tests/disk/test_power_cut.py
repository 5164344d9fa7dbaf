"""PostgreSQL on a simulated disk whose power is cut: what is safe survives, and what is not is caught."""

from __future__ import annotations

import time

import pytest

from tests.disk.server import SETTINGS, Load, lost_after, simulated
from walproof.disk.device import parse_device
from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import CutEvent, DiskModel
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.postgres.workspace import Workspace
from walproof.workload.ledger import acknowledged

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]

IMAGES = (Survival("nothing"), Survival(), Survival("random", 0.8, 4096), Survival("by age"))


def test_full_durability_loses_nothing(install: Install, workspace: Workspace) -> None:
    _loses_nothing(install, workspace, CutEvent.TORN_WRITE, 900)


def test_full_durability_with_the_wal_elsewhere(embedded: Install, workspace: Workspace) -> None:
    _loses_nothing(embedded, workspace, CutEvent.WAL_FLUSH, 700, wal_elsewhere=True)


def test_full_durability_by_synchronous_writes(embedded: Install, workspace: Workspace) -> None:
    _loses_nothing(embedded, workspace, CutEvent.RELATION_FLUSH, 80, wal_sync_method="open_datasync")


def _loses_nothing(
    install: Install,
    workspace: Workspace,
    event: CutEvent,
    count: int,
    *,
    wal_elsewhere: bool = False,
    **settings: str,
) -> None:
    with simulated(install, workspace, DiskModel(), seed=count, wal_elsewhere=wal_elsewhere) as (
        cluster,
        disk,
    ):
        cluster.start({**SETTINGS, **settings})
        disk.check_attached()
        load = Load(cluster)
        disk.arm(event, count)
        assert disk.wait_for_cut(30), disk.status()
        disk.settle()
        cluster.kill()
        record = load.record(disk)
        assert disk.status().void == ()
        assert acknowledged(record) > 10
        for seed, survival in enumerate(IMAGES):
            assert lost_after(cluster, workspace, disk, record, seed, survival) is None, (seed, survival)


@pytest.mark.pg(">= 15")
def test_fsync_off_is_caught_and_kill_9_catches_nothing(install: Install, workspace: Workspace) -> None:
    with simulated(install, workspace, DiskModel()) as (cluster, disk):
        cluster.start({**SETTINGS, "fsync": "off"})
        load = Load(cluster)
        disk.arm(CutEvent.WAL_WRITE, 900)
        assert disk.wait_for_cut(30), disk.status()
        disk.settle()
        cluster.kill()
        record = load.record(disk)
        for seed in range(3):
            assert lost_after(cluster, workspace, disk, record, seed, Survival()) is not None
        # Everything that was written survives: the control that shows that it is not the simulator.
        assert lost_after(cluster, workspace, disk, record, 9, Survival("everything")) is None


def test_under_posix_alone_a_new_relation_is_lost_with_its_name(
    embedded: Install, workspace: Workspace
) -> None:
    """A checkpoint flushes a new relation's file, and not its folder: a journal keeps the name with the file,
    POSIX promises no such thing."""
    with simulated(embedded, workspace, DiskModel(names="strict")) as (cluster, disk):
        cluster.start(SETTINGS)
        load = Load(cluster)
        with cluster.connect() as connection:
            (row,) = connection.execute("SELECT pg_relation_filepath('walproof_ledger.ledger')")
            place = str(row[0])
            connection.execute("CHECKPOINT")
        disk.arm(CutEvent.RENAME, 4)
        assert disk.wait_for_cut(60), disk.status()
        disk.settle()
        cluster.kill()
        record = load.record(disk)
        image = workspace.make_folder("image")
        build_image(disk, [image / root.name for root in disk.roots], 0, Survival("nothing"))
        assert (cluster.data / place).exists()
        assert (image / cluster.data.name / "PG_VERSION").exists()
        assert not (image / cluster.data.name / place).exists()
        assert lost_after(cluster, workspace, disk, record, 1, Survival("nothing")) is not None
        assert lost_after(cluster, workspace, disk, record, 2, Survival("everything")) is None


@pytest.mark.pg(">= 15")
def test_a_flush_that_fails_is_a_panic_and_loses_nothing(install: Install, workspace: Workspace) -> None:
    # Whoever panics ends the other processes; if one of them was in the middle of a write, the run is void.
    for attempt in range(4):
        try:
            _panic(install, workspace)
            break
        except DiskError as error:
            if attempt == 3 or "the run is void" not in error.message:
                raise


def _panic(install: Install, workspace: Workspace) -> None:
    with simulated(install, workspace, DiskModel()) as (cluster, disk):
        cluster.start(SETTINGS)
        load = Load(cluster)
        disk.arm_failure(CutEvent.WAL_FLUSH, 200)
        deadline = time.monotonic() + 30
        while cluster.is_running():
            assert time.monotonic() < deadline, disk.status()
            time.sleep(0.01)
        assert "PANIC" in cluster.log_tail()
        disk.cut()
        disk.settle()
        record = load.record(disk)
        for seed, survival in enumerate(IMAGES):
            assert lost_after(cluster, workspace, disk, record, seed, survival) is None, (seed, survival)


@pytest.mark.pg(">= 15")
def test_a_checkpoint_flushes_all_that_counts(install: Install, workspace: Workspace) -> None:
    with simulated(install, workspace, DiskModel()) as (cluster, disk):
        cluster.start(SETTINGS)
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 100000) AS i")
            connection.execute("CREATE INDEX ON t (i)")
            written = {file.path for file in disk.unflushed(disk.status().sequence)}
            assert any(path.startswith("base/") for path in written)
            before = disk.status().sequence
            connection.execute("CHECKPOINT")
        left = {file.path for file in disk.unflushed(before)}
        # Caches that the server makes again, and a note of its command line.
        assert {path for path in left if not path.endswith("pg_internal.init")} <= {"postmaster.opts"}


@pytest.mark.pg(">= 15")
def test_a_device_takes_its_time(install: Install, workspace: Workspace) -> None:
    """A client cannot commit faster than the device flushes, and one alone not much slower either."""
    model = DiskModel(device=parse_device("flush=5ms"), tracking=False)
    with simulated(install, workspace, model) as (cluster, disk):
        cluster.start(SETTINGS)
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (i int)")
            began = time.monotonic()
            for _ in range(100):
                connection.execute("INSERT INTO t VALUES (1)")
            per_commit_ms = (time.monotonic() - began) * 10
        assert 5 <= per_commit_ms < 30
        assert disk.status().void == ()
