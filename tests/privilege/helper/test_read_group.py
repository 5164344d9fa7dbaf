"""A limit on reads: what is written for either kind of control groups, errors, and the kernel itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof.disk.read_limit import ReadLimit
from walproof.errors import DiskError
from walproof.privilege.helper.client import RootHelper
from walproof.privilege.helper.read_group import GROUPS, ReadGroup
from walproof.privilege.helper.requests import RequestError
from walproof.privilege.user import running_as, server_user
from walproof.probe.device import find_device


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """As /sys/dev/block, with one device."""
    (tmp_path / "devices" / "254:16").mkdir(parents=True)
    return tmp_path / "devices"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def helper(notes: Path) -> Iterator[RootHelper]:
    with RootHelper(server_user(), notes) as started:
        yield started


def _group(notes: Path) -> list[Path]:
    """The control group of the helper whose note is there."""
    (note,) = notes.iterdir()
    return list(GROUPS.glob(f"**/{note.stem}-reads"))


def _uid() -> int:
    user = server_user()
    return os.geteuid() if user is None else user.uid


@contextmanager
def _family() -> Iterator[tuple[int, int]]:
    """A process of the servers' user and its child."""
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/", **running_as(server_user())) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        try:
            yield shell.pid, child
        finally:
            shell.kill()
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("version", "file", "line"),
    [
        (1, "blkio/limit/blkio.throttle.read_iops_device", "254:16 500"),
        (2, "limit/io.max", "254:16 riops=500"),
    ],
)
def test_what_the_kernel_is_told(tmp_path: Path, devices: Path, version: int, file: str, line: str) -> None:
    groups = tmp_path / "groups"
    (groups / "blkio" if version == 1 else groups).mkdir(parents=True)
    group = ReadGroup("limit", _uid(), groups, devices)
    with _family() as (shell, child):
        group.begin("254:16", 500)
        group.add(shell)
        assert (groups / file).read_text() == line
        # Of a file, the last that was written: first the process, then what it had started.
        written = (groups / file).with_name("cgroup.procs").read_text()
    assert written == str(child)


def test_what_is_not_allowed_changes_nothing(tmp_path: Path, devices: Path) -> None:
    (tmp_path / "groups").mkdir()
    group = ReadGroup("limit", _uid(), tmp_path / "groups", devices)
    with pytest.raises(RequestError, match="no block device 254:17"):
        group.begin("254:17", 500)
    with _family() as (shell, _), pytest.raises(RequestError, match="reads are not limited"):
        group.add(shell)
    assert list((tmp_path / "groups").iterdir()) == []


def test_only_processes_of_the_servers_user(tmp_path: Path, devices: Path) -> None:
    (tmp_path / "groups").mkdir()
    group = ReadGroup("limit", 4711, tmp_path / "groups", devices)
    group.begin("254:16", 500)
    with _family() as (shell, _), pytest.raises(RequestError, match=f"process {shell} is not of user 4711"):
        group.add(shell)
    with pytest.raises(RequestError, match="is not of user 4711 alone"):
        group.add(os.getpid())
    with pytest.raises(RequestError, match="there is no process"):
        group.add(2**22)
    assert not (tmp_path / "groups" / "limit" / "cgroup.procs").exists()
    with pytest.raises(RequestError, match="already limited"):
        group.begin("254:16", 900)


def test_a_process_with_two_users_is_refused(tmp_path: Path, devices: Path) -> None:
    """One that has been root and may be so again."""
    user = server_user()
    if user is None:
        lacking("root", "only root can have two users")
    (tmp_path / "groups").mkdir()
    group = ReadGroup("limit", user.uid, tmp_path / "groups", devices)
    group.begin("254:16", 500)
    program = f"import os, time; os.setresuid(-1, {user.uid}, -1); print(flush=True); time.sleep(60)"
    with subprocess.Popen(["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(RequestError, match="is not of user"):
            group.add(child.pid)
        child.kill()


def test_a_kernel_that_refuses_is_named(tmp_path: Path, devices: Path) -> None:
    group = ReadGroup("limit", _uid(), tmp_path / "none", devices)
    with pytest.raises(RequestError, match=r'No such file or directory: no control group with "io\.max"'):
        group.begin("254:16", 500)


def test_a_folder_without_a_disk_is_refused(helper: RootHelper) -> None:
    limit = ReadLimit(helper, None, 500)
    with pytest.raises(DiskError, match="not on a block device"), limit:
        pass


def _need_limits(helper: RootHelper, device: Path | None) -> None:
    """End the test where the kernel does not let this user limit reads, and the error says so."""
    try:
        with ReadLimit(helper, device, 1000):
            pass
    except DiskError as error:
        refused = error.message
    else:
        return
    assert refused.startswith("reads cannot be limited: ")
    if server_user() is None and device is not None:
        assert refused.endswith("(walproof was not started as root)")
    lacking("a limit on reads", refused.partition(": ")[2])


def test_reads_take_their_time(helper: RootHelper, notes: Path, open_place: Path) -> None:
    """300 reads of a cold file, 200 a second: 1 s at least, whatever else the machine does."""
    _need_limits(helper, find_device(open_place))
    (open_place / "file").write_bytes(os.urandom(1 << 22))
    (open_place / "file").chmod(0o644)
    go = open_place / "go"
    command = ["/usr/bin/python3", "-I", "-c", _READER, str(open_place / "file"), str(go)]
    with (
        subprocess.Popen(command, cwd="/", **running_as(server_user())) as reader,
        ReadLimit(helper, find_device(open_place), 200) as limit,
    ):
        limit.add(reader.pid)
        began = time.monotonic()
        go.touch()
        assert reader.wait() == 0
        assert time.monotonic() - began > 1.0
        assert len(_group(notes)) == 1
    assert _group(notes) == []


_READER = """
import os, sys, time
path, go = sys.argv[1:]
deadline = time.monotonic() + 60
while not os.path.exists(go) and time.monotonic() < deadline:
    time.sleep(0.01)
file = os.open(path, os.O_RDONLY)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for page in range(300):
    os.pread(file, 4096, 8192 * page)
"""


def test_processes_that_are_left_go_on_without_a_limit(
    helper: RootHelper, notes: Path, open_place: Path
) -> None:
    device = find_device(open_place)
    _need_limits(helper, device)
    with _family() as (shell, child):
        with ReadLimit(helper, device, 200) as limit:
            limit.add(shell)
            (group,) = _group(notes)
            assert {int(word) for word in (group / "cgroup.procs").read_text().split()} == {shell, child}
        assert not group.exists()
        os.kill(shell, 0)
        os.kill(child, 0)
