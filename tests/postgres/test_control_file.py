"""Where recovery begins, as the control file and the server say it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.postgres.replication import SETTINGS, run, running_primary
from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.control_file import read_redo, target_timeline
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn


def data_with(folder: Path, control: bytes) -> Path:
    (folder / "global").mkdir()
    (folder / "global" / "pg_control").write_bytes(control)
    return folder


@pytest.mark.live
def test_the_redo_point_is_the_servers_own(install: Install, workspace: Workspace) -> None:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({"autovacuum": "off", "checkpoint_timeout": "1h"})
    seen = set()
    try:
        with cluster.connect() as connection:
            for _ in range(2):
                connection.execute("CREATE TEMP TABLE IF NOT EXISTS t ()")
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
                row = connection.execute(
                    "SELECT redo_lsn::text, timeline_id FROM pg_control_checkpoint()"
                ).fetchone()
                assert row is not None
                redo, timeline = read_redo(cluster.data)
                assert (redo, timeline) == (Lsn.parse(str(row[0])), row[1])
                seen.add(redo)
    finally:
        cluster.stop("immediate")
    assert len(seen) == 2


def test_a_folder_that_is_no_data_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="where recovery begins is not known: cannot read"):
        read_redo(tmp_path)


def test_a_control_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is cut off") as caught:
        read_redo(data_with(tmp_path, b"\0" * 20))
    assert caught.value.detail == "It has 20 bytes; 52 are read."


def test_every_layout_has_it_at_the_same_place(tmp_path: Path) -> None:
    for version in (1300, 1700, 1800, 1905):
        control = struct.pack("=Q I I I 4x q Q Q I", 7, version, 202610061, 6, 0, 0x80, 0x1000028, 3)
        folder = tmp_path / str(version)
        folder.mkdir()
        assert read_redo(data_with(folder, control)) == (Lsn(0x1000028), 3)


@pytest.mark.parametrize(("version", "at"), [(1300, 144), (1700, 144), (1800, 144), (1905, 152)])
def test_a_timeline_that_had_no_checkpoint_before_the_crash_counts(
    tmp_path: Path, version: int, at: int
) -> None:
    head = struct.pack("=Q I I I 4x q Q Q I", 7, version, 202610061, 6, 0, 0x80, 0x1000028, 3)
    data = data_with(tmp_path, head.ljust(at, b"\0") + struct.pack("=I", 4))
    # What is read there is believed where the timeline has a history.
    assert target_timeline(data) == 3
    (data / "pg_wal").mkdir()
    (data / "pg_wal" / "00000004.history").touch()
    assert target_timeline(data) == 4
    assert read_redo(data) == (Lsn(0x1000028), 3)


@pytest.mark.live
@pytest.mark.pg(ends=True)
def test_a_crash_soon_after_a_promotion_recovers_on_the_new_timeline(
    install: Install, workspace: Workspace
) -> None:
    with running_primary(install, workspace) as primary:
        standby = Standby(primary, workspace, "promoted")
        standby.build()
        try:
            standby.start({**SETTINGS, "checkpoint_timeout": "1h", "max_wal_size": "4GB"})
            standby.promote()
            run(standby, "CREATE TABLE written ()")
            standby.kill()
            # The checkpoint that a promotion asks for may be over already.
            assert target_timeline(standby.data) == 2
        finally:
            standby.stop("immediate")


def test_a_control_file_of_another_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="the layout") as caught:
        read_redo(data_with(tmp_path, (7).to_bytes(8, "little") + (942).to_bytes(4, "little") + b"\0" * 500))
    assert "It has version 942; known are 1300, 1700, 1800, 1905" in (caught.value.detail or "")
