"""A workspace goes away in every way that its process can end."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from walproof.errors import ClusterError, DiskError
from walproof.postgres import reaper, watchdog
from walproof.postgres.cache import cache_folder
from walproof.postgres.shared_memory import shared_memory_of
from walproof.postgres.wal_folder import wal_moved
from walproof.postgres.workspace import Workspace, sweep
from walproof.privilege import folders
from walproof.privilege.user import server_user
from walproof.probe.processes import children, is_running

pytestmark = pytest.mark.live


@pytest.fixture
def work() -> Path:
    """A folder of these tests' own: whoever makes a workspace sweeps what is beside it."""
    return cache_folder("workspaces")


# Starts a server in a workspace, stops its processes if asked to, prints where, and stays.
_HOLDER = textwrap.dedent(
    """
    import contextlib, sys, time
    from pathlib import Path
    from walproof.postgres import template as templates
    from walproof.postgres.cluster import Cluster
    from walproof.postgres.install import find
    from walproof.postgres.reach import reachable_install
    from walproof.privilege.user import server_user
    from walproof.postgres.workspace import Workspace

    user = server_user()
    install = reachable_install(find("embedded"), user)
    with Workspace(Path(sys.argv[1]), user) as workspace:
        folder = workspace.make_folder("cluster")
        templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
        cluster = Cluster(install, workspace, folder)
        cluster.start({})
        with cluster.suspended() if "suspended" in sys.argv else contextlib.nullcontext():
            print(workspace.folder, workspace.sockets, cluster.pid, workspace._watchdog.pid, flush=True)
            time.sleep(600)
    """
)


class Held:
    def __init__(self, work: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(work), *words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        folder, sockets, server, watchdog = self.process.stdout.readline().split()
        self.folder, self.sockets = Path(folder), Path(sockets)
        self.server, self.watchdog = int(server), int(watchdog)
        self.memory = shared_memory_of(self.folder / "cluster" / "data")
        self.family = [self.server, *children(self.server)]

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def is_gone(self) -> bool:
        segments, files = self.memory
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        return not (
            self.folder.exists()
            or self.sockets.exists()
            or any(is_running(pid) for pid in self.family)
            or any(file.exists() for file in files)
            or {int(row.split()[1]) for row in rows} & set(segments)
        )


def _wait(held: Held, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not held.is_gone():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("words", [(), ("suspended",)])
def test_the_watchdog_cleans_up_after_a_kill(work: Path, words: tuple[str, ...]) -> None:
    held = Held(work, *words)
    assert len(held.family) > 4
    assert not held.is_gone()
    held.kill(signal.SIGKILL)
    assert _wait(held)


# Is killed the moment its folders exist, before anything else could be done in them.
_KILLED_AT_ONCE = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from walproof.postgres.workspace import Workspace

    class Killed(Workspace):
        def _make_folders(self):
            super()._make_folders()
            print(self.folder, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    with Killed(Path(sys.argv[1]), None):
        pass
    """
)

# Leaves a child that the reaper does not know and that goes on making files for a second after the kill.
_WRITES_ON = textwrap.dedent(
    """
    import os, signal, subprocess, sys
    from pathlib import Path
    from walproof.postgres.workspace import Workspace

    LATE = (
        "import pathlib, sys, time, itertools\\n"
        "end = time.monotonic() + 1\\n"
        "for number in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):\\n"
        "    pathlib.Path(sys.argv[1], str(number)).touch()\\n"
    )
    with Workspace(Path(sys.argv[1]), None) as workspace:
        late = [sys.executable, "-c", LATE, str(workspace.folder)]
        child = subprocess.Popen(late, stderr=subprocess.DEVNULL)
        while not any(workspace.folder.iterdir()):
            pass
        print(workspace.folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
)


@pytest.mark.parametrize("program", [_KILLED_AT_ONCE, _WRITES_ON])
def test_the_watchdog_cleans_up_at_the_edges_of_a_workspaces_life(work: Path, program: str) -> None:
    killed = subprocess.run([sys.executable, "-c", program, str(work)], stdout=subprocess.PIPE, text=True)
    assert killed.returncode == -signal.SIGKILL
    folder = Path(killed.stdout.strip())
    deadline = time.monotonic() + 60
    while (folder.exists() or folder.with_suffix(".lock").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)  # and it does not come back
    assert not folder.exists()
    assert not folder.with_suffix(".lock").exists()


def test_without_a_watchdog_nothing_begins(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Workspace(work, None)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", shutil.which("false"))
        with pytest.raises(ClusterError, match="cleans up after a killed walproof did not start"):
            begun.__enter__()
    assert not begun.folder.exists()
    assert not begun.folder.with_suffix(".lock").exists()


def test_what_keeps_a_watchdog_from_its_start_is_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "child_environment", lambda: {"PYTHONHOME": "/nowhere"})
    with pytest.raises(ClusterError) as caught, Workspace(work, None):
        pass
    assert caught.value.detail


def test_a_watchdog_that_was_ended_is_replaced(work: Path) -> None:
    with Workspace(work, None) as workspace:
        first = workspace._watchdog
        assert first is not None
        workspace.make_folder("one")
        assert workspace._watchdog is first
        first.kill()
        first.wait()
        workspace.make_folder("two")
        assert workspace._watchdog is not None
        assert workspace._watchdog.poll() is None
    assert not workspace.folder.exists()


def _wait_gone(path: Path) -> bool:
    deadline = time.monotonic() + 60
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not path.exists()


def test_a_kill_leaves_no_templates_in_memory() -> None:
    work = Path(f"/dev/shm/walproof-tests-killed-{os.getpid()}")
    held = Held(work)
    assert list((work / "templates").iterdir())
    held.kill(signal.SIGKILL)
    assert _wait_gone(work)


_KILLED_WITH_WAL_ELSEWHERE = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from walproof.postgres.wal_folder import wal_workspace

    with wal_workspace(Path(sys.argv[1]), None) as workspace:
        workspace.make_folder("wal")
        os.kill(os.getpid(), signal.SIGKILL)
    """
)


def test_a_kill_leaves_nothing_in_the_folder_for_wal(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED_WITH_WAL_ELSEWHERE, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    assert _wait_gone(tmp_path / reaper.WAL_WORK)


def test_a_folder_that_goes_while_a_workspace_begins_is_made_again(tmp_path: Path) -> None:
    """The last workspace in memory removes the folder of all."""
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    with ThreadPoolExecutor(1) as beside:
        with reaper.held_folder(work):
            beginning = beside.submit(Workspace(work, None).__enter__)
            time.sleep(0.5)
            assert not beginning.done()
            shutil.rmtree(work)
        workspace = beginning.result(60)
    assert workspace.folder.is_dir()
    workspace.__exit__(None, None, None)


def test_a_folder_that_goes_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog of a killed walproof leaves when its user begins again."""
    checked, still_there = folders.check_own, [True]

    def check(folder: Path) -> None:
        if still_there:
            still_there.clear()
            folder.rmdir()
        checked(folder)

    monkeypatch.setattr(folders, "check_own", check)
    with Workspace(tmp_path / "work", None) as workspace:
        assert workspace.folder.is_dir()
    assert still_there == []


def test_what_cannot_be_removed_is_found_by_the_next_start(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk where removing fails for a while: the lock is all by which it is found again."""
    monkeypatch.setattr(reaper, "_REMOVAL_PATIENCE_S", 0.1)
    workspace = Workspace(work, None)
    with monkeypatch.context() as patch, workspace:
        workspace.make_folder("cluster")
        assert workspace._watchdog is not None
        workspace._watchdog.kill()  # another process, where removing does not fail
        patch.setattr(reaper, "_remove", Path.exists)
    assert workspace.folder.exists()
    assert workspace.folder.with_suffix(".lock").exists()
    assert sweep(work) == (workspace.token,)
    assert not workspace.folder.exists()
    assert not workspace.folder.with_suffix(".lock").exists()


def test_what_can_never_be_removed_delays_no_start_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = tmp_path / "running"
    (running / "walproof-000000000000").mkdir(parents=True)
    (running / "walproof-000000000000.lock").write_text("")
    monkeypatch.setattr(reaper, "_remove", Path.exists)
    began = time.monotonic()
    assert sweep(tmp_path) == ()
    assert time.monotonic() - began < 5
    assert (running / "walproof-000000000000.lock").exists()


def test_the_next_start_sweeps_what_no_watchdog_saw(work: Path) -> None:
    held = Held(work)
    os.kill(held.watchdog, signal.SIGKILL)
    held.kill(signal.SIGKILL)
    time.sleep(0.3)
    assert not held.is_gone()  # nobody was left to clean up
    assert held.folder.name in sweep(work)
    assert _wait(held)


def test_a_sweep_leaves_the_living_alone(work: Path) -> None:
    held = Held(work)
    try:
        assert sweep(work) == ()
        assert not held.is_gone()
    finally:
        held.kill(signal.SIGKILL)
    assert _wait(held)


def test_the_watchdog_outlives_signals_to_the_group(work: Path) -> None:
    held = Held(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(held.watchdog, number)
    held.kill(signal.SIGKILL)
    assert _wait(held)


def test_an_orderly_exit_leaves_nothing(work: Path) -> None:
    with Workspace(work, server_user()) as workspace:
        folder, sockets = workspace.folder, workspace.sockets
        assert workspace._watchdog is not None
        watchdog = workspace._watchdog.pid
        assert folder.is_dir()
    assert not folder.exists()
    assert not sockets.exists()
    assert not folder.with_suffix(".lock").exists()
    assert not Path(f"/proc/{watchdog}").exists()


def test_an_error_inside_leaves_nothing(work: Path) -> None:
    workspace = Workspace(work, server_user())
    with pytest.raises(ZeroDivisionError), workspace:
        raise ZeroDivisionError
    assert not workspace.folder.exists()
    assert not workspace.sockets.exists()


def test_programs_that_take_long_end_with_the_workspace(work: Path) -> None:
    programs = ("tar", "pg_basebackup", "pg_combinebackup", "pg_verifybackup", "strace", "perf")
    with ExitStack() as stack:
        with Workspace(work, None) as workspace:
            backup = str(workspace.folder / "backup")
            # Each waits for its standard input.
            started = [
                subprocess.Popen([program, "-", backup], executable="/bin/cat", stdin=subprocess.PIPE)
                for program in programs
            ]
            for process in map(stack.enter_context, started):
                # The kernel tells Popen of the new program a moment before it shows its arguments.
                while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    time.sleep(0.01)
        for program, process in zip(programs, started, strict=True):
            assert process.wait(30) != 0, program


def test_a_damaged_lock_names_no_other_folder(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    running = tmp_path / "work" / "running"
    running.mkdir(parents=True)
    (running / "walproof-000000000000.lock").write_text(str(precious))
    assert sweep(tmp_path / "work") == ("walproof-000000000000",)
    assert precious.is_dir()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DiskError, match="could not use folder"), Workspace(file, server_user()):
        pass


def test_a_folder_that_the_servers_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        assert server_user() is None  # whoever is not root runs the servers himself
        return
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(DiskError, match="cannot reach folder"), Workspace(private, server_user()):
        pass
    assert list((private / "running").iterdir()) == []


def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 100)))
    with pytest.raises(DiskError, match="too long for a unix socket"), Workspace(tmp_path, None):
        pass


def test_where_no_process_can_be_held_nothing_begins(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel or a container's filter: servers would not be stopped, and outlive a kill -9."""

    def refuse(_pid: int) -> int:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    begun = Workspace(work, server_user())
    with pytest.raises(ClusterError, match="pidfd_open: Operation not permitted"):
        begun.__enter__()
    assert not (work / "running" / begun.token).exists()


def test_wal_that_does_not_fit_another_disk_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between file systems files are copied, and what went wrong is a list."""
    why = "[Errno 28] No space left on device"

    def fail(source: Path, target: Path) -> None:
        raise shutil.Error([(str(source), str(target), why), ("a", "b", why)])

    monkeypatch.setattr(shutil, "move", fail)
    data = Path("/nowhere/trial/data")
    says = r"could not move WAL into .*: \[Errno 28\] No space left on device$"
    with pytest.raises(DiskError, match=says), wal_moved(data, workspace):
        pass
    assert not (workspace.folder / "wal-trial").exists()
