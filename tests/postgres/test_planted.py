"""What the servers' user, or a stranger, leaves where walproof works: links, locks, numbers, modules.

Each of these made root write, remove or run something of another's once.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.reaper import WAL_WORK, remove_remains
from walproof.postgres.wal_folder import wal_workspace
from walproof.postgres.workspace import Workspace, sweep
from walproof.privilege.user import server_user

IS_ROOT = os.geteuid() == 0
_IPC_PRIVATE, _IPC_CREAT, _IPC_RMID = 0, 0o1000, 0


@pytest.fixture
def cluster(embedded: Install, workspace: Workspace) -> Iterator[Cluster]:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), folder, flush=False)
    made = Cluster(embedded, workspace, folder)
    yield made
    made.stop("immediate")


@pytest.mark.live
@pytest.mark.parametrize("name", ["data/walproof.conf.new", "server.log"])
def test_a_link_in_a_clusters_folder_leads_to_no_file_of_roots(
    cluster: Cluster, open_place: Path, name: str
) -> None:
    """A server that has been taken over exchanges what root writes next, and waits for a restart."""
    if not IS_ROOT:
        lacking("root", "a folder of another user cannot be written to")
    precious = open_place / "precious"
    precious.write_text("of root alone")
    precious.chmod(0o600)
    (cluster.folder / name).symlink_to(precious)
    with pytest.raises(PermissionError):
        cluster.start({})
    assert precious.read_text() == "of root alone"
    assert precious.stat().st_uid == 0
    assert "of root" not in cluster.log_text()


@pytest.mark.live
def test_a_link_in_place_of_the_settings_is_replaced(cluster: Cluster, open_place: Path) -> None:
    """They are written beside it and renamed: not even a file that the server may write is touched."""
    elsewhere = open_place / "elsewhere"
    elsewhere.write_text("somebody's")
    elsewhere.chmod(0o666)
    conf = cluster.data / "walproof.conf"
    conf.symlink_to(elsewhere)
    cluster.start({})
    assert elsewhere.read_text() == "somebody's"
    assert not conf.is_symlink()


@pytest.mark.live
def test_a_server_cannot_exchange_what_lies_beside_it(cluster: Cluster) -> None:
    """Folders of clusters are the servers' user's; the one that holds them is ours."""
    user = server_user()
    assert cluster.folder.stat().st_uid == (os.geteuid() if user is None else user.uid)
    holding = cluster.folder.parent.stat()
    assert (holding.st_uid, holding.st_mode & 0o022) == (os.geteuid(), 0)


def test_the_work_folder_may_be_no_link(tmp_path: Path) -> None:
    (tmp_path / "work").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError, match="symbolic link"), Workspace(tmp_path / "work", server_user()):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_for_wal_that_is_refused_stays_as_it_is(tmp_path: Path) -> None:
    """Whoever may write beside it makes it a link to another folder, where a file has the lock's name."""
    waldir, elsewhere = tmp_path / "waldir", tmp_path / "elsewhere"
    for folder in (waldir, elsewhere):
        folder.mkdir()
    (elsewhere / "lock").write_text("of another program")
    (waldir / WAL_WORK).symlink_to(elsewhere)
    with pytest.raises(DiskError, match="symbolic link"), wal_workspace(waldir, server_user()):
        pass
    assert (elsewhere / "lock").read_text() == "of another program"
    assert (waldir / WAL_WORK).is_symlink()


def test_a_forged_lock_removes_nothing(tmp_path: Path) -> None:
    """Made before us in a folder with a well-known name, such as /tmp/walproof-work."""
    precious = tmp_path / "walproof-0123456789ab"
    precious.mkdir()
    (precious / "file").write_text("")
    running = tmp_path / "work" / "running"
    running.mkdir(parents=True)
    (running / "walproof-0123456789ab.lock").write_text(str(precious))
    (tmp_path / "work").chmod(0o777)
    with pytest.raises(DiskError, match="others may write"), Workspace(tmp_path / "work", server_user()):
        pass
    assert (precious / "file").exists()


@pytest.mark.parametrize(
    "name", ["walproof-x.lock", "walproof-0123456789AB.lock", "walproof-0123456789abc.lock", "walproof-.lock"]
)
def test_only_names_of_workspaces_are_swept(tmp_path: Path, name: str) -> None:
    running = tmp_path / "running"
    running.mkdir()
    (running / name).write_text("")
    (running / name).with_suffix("").mkdir()
    assert sweep(tmp_path) == ()
    assert (running / name).with_suffix("").is_dir()


def test_a_lock_that_is_being_made_is_not_swept(tmp_path: Path) -> None:
    running = tmp_path / "running"
    running.mkdir()
    unborn = running / "walproof-0123456789ab.lock.new"
    unborn.write_text("")
    (running / "walproof-0123456789ab").mkdir()
    assert sweep(tmp_path) == ()
    assert unborn.exists()
    # Of a process that was killed in that moment.
    os.utime(unborn, (time.time() - 7200,) * 2)
    assert sweep(tmp_path) == ()
    assert not unborn.exists()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    running = tmp_path / "running"
    running.mkdir()
    (tmp_path / "named").write_text(str(tmp_path / "walproof-0123456789ab"))
    (tmp_path / "walproof-0123456789ab").mkdir()
    (running / "walproof-0123456789ab.lock").symlink_to(tmp_path / "named")
    assert sweep(tmp_path) == ()
    assert (tmp_path / "walproof-0123456789ab").is_dir()


def test_a_segment_of_another_program_stays(open_place: Path) -> None:
    """After a new start of the machine the number in an old postmaster.pid may be anybody's."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(_IPC_PRIVATE, 4096, _IPC_CREAT | 0o600)
    assert segment >= 0
    try:
        data = open_place / "data"
        data.mkdir()
        gone = subprocess.Popen(["true"])
        gone.wait()
        lines = [str(gone.pid), str(data), "0", "5432", "", "", f"  5432001 {segment}", "ready"]
        (data / "postmaster.pid").write_text("\n".join(lines) + "\n")
        remove_remains(data, None)
        remove_remains(data, server_user())
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        assert segment in {int(row.split()[1]) for row in rows}
    finally:
        libc.shmctl(segment, _IPC_RMID, None)


_LOADS = textwrap.dedent(
    """
    from walproof.workload.loading.client import Order
    from walproof.workload.loading.sessions import LoadSessions
    from walproof.workload.loading.load_target import LoadTarget
    from walproof.errors import WorkloadError

    target = LoadTarget("t", ("a",), ("integer",), ("int4",))
    order = Order("host=/nowhere", "/nowhere", "copy", None, 0, 0, False, target)
    try:
        with LoadSessions([order]):
            pass
    except WorkloadError as error:
        print(error)
    """
)


def test_modules_in_the_present_folder_are_not_imported(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    for name in ("psycopg", "json", "walproof", "contextlib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LOADS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "a loading session" in done.stdout
    assert not marker.exists(), marker.read_text()
