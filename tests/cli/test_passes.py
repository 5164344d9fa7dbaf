"""Passes over WAL that take long: Ctrl-C ends them at once, a terminal sees how far they are.

The WAL is golden, but for its last segment, which is replaced by a file that takes a minute to unpack and
gives nothing: bzip2 streams without content, one after the other. A command that has opened it is in the
middle of its pass, and stays there.
"""

from __future__ import annotations

import bz2
import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.command import environment, start, walproof
from tests.golden.unpack import unpack
from walproof.cli.passes import PassProgress
from walproof.wal import stats
from walproof.wal.progress import Observe
from walproof.wal.recovery import analyse, find_redo
from walproof.wal.strip import strip
from walproof.wal.whatif import Target, simulate

STREAMS = 2_000_000
"""Some 30 us of CPU each."""
LAST = "00000001000000000000000A"
START = "0/800098"


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("endless") / f"{LAST}.bz2"
    path.write_bytes(bz2.compress(b"") * STREAMS)
    return path


@pytest.fixture
def wal(endless: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "wal"
    folder.mkdir()
    unpack(16, folder)
    (folder / LAST).unlink()
    (folder / endless.name).hardlink_to(endless)
    return folder


def _wait_until_reading(process: subprocess.Popen[bytes], name: str) -> None:
    """Return when the process has opened a file of that name. It must not have ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.returncode
        for entry in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                if entry.readlink().name == name:
                    return
            except OSError:
                pass  # closed meanwhile
        time.sleep(0.005)
    raise AssertionError(f"{name} was not opened within 60 s")


def _interrupt(command: Sequence[str], folder: Path, name: str = f"{LAST}.bz2") -> None:
    errors = folder / "errors"
    process = start(command, folder, errors)
    try:
        _wait_until_reading(process, name)
        process.send_signal(signal.SIGINT)
        # Far less than the rest of the pass takes.
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
    # No trial is stored here, and where there is no terminal nothing is shown.
    assert errors.read_text() == "walproof: interrupted\n"


@pytest.mark.parametrize(
    "command",
    [
        ("wal", "stats", "wal", "--threads", "1"),
        ("wal", "stats", "wal", "--threads", "2"),
        ("wal", "stats", "wal", "--partial"),
        ("wal", "records", "wal"),
        ("wal", "whatif", "wal"),
        ("wal", "whatif", "wal", "--recovery-target", "1min"),
        ("wal", "verify", "wal"),
        ("recovery", "predict", "wal"),
        ("recovery", "predict", "wal", "--start", START),
    ],
    ids=" ".join,
)
def test_an_interrupted_pass_ends(command: tuple[str, ...], wal: Path, tmp_path: Path) -> None:
    _interrupt(command, tmp_path)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_interrupted_copy_leaves_nothing(is_there: bool, wal: Path, tmp_path: Path) -> None:
    """Segments before the slow one are written by then."""
    copy = tmp_path / "copy"
    if is_there:
        copy.mkdir()
    _interrupt(("wal", "strip", "wal", "--to", "copy"), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("wal", "errors")] == (
        ["copy"] if is_there else []
    )
    assert not is_there or not list(copy.iterdir())


def test_an_interrupted_verification_is_resumed(wal: Path, endless: Path, tmp_path: Path) -> None:
    """In a folder of so many files that the slow one is not among those that are asked whose they are."""
    (wal / endless.name).unlink()
    for number in range(0x100, 0x140):
        (wal / f"00000001{0:08X}{number:08X}").hardlink_to(wal / "000000010000000000000008")
    slow = wal / f"00000001{1:08X}{0:08X}.bz2"
    slow.hardlink_to(endless)
    files = sorted(path.name for path in wal.iterdir())
    assert len(files) >= 64
    assert files.index(slow.name) % (len(files) // 16) != 0
    _interrupt(("wal", "verify", "wal", "--kept", "kept"), tmp_path, slow.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["errors", "kept", "wal"]
    slow.unlink()
    done = walproof("wal", "verify", "wal", "--kept", "kept", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr  # most names are not those of what is in the files
    assert '"misplaced"' in done.stdout


def test_a_terminal_sees_a_long_pass(wal: Path, tmp_path: Path) -> None:
    """Its bar comes, with bytes; after Ctrl-C there is the message alone."""
    terminal, ours = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "walproof", "wal", "stats", "wal"],
        cwd=tmp_path, env=environment(TERM="xterm", COLUMNS="100"), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=ours,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    os.close(ours)
    said = b""
    try:
        while b"reading WAL" not in said or b" of 3.00 MB" not in said:
            said += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        while b"interrupted" not in said:
            said += os.read(terminal, 4096)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert b"Traceback" not in said


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_waits_a_second_and_begins_anew_with_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = _Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with PassProgress("simulating", lambda: now[0]) as progress:
        assert progress.observe is not None
        progress.observe(1 << 20, 64 << 20)
        now[0] += 0.9
        progress.observe(32 << 20, 64 << 20)
        assert screen.getvalue() == ""
        now[0] += 0.2
        progress.observe(48 << 20, 64 << 20)
        assert progress._bar is not None
        assert progress._bar.tasks[0].fields["said"].startswith("48.0 MB of 64.0 MB")
        progress.observe(65 << 20, 64 << 20)
        assert progress._bar.tasks[0].percentage == 100
        progress.observe(0, 0)
        progress.observe(1 << 20, 32 << 20)
        assert progress._bar.tasks[0].fields["said"] == "1.00 MB of 32.0 MB"
        assert progress._bar.tasks[0].percentage == pytest.approx(100 / 32)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert PassProgress("simulating").observe is None


def test_the_bar_gives_way_to_results_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = _Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with PassProgress("reading WAL", lambda: now[0]) as progress:
        assert progress.observe is not None
        now[0] += 1.1
        progress.observe(1 << 20, 64 << 20)
        assert progress._bar is not None
        progress.give_way()
        progress.observe(2 << 20, 64 << 20)
        assert progress._bar is None
        now[0] += 1.1
        progress.observe(3 << 20, 64 << 20)
        assert progress._bar is not None
        assert progress._bar.tasks[0].fields["said"].startswith("3.00 MB of 64.0 MB")


def test_every_pass_tells_its_progress(tmp_path: Path) -> None:
    """At its end at the latest: bytes read, and bytes of the segments at hand."""
    folder = tmp_path / "wal"
    folder.mkdir()
    unpack(16, folder)
    seen: dict[str, list[tuple[int, int]]] = {}

    def note(what: str) -> Observe:
        seen[what] = []
        return lambda done, total: seen[what].append((done, total))

    stats(folder, observe=note("stats"))
    simulate(folder, targets=[Target()], observe=note("whatif"))
    analyse(folder, buffers=[16], observe=note("recovery"))
    find_redo(folder, observe=note("redo"))
    strip(folder, folder=tmp_path / "copy", observe=note("strip"))
    for what, told in seen.items():
        done, total = told[-1]
        if what == "strip":  # reads records, and then their pages
            done, total = done // 2, total // 2
        # A piece of 256 kB at a time; the rest of a segment after a switch counts.
        assert 2 << 20 < total <= 3 << 20, what
        assert 2 << 20 < done <= total + (1 << 20), what


def test_what_an_observer_raises_ends_the_pass(wal: Path) -> None:
    """As the handler of a signal does: within a pass that would take minutes."""

    class EnoughError(Exception):
        pass

    def refuse(_done: int, _total: int) -> None:
        raise EnoughError

    for threads in (1, 2):
        with pytest.raises(EnoughError):
            stats(wal, threads=threads, observe=refuse)
    with pytest.raises(EnoughError):
        simulate(wal, targets=[Target()], observe=refuse)
