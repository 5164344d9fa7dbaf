"""A lab whose disk is full, whose servers are killed for want of memory, and whose clock jumps, at random.

Run by ``make check-long``, with a seed each time: nothing that was stored is lost or changed, nothing is left
behind, and once the disturbance is over the same command finishes the run.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment, walproof
from tests.live.laboratory import COMMAND, EXPECTED, SEED, Stored, processes, stored, wait_clean
from walproof.postgres.cache import cache_folder
from walproof.probe.processes import children

pytestmark = pytest.mark.live

ATTEMPTS = 4
LONGEST_S = 240.0
"""Of a disturbed lab, which may wait for a server that does not answer."""
WALPROOF = "from walproof.cli import main; main()"
JUMPING = """
import random, time
real, chance, begun = time.time, random.Random(SEED), time.monotonic()
moments = sorted(chance.uniform(0, 12) for _ in range(6))
jumps = [chance.choice([-1, 1]) * 10 ** chance.uniform(0, 5) for _ in moments]
def jumped():
    since = time.monotonic() - begun
    return real() + sum(jump for moment, jump in zip(moments, jumps) if moment < since)
time.time = jumped
"""
"""A system clock that is set forward or back, by up to a day, six times; for walproof's own process."""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_CACHE", str(cache_folder("disturbances")))


def _start(folder: Path, program: str = WALPROOF) -> subprocess.Popen[bytes]:
    with (folder / "errors").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", program, *COMMAND],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder, env=environment(),
        )  # fmt: skip


def _disturbed(
    folder: Path,
    chance: random.Random,
    disturb: Callable[[subprocess.Popen[bytes]], contextlib.AbstractContextManager[bool]],
) -> None:
    """Start the lab again and again, and disturb it once each time; then let it finish."""
    before: list[Stored] = []
    disturbances = 0
    for attempt in range(ATTEMPTS):
        where = f"seed {SEED}, attempt {attempt}"
        process = _start(folder)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.5, 10.0))
            if process.poll() is None:
                with disturb(process) as was_disturbed:
                    disturbances += was_disturbed
                    process.wait(LONGEST_S)
        finally:
            process.kill()
            process.wait()
        # Done, or an error that is explained: never a defect of ours.
        assert process.returncode in (0, 2), f"{where}: {(folder / 'errors').read_text()}"
        before = _check(folder, before, where)
        if len(before) == len(EXPECTED):
            break
    assert disturbances >= 1, f"seed {SEED}: every lab had ended before"
    if len(before) < len(EXPECTED):
        done = walproof(*COMMAND, cwd=folder)
        assert done.returncode == 0, done.stderr
        before = _check(folder, before, f"seed {SEED}, undisturbed")
    assert sorted((round_, variant) for _, round_, variant, _ in before) == EXPECTED


def _check(folder: Path, before: list[Stored], where: str) -> list[Stored]:
    """What is stored by now, with all that was stored before, and nothing beside it."""
    assert "Traceback" not in (folder / "errors").read_text(), where
    assert wait_clean(60.0) == [], where
    after = stored(folder)
    assert after[: len(before)] == before, where
    assert [number for number, *_ in after] == list(range(1, len(after) + 1)), where
    return after


def test_a_server_is_killed_as_for_want_of_memory(tmp_path: Path) -> None:
    """Any process of it: the kernel takes a postmaster or a backend, whatever it does."""
    chance = random.Random(SEED)

    @contextlib.contextmanager
    def shoot(process: subprocess.Popen[bytes]) -> Iterator[bool]:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            postmasters = [pid for pid, words in processes() if Path(words.split("\0")[0]).name == "postgres"]
            family = [*postmasters, *(child for pid in postmasters for child in children(pid))]
            if family:
                with contextlib.suppress(ProcessLookupError):
                    handle = os.pidfd_open(chance.choice(family))
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    os.close(handle)
                    yield True
                    return
            time.sleep(0.01)
        yield False

    _disturbed(tmp_path, chance, shoot)


def test_no_file_may_grow(tmp_path: Path) -> None:
    """Neither the store's nor a server's: a disk that is full, for a process and those that it starts."""
    chance = random.Random(SEED)

    @contextlib.contextmanager
    def limit(process: subprocess.Popen[bytes]) -> Iterator[bool]:
        most = int(10 ** chance.uniform(3, 7.5))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        yield True

    _disturbed(tmp_path, chance, limit)


def test_the_disk_of_the_results_is_full(tmp_path: Path) -> None:
    """A disk of its own in memory, which is filled to the last byte; that needs root, else the test fails to
    mount it and says so."""
    chance = random.Random(SEED)
    out = tmp_path / "walproof-out"
    out.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root; the limit on files (above) is what anybody has")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "walproof-test", str(out)], check=True)
    try:

        @contextlib.contextmanager
        def fill(_process: subprocess.Popen[bytes]) -> Iterator[bool]:
            filler = out / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while True:
                            stream.write(b"x" * size)
            yield True
            filler.unlink()

        _disturbed(tmp_path, chance, fill)
    finally:
        subprocess.run(["umount", str(out)], check=True)


def test_the_clock_jumps(tmp_path: Path) -> None:
    """Back and forth, while trials are measured: each is stored once, whatever time it says."""
    process = _start(tmp_path, f"SEED = {SEED}\n{JUMPING}\n{WALPROOF}")
    try:
        assert process.wait(LONGEST_S) in (0, 2), (tmp_path / "errors").read_text()
    finally:
        process.kill()
        process.wait()
    before = _check(tmp_path, [], f"seed {SEED}")
    assert before, (tmp_path / "errors").read_text()
    if process.returncode != 0:
        done = walproof(*COMMAND, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        before = _check(tmp_path, before, f"seed {SEED}, undisturbed")
    assert sorted((round_, variant) for _, round_, variant, _ in before) == EXPECTED
