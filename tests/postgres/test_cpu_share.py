"""A process that is held back: it is stopped again and again, and runs freely once that has ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from walproof.postgres.cpu_share import CpuShare


@pytest.fixture
def busy() -> Iterator[psutil.Process]:
    """A process that wants a core for itself."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield psutil.Process(process.pid)
        process.kill()


def _cpu_s(process: psutil.Process) -> float | None:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return None
    return float(times.user + times.system)


def _wait_for(process: psutil.Process, is_stopped: bool) -> None:
    deadline = time.monotonic() + 30
    while (process.status() == psutil.STATUS_STOPPED) != is_stopped:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_it_is_stopped_and_continued(busy: psutil.Process) -> None:
    with CpuShare(busy.pid, 0.1, lambda: _cpu_s(busy)):
        for _ in range(3):
            _wait_for(busy, is_stopped=True)
            _wait_for(busy, is_stopped=False)
        _wait_for(busy, is_stopped=True)
    _wait_for(busy, is_stopped=False)


def test_it_runs_on_when_the_block_fails(busy: psutil.Process) -> None:
    def fail() -> None:
        with CpuShare(busy.pid, 0.01, lambda: _cpu_s(busy)):
            _wait_for(busy, is_stopped=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    _wait_for(busy, is_stopped=False)


def test_one_that_ends_meanwhile_is_let_go(busy: psutil.Process) -> None:
    with CpuShare(busy.pid, 0.01, lambda: _cpu_s(busy)):
        busy.kill()
        busy.wait()
    assert _cpu_s(busy) is None
