"""A limit on reads: what is written for either kind of control groups, errors, and the kernel itself."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

from walproof.disk.read_limit import GROUPS, ReadLimit
from walproof.errors import DiskError
from walproof.postgres.reaper import reap
from walproof.probe.device import find_device


@pytest.fixture
def device(tmp_path: Path) -> Path:
    folder = tmp_path / "vdx"
    folder.mkdir()
    (folder / "dev").write_text("254:16\n")
    return folder


@pytest.mark.parametrize(
    ("version", "file", "line"),
    [
        (1, "blkio/limit/blkio.throttle.read_iops_device", "254:16 500"),
        (2, "limit/io.max", "254:16 riops=500"),
    ],
)
def test_what_the_kernel_is_told(tmp_path: Path, device: Path, version: int, file: str, line: str) -> None:
    groups = tmp_path / "groups"
    (groups / "blkio" if version == 1 else groups).mkdir(parents=True)
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        child = shell.stdout.readline().decode().strip()
        with ReadLimit(device, 500, "limit", groups) as limit:
            limit.add(shell.pid)
            assert (groups / file).read_text() == line
            # Of a file, the last that was written: first the process, then what it had started.
            written = (groups / file).with_name("cgroup.procs").read_text()
        shell.kill()
        os.kill(int(child), signal.SIGKILL)
    assert written == child


def test_a_folder_without_a_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="not on a block device"), ReadLimit(None, 500, "limit", tmp_path):
        pass


def test_who_may_not_is_told(tmp_path: Path, device: Path) -> None:
    limit = ReadLimit(device, 500, "limit", tmp_path / "none")
    with pytest.raises(DiskError, match="reads cannot be limited: No such file or directory"), limit:
        pass


@pytest.fixture
def name() -> str:
    return f"walproof-{secrets.token_hex(6)}-reads"


def _is_refused(device: Path | None, name: str) -> bool:
    """Whether the kernel does not let this user limit reads; then the error says so."""
    refusal = None
    try:
        with ReadLimit(device, 1000, name):
            pass
    except DiskError as error:
        refusal = error
    assert refusal is None or refusal.message.startswith("reads cannot be limited: ")
    return refusal is not None


def test_reads_take_their_time(work: Path, name: str) -> None:
    """300 reads of a cold file, 200 a second: 1 s at least, whatever else the machine does."""
    device = find_device(work)
    if _is_refused(device, name):
        return
    path = work / name
    path.write_bytes(os.urandom(1 << 22))
    pid = os.fork()
    if pid == 0:
        _read(path)
    try:
        with ReadLimit(device, 200, name) as limit:
            limit.add(pid)
            began = time.monotonic()
            path.with_suffix(".go").touch()
            assert os.waitpid(pid, 0)[1] == 0
            assert time.monotonic() - began > 1.0
        assert not list(GROUPS.glob(f"*/{name}"))
    finally:
        path.unlink()
        path.with_suffix(".go").unlink()


def _read(path: Path) -> None:
    """In the child: waits for the file GO, then reads 300 pages of a file that is not cached."""
    deadline = time.monotonic() + 60
    while not path.with_suffix(".go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    for page in range(300):
        os.pread(file, 4096, 8192 * page)
    os._exit(0)


def test_a_group_that_was_left_is_reaped(work: Path, name: str, tmp_path: Path) -> None:
    if _is_refused(find_device(work), name):
        return
    ReadLimit(find_device(work), 200, name).__enter__()
    assert list(GROUPS.glob(f"**/{name}"))
    workspace = tmp_path / name.removesuffix("-reads")
    workspace.mkdir()
    reap(workspace, None, None)
    assert not list(GROUPS.glob(f"**/{name}"))
