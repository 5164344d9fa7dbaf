"""What is no file is never opened for WAL, whatever its name: a FIFO nobody writes to would hold us up for
ever, and a device may do anything. A test that waits shows the defect by its time limit."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.files import open_regular
from walproof.units import Lsn
from walproof.wal import records, stats
from walproof.wal.recovery import find_redo
from walproof.wal.strip import strip
from walproof.wal.verify.verify import verify
from walproof.wal.whatif import Target, simulate

LAST = "00000001000000000000000A"
END = Lsn.parse("0/A1CE40")
"""Of the golden WAL, so that its last segment has to be read."""


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _link_to_fifo(path: Path) -> None:
    os.mkfifo(path.parent / "fifo")
    path.symlink_to("fifo")


MAKERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "FIFO": (os.mkfifo, "a FIFO"),
    "socket": (_socket, "a socket"),
    "link to a FIFO": (_link_to_fifo, "a FIFO"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "folder": (Path.mkdir, "a directory"),
}


@pytest.fixture
def wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Names of sockets are short.
    monkeypatch.chdir(tmp_path)
    folder = Path("wal")
    folder.mkdir()
    unpack(16, folder)
    (folder / LAST).unlink()
    return folder


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "folder"])
def test_it_is_refused_under_a_segment_s_name(wal: Path, kind: str) -> None:
    make, name = MAKERS[kind]
    make(wal / LAST)
    passes: list[Callable[[], object]] = [
        lambda: stats(wal, end=END),
        lambda: stats(wal, end=END, threads=1),
        lambda: stats(wal / LAST),
        lambda: list(records(wal, end=END)),
        lambda: simulate(wal, targets=[Target()], end=END),
        lambda: strip(wal, folder=Path("copy")),
    ]
    for read in passes:
        with pytest.raises(WalError) as caught:
            read()
        assert str(caught.value.message) == f'could not open file "wal/{LAST}": it is {name}'
        assert caught.value.hint == "WAL is read from regular files."
    # The end is looked for backwards: what cannot be read holds no checkpoint.
    assert find_redo(wal, end=END).redo < END
    found = verify([wal])
    (problem,) = [entry for entry in found.archives[0].problems if entry.kind == "unreadable"]
    assert problem.segment == LAST
    assert problem.message.endswith(f"it is {name}")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("ending", [".gz", ".partial"])
def test_it_is_refused_under_the_name_of_a_compressed_one(wal: Path, kind: str, ending: str) -> None:
    make, _ = MAKERS[kind]
    make(wal / f"{LAST}{ending}")
    if kind == "folder":
        # There may be segments in it.
        assert stats(wal).finish_reason == f"{LAST} is not at hand"
    else:
        with pytest.raises(WalError, match=r"could not open file .*: it is a"):
            stats(wal, end=END)


def test_a_command_says_so(wal: Path) -> None:
    os.mkfifo(wal / LAST)
    done = walproof("wal", "stats", f"wal/{LAST}", cwd=Path.cwd())
    assert done.returncode == 2
    assert done.stderr == (
        f'walproof: error: could not open file "wal/{LAST}": it is a FIFO\n'
        "hint: WAL is read from regular files.\n"
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_a_history_is_a_file(wal: Path, kind: str) -> None:
    make, name = MAKERS[kind]
    make(wal / "00000002.history")
    if kind == "folder":
        assert stats(wal).totals.records
        return
    with pytest.raises(WalError, match=f"it is {name}"):
        stats(wal)
    problems = verify([wal]).archives[0].problems
    assert [problem.kind for problem in problems if problem.path and problem.path.endswith(".history")] == [
        "history damaged"
    ]


@pytest.mark.parametrize("kind", MAKERS)
def test_what_tools_write_beside_segments_are_files(wal: Path, kind: str) -> None:
    """A backup's manifest, Barman's descriptions: whatever they are, the rest is verified."""
    make, _ = MAKERS[kind]
    backup = Path("backup")
    backup.mkdir()
    make(backup / "backup_manifest")
    (backup / "base.tar").touch()
    problems = verify([wal], backups=[backup]).archives[0].problems
    assert "could not read it" in next(
        problem.message for problem in problems if problem.kind == "backup unreadable"
    )
    barman = Path("server")
    for folder in ("base/20261122T0300", "wals"):
        (barman / folder).mkdir(parents=True)
    (barman / "wals" / "000000010000000000000008").hardlink_to(wal / "000000010000000000000008")
    make(barman / "base" / "20261122T0300" / "backup.info")
    make(barman / "wals" / "xlog.db")
    assert verify([barman]).archives


def test_other_files_are_opened(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    (tmp_path / "link").symlink_to(file)
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"content"
    for missing in (tmp_path, tmp_path / "none", Path("/dev/null")):
        with pytest.raises(OSError, match=r"regular|No such"):
            open_regular(missing)
