"""Files are whole, and their owner's."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from walproof.cli.options import work_folder
from walproof.disk.flush import measure_flush
from walproof.errors import DiskError
from walproof.files import (
    existing_above,
    expanded,
    folder_bytes,
    is_folder,
    is_there,
    locked_file,
    make_private,
    private_folder,
    reason,
    regular_text,
    rename_whole,
    write_whole,
    written_whole,
)
from walproof.postgres.wal_folder import check_wal_folder


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_its_owners(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "b")
    write_whole(tmp_path / "a" / "b" / "c", "text\n")
    make_private(tmp_path / "a" / "d")
    assert [_mode(tmp_path / name) for name in ("a", "a/b", "a/b/c", "a/d")] == [0o700, 0o700, 0o600, 0o600]
    assert (tmp_path / "a" / "b" / "c").read_text() == "text\n"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["c"]


def test_the_reason_of_an_error_has_no_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "none").read_text()
    assert reason(missing.value) == "No such file or directory"
    with pytest.raises(UnicodeDecodeError) as odd:
        b"\xff".decode()
    assert reason(odd.value).startswith("'utf-8' codec can't decode byte 0xff")


def test_what_others_are_to_read_says_so(tmp_path: Path) -> None:
    write_whole(tmp_path / "metrics", b"1\n", mode=0o644)
    assert _mode(tmp_path / "metrics") == 0o644
    assert (tmp_path / "metrics").read_bytes() == b"1\n"


def test_what_stops_the_writer_leaves_what_was_there(tmp_path: Path) -> None:
    write_whole(tmp_path / "kept", "before")

    def interrupted() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), written_whole(tmp_path / "kept") as stream:
        stream.writelines(interrupted())
    assert (tmp_path / "kept").read_text() == "before"
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o750)
    private_folder(tmp_path / "ours")
    assert _mode(tmp_path / "ours") == 0o750


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    write_whole(path, "before")

    def refuse(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_its_name_is_given_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, then name, then folder: the order that a power cut cannot undo."""
    order: list[str] = []
    sync, give = os.fsync, Path.replace

    def synced(file: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        sync(file)

    def named(self: Path, target: Path) -> Path:
        order.append("name")
        return give(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    write_whole(tmp_path / "kept", "text")
    assert order == ["file", "name", "folder"]


def test_a_folder_that_did_not_reach_the_disk_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk may be noticed only when what was written is written back."""

    def fail(_: int) -> int:
        ctypes.set_errno(errno.ENOSPC)
        return -1

    (tmp_path / "tree").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda *_words, **_named: SimpleNamespace(syncfs=fail))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            rename_whole(tmp_path / "tree", tmp_path / "place")
    assert list(tmp_path.iterdir()) == [tmp_path / "tree"]
    rename_whole(tmp_path / "tree", tmp_path / "place")
    assert list(tmp_path.iterdir()) == [tmp_path / "place"]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "told")
    assert os.read(reader, 10) == b"told"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_text_of_others_is_a_file_with_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.files.TEXT_MOST", 4)
    (tmp_path / "text").write_text("\u00e4bc")
    assert regular_text(tmp_path / "text") == "\u00e4bc"
    (tmp_path / "text").write_text("12345")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name, said in (("text", "larger than"), ("pipe", "not a regular file"), ("endless", "not a regular")):
        with pytest.raises(OSError, match=said):
            regular_text(tmp_path / name)


def test_where_a_folder_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert existing_above(tmp_path) == tmp_path
    assert existing_above(tmp_path / "new" / "newer") == tmp_path
    monkeypatch.chdir(tmp_path)
    assert existing_above(Path("new")) == tmp_path


LOOKS: dict[str, Callable[[Path], object]] = {
    "is_there": is_there,
    "is_folder": is_folder,
    "--on": work_folder,
    "--waldir": lambda path: check_wal_folder(path, path),
    "disk": lambda path: measure_flush(Path("absent"), path),
}


@pytest.mark.parametrize("asked", LOOKS)
def test_a_place_that_may_not_be_looked_at_is_an_error_that_says_so(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for everybody but its owner and root, to whom no place is closed: the kernel's answer is given."""
    closed = tmp_path / "closed"
    look = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(DiskError, match=r"^could not look at \".*closed\": Permission denied$"):
        LOOKS[asked](closed)


def test_what_is_there_and_what_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("absent")
    looked = {name: (is_there(tmp_path / name), is_folder(tmp_path / name)) for name in ("", "file", "link")}
    assert looked == {"": (True, True), "file": (True, False), "link": (False, False)}
    assert not is_there(tmp_path / "file" / "below")


def test_a_home_that_nobody_has_is_an_error() -> None:
    assert expanded(Path("~/x")) == Path.home() / "x"
    with pytest.raises(DiskError, match="could not find the home folder"):
        expanded(Path("~nobody-here/x"))


def test_one_at_a_time_has_a_lock_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        with locked_file(path) as first, locked_file(path) as second:
            assert (first, second) == (True, False)
            assert path.exists()
        assert not path.exists()


def test_the_lock_of_a_file_that_was_removed_meanwhile_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last owner ends between opening and locking: a third process may have made the next file."""
    path = tmp_path / "lock"
    lock = fcntl.flock

    def lock_late(file: int, how: int) -> None:
        path.unlink()
        path.touch()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with locked_file(path) as is_ours:
        assert not is_ours
    assert path.exists()


def test_what_vanishes_counts_as_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server renames and removes files between the look at a folder and the look at its files."""
    (tmp_path / "summaries").mkdir()
    for name in ("kept", "summaries/kept", "summaries/temp.summary"):
        (tmp_path / name).write_bytes(b"12345")
    listed = os.scandir

    @contextmanager
    def scandir(folder: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(folder) as entries:
            found = list(entries)
        (tmp_path / "summaries" / "temp.summary").unlink(missing_ok=True)
        yield found

    monkeypatch.setattr(os, "scandir", scandir)
    assert folder_bytes(tmp_path / "absent") == 0
    assert folder_bytes(tmp_path) == 10
