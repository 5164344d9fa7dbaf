"""Files of a data directory, counted as a server would sync them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.postgres.replication import wait_until
from walproof.observe.data_files import DataFiles, FileCount, count_files, dirty_bytes, is_of


def directory(root: Path) -> Path:
    data = root / "data"
    for name in ("base/1", "global", "pg_tblspc"):
        (data / name).mkdir(parents=True)
    (data / "global" / "pg_control").write_bytes(struct.pack("=Q", 77) + bytes(100))
    (data / "base" / "1" / "2619").write_text("x")
    wal, space = root / "wal", root / "space"
    wal.mkdir()
    (space / "PG_18").mkdir(parents=True)
    (wal / "0").write_text("x")
    (space / "PG_18" / "1").write_text("x")
    (data / "pg_wal").symlink_to(wal)
    (data / "pg_tblspc" / "16384").symlink_to(space)
    # A server follows no other link.
    (data / "base" / "elsewhere").symlink_to("/usr")
    return data


def test_a_file_that_vanishes_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary table is dropped while its folder is read: the other entries were left out with it."""
    for name in "abcd":
        (tmp_path / name).touch()
    listed = os.scandir

    def as_read_before(folder: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        with listed(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        (tmp_path / "b").unlink()
        return nullcontext(iter(found))

    monkeypatch.setattr("walproof.observe.data_files.os.scandir", as_read_before)
    assert count_files(tmp_path, time.time()) == FileCount(files=1 + 3, recent=3)


def test_links_to_wal_and_tablespaces_are_followed_and_no_others(tmp_path: Path) -> None:
    data = directory(tmp_path)
    os.utime(data / "base" / "1" / "2619", (0, 0))
    found = count_files(data, time.time())
    folders = ["data", "base", "base/1", "global", "pg_tblspc", "pg_wal", "16384", "16384/PG_18"]
    assert found == FileCount(files=len(folders) + 5, recent=4)


def test_a_folder_of_another_server_is_not_counted(tmp_path: Path) -> None:
    data = directory(tmp_path)
    assert is_of(data, 77)
    assert not is_of(data, 78)
    assert not is_of(tmp_path / "none", 77)
    with DataFiles() as files:
        files.count_in(str(data), 77)
        wait_until(lambda: files.count is not None, 10)
        files.count_in(str(data), 78)
        assert files.count is None
        files.count_in(None, 77)
        assert files.count is None


def test_the_kernel_says_what_is_dirty(monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = Path("/proc/meminfo").read_text()
    assert {"Dirty", "Writeback"} <= {line.split(":")[0] for line in meminfo.splitlines()}
    told = "Cached: 9 kB\nDirty:   12 kB\nWriteback:   4 kB\nWritebackTmp:   1 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert dirty_bytes() == 16 << 10
