"""Throw-away clusters on every PostgreSQL at hand: they start, explain why not, and leave nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from walproof.errors import ClusterError, DisturbedError
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.shared_memory import shared_memory_of
from walproof.postgres.workspace import Workspace

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    made = Cluster(install, workspace, folder)
    yield made
    made.stop("immediate")


def _show(cluster: Cluster, name: str) -> str:
    with cluster.connect() as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def test_it_runs_with_its_settings_and_without_a_network(cluster: Cluster) -> None:
    cluster.start({"work_mem": "7MB", "search_path": 'it\'s, "quoted\\"'})
    assert _show(cluster, "server_version").split()[0] == cluster.install.version
    assert _show(cluster, "work_mem") == "7MB"
    assert _show(cluster, "search_path") == 'it\'s, "quoted\\"'
    assert _show(cluster, "listen_addresses") == ""
    assert cluster.sockets.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_it_stops_and_frees_its_memory(cluster: Cluster, mode: str) -> None:
    cluster.start({})
    segments, files = shared_memory_of(cluster.data)
    assert segments
    assert files
    pid = cluster.pid
    cluster.stop(mode)
    assert not Path(f"/proc/{pid}").exists()
    assert not any(file.exists() for file in files)
    used = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert not {int(row.split()[1]) for row in used} & set(segments)


def test_a_server_that_hangs_is_ended_by_force(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start({})
    monkeypatch.setattr("walproof.postgres.cluster._STOP_PATIENCE_S", 0.2)
    _, files = shared_memory_of(cluster.data)
    pid = cluster.pid
    os.kill(pid, signal.SIGSTOP)
    assert not cluster.stop("fast")
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    assert not any(file.exists() for file in files)


def test_a_template_is_not_made_of_a_server_that_was_ended_by_force(
    install: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walproof.postgres.cluster._STOP_PATIENCE_S", 0.2)

    def hang(cluster: Cluster) -> None:
        os.kill(cluster.pid, signal.SIGSTOP)

    with pytest.raises(ClusterError, match="the server of a template did not stop in time"):
        templates.prepare_loaded(workspace, install, (), "half stopped", hang, recycled_segments=False)
    assert not templates.is_prepared(workspace, install, (), "half stopped")


def test_why_it_does_not_start_is_the_servers_own_line(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="could not access file") as caught:
        cluster.start({"shared_preload_libraries": "no_such_library"})
    assert "no_such_library" in str(caught.value.detail)
    assert not cluster.is_running()


def test_a_refused_connection_is_explained(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="could not connect"):
        cluster.connect()


def test_sessions_that_come_too_early_do_not_fill_the_end_of_the_log(cluster: Cluster) -> None:
    (cluster.data / "standby.signal").touch()
    os.chown(cluster.data / "standby.signal", cluster.data.stat().st_uid, -1)
    cluster.start({"hot_standby": "off", "restore_command": "false"})
    for _ in range(30):
        with pytest.raises(psycopg.OperationalError, match="the database system is"):
            psycopg.connect(cluster.conninfo)
    assert cluster.log_text().count("the database system is") >= 30
    assert "entering standby mode" in cluster.log_tail()
    assert "the database system is" not in cluster.log_tail()
    assert cluster.last_complaint() == "it left no message"


def test_initdb_explains_itself(embedded: Install, workspace: Workspace) -> None:
    cluster = Cluster(embedded, workspace, workspace.make_folder("bad"))
    with pytest.raises(ClusterError, match=r"initdb of PostgreSQL .* failed") as caught:
        cluster.init(["--wal-segsize=3"])
    assert "--wal-segsize" in f"{caught.value.detail}"


def test_a_clone_has_the_bytes_of_its_template(embedded: Install, workspace: Workspace) -> None:
    template = templates.prepare_empty(workspace, embedded, ())
    folder = workspace.make_folder("clone")
    templates.clone(template, folder)
    original = {p.relative_to(template): p for p in template.rglob("*") if p.is_file()}
    copies = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    assert {name for name in original if name.parts[0] == "data"} == set(copies)
    assert all(copy.read_bytes() == original[name].read_bytes() for name, copy in copies.items())


def test_a_template_is_made_once_and_has_segments_to_recycle(embedded: Install, workspace: Workspace) -> None:
    loads = []

    def load(cluster: Cluster) -> None:
        loads.append(cluster)
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE marker ()")

    setup = f"test {workspace.folder.name}"
    first = templates.prepare_loaded(workspace, embedded, (), setup, load)
    assert templates.is_prepared(workspace, embedded, (), setup)
    assert templates.prepare_loaded(workspace, embedded, (), setup, load) == first
    assert len(loads) == 1
    segments = [p for p in (first / "data" / "pg_wal").iterdir() if p.is_file()]
    # min_wal_size is 80 MB by default: five segments of 16 MB.
    assert len(segments) >= 5
    folder = workspace.make_folder("loaded")
    templates.clone(first, folder)
    cluster = Cluster(embedded, workspace, folder)
    cluster.start({})
    try:
        assert _show(cluster, "fsync") == "on"
        with cluster.connect() as connection:
            connection.execute("SELECT FROM marker")
    finally:
        cluster.stop("immediate")
        import shutil

        shutil.rmtree(first)


def test_a_load_that_fails_leaves_no_template(embedded: Install, workspace: Workspace) -> None:
    def load(_cluster: Cluster) -> None:
        raise ClusterError("no")

    with pytest.raises(ClusterError, match=r"^no$"):
        templates.prepare_loaded(workspace, embedded, (), "fails", load)
    assert not templates.is_prepared(workspace, embedded, (), "fails")
    assert list(workspace.folder.iterdir()) == []


def test_a_killed_server_leaves_no_shared_memory(install: Install, workspace: Workspace) -> None:
    """Nor the segments that only its children have mapped."""
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({"fsync": "off"})
    with cluster.connect() as connection:
        connection.execute("CREATE TABLE t (i int)")
        connection.execute("INSERT INTO t SELECT generate_series(1, 1000)")
        # Not all that is new in /dev/shm: other tests' servers may start at the same time.
        _, made = shared_memory_of(cluster.data)
        assert made
        cluster.kill()
    assert not [path for path in made if path.exists()]
    assert not cluster.is_running()


def test_its_shared_memory_is_what_its_processes_have_mapped(cluster: Cluster) -> None:
    """Statistics (15 and newer) are in a segment that the postmaster itself never maps."""
    cluster.start({"fsync": "off"})
    with cluster.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000)")
        mapped = set()
        for process in (postmaster := psutil.Process(cluster.pid), *postmaster.children()):
            maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            mapped |= {Path(line.split()[5]) for line in maps if "/dev/shm/PostgreSQL." in line}
        segments, files = shared_memory_of(cluster.data)
    assert mapped
    assert set(files) == mapped
    assert _segments_of(cluster.pid) == set(segments)


@pytest.mark.parametrize("moment", range(6))
def test_a_server_that_is_killed_while_it_starts_leaves_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """By somebody else; its children have not noticed yet when walproof does."""
    seen: list[tuple[int, tuple[Path, ...]]] = []

    def shoot(server: Cluster) -> bool:
        segments, files = shared_memory_of(server.data)
        # Its shared memory is made, and a little later.
        if segments and segments[0] in _segments_of(server.pid):
            time.sleep(0.01 * moment)
            seen.append((server.pid, (*files, *shared_memory_of(server.data)[1])))
            os.kill(server.pid, signal.SIGKILL)
            time.sleep(0.001)
        return False

    monkeypatch.setattr(Cluster, "_is_ready", shoot)
    with pytest.raises(DisturbedError, match="did not start"):
        cluster.start({"fsync": "off"})
    pid, files = seen[0]
    assert not _segments_of(pid)
    assert not [
        process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(cluster.data)
    ]
    assert not [file for file in files if file.exists()]


def _segments_of(pid: int) -> set[int]:
    """System V segments that the process made."""
    rows = [row.split() for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {int(row[1]) for row in rows if int(row[4]) == pid}
