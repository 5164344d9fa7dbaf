"""Signals reach the process that was meant, or none: whoever has its number by then."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from walproof.errors import ClusterError
from walproof.postgres import signals
from walproof.postgres.signals import Descendants, is_halted, lack_of_handles, parent, send

FAMILY = """
import os, subprocess, sys, time
depth = int(sys.argv[1])
if depth:
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", sys.argv[2], str(depth - 1), sys.argv[2]])
    os.write(1, b"begun\\n")  # one write: the lines of three processes do not mix
time.sleep(600)
"""


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


def _forget(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_number_that_passed_on_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    """The one that is meant ends while it is asked for: from then on its number may be anybody's."""
    other = subprocess.Popen(["sleep", "600"])
    try:

        def end_and_pass_on() -> bool:
            _forget(sleeper)
            return True

        send(sleeper.pid, signal.SIGKILL, end_and_pass_on)
        # One that has the number but is not meant is left alone.
        send(other.pid, signal.SIGKILL, lambda: False)
        time.sleep(0.05)
        assert other.poll() is None
        send(other.pid, signal.SIGKILL, lambda: parent(other.pid) == os.getpid())
        assert other.wait(60) == -signal.SIGKILL
    finally:
        _forget(sleeper)
        _forget(other)


def test_nothing_is_signalled_by_number() -> None:
    """In all of walproof: who may have ended is signalled by a handle, or by subprocess as its own child."""
    source = Path(signals.__file__).parent.parent
    named = ("os.kill(", "os.killpg(", ".suspend()")
    found = {
        f"{path.relative_to(source)}: {word}"
        for path in source.rglob("*.py")
        for word in named
        if word in path.read_text()
    }
    assert not found


def test_processes_that_cannot_be_held_are_an_error(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would go on while the others are stopped; and nothing stays open."""
    other = subprocess.Popen(["sleep", "600"])
    opened: list[int] = []
    real = os.pidfd_open

    def scarce(pid: int) -> int:
        if opened:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(real(pid))
        return opened[0]

    monkeypatch.setattr(os, "pidfd_open", scarce)
    try:
        with pytest.raises(ClusterError, match="held: Too many open files"), Descendants(os.getpid()):
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[0])
    finally:
        _forget(sleeper)
        _forget(other)


def test_where_no_process_can_be_held_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lack_of_handles() is None

    def refuse(_pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert lack_of_handles() == "Function not implemented"
    monkeypatch.delattr(os, "pidfd_open")
    assert lack_of_handles() == "this Python was built without it"


def test_a_child_that_ended_meanwhile_is_no_error(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_pid: int) -> int:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    monkeypatch.setattr(os, "pidfd_open", gone)
    try:
        with Descendants(os.getpid()) as family:
            assert not family._handles
    finally:
        _forget(sleeper)


def test_a_family_is_signalled_as_a_whole() -> None:
    """Children and grandchildren, stopped, continued, and killed once their ancestor is gone."""
    process = subprocess.Popen([sys.executable, "-c", FAMILY, "2", FAMILY], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for _ in range(3):  # the process and its two children
            assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        with Descendants(process.pid) as family:
            pids = list(family._handles)
            assert len(pids) == 6
            family.send(signal.SIGSTOP)
            family.wait_halted(time.monotonic() + 60)
            assert all(map(is_halted, pids))
            family.send(signal.SIGCONT)
            process.kill()
            process.wait()
            family.send(signal.SIGKILL)
            family.wait_ended(time.monotonic() + 60)
            assert all(map(is_halted, pids))
            family.send(signal.SIGKILL)  # of the dead
        assert parent(2**22 + 1) is None
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
