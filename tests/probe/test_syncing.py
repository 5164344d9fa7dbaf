"""The order in which a start syncs its files, and the file that a process has open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from walproof.errors import ClusterError
from walproof.facts.recovering import SyncPlace
from walproof.probe.syncing import read_sync_place, walk_synced

NOW = 2_000_000_000.0


def write(path: Path, age_s: float = 3600.0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (NOW - age_s, NOW - age_s))
    return str(path)


def test_the_order_is_that_of_a_server(tmp_path: Path) -> None:
    """All below the data directory first, then pg_wal and tablespaces behind links; no other link."""
    data = tmp_path / "data"
    inside = {write(data / "base" / "5" / "1", 10.0), write(data / "PG_VERSION")}
    wal, space = write(tmp_path / "wal" / ("0" * 24)), write(tmp_path / "space" / "PG_18" / "5" / "2", 34.0)
    write(tmp_path / "elsewhere" / "3")
    (data / "pg_wal").symlink_to(tmp_path / "wal")
    (data / "pg_tblspc").mkdir()
    (data / "pg_tblspc" / "16385").symlink_to(tmp_path / "space")
    (data / "link").symlink_to(tmp_path / "elsewhere")
    walk = walk_synced(data, NOW)
    assert set(list(walk.places)[:2]) == inside
    assert list(walk.places)[2:] == [wal, space]
    assert list(walk.places.values()) == [0, 1, 2, 3]
    recent = {path for path, place in walk.places.items() if place in walk.recent}
    assert recent == {str(data / "base" / "5" / "1"), space}


def test_what_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"could not read .*pg_tblspc"):
        walk_synced(tmp_path, NOW)


@pytest.mark.parametrize(("mode", "is_flushed"), [("rb", False), ("r+b", True)])
def test_the_open_file_of_a_process(tmp_path: Path, mode: str, is_flushed: bool) -> None:
    path = write(tmp_path / "1")
    child = os.fork()
    if child == 0:
        # Nothing but that file and a folder, as of a startup process.
        os.closerange(3, 1024)
        os.open(tmp_path, os.O_RDONLY)
        file = open(path, mode)  # noqa: SIM115, PTH123
        os.kill(os.getpid(), 19)
        os._exit(file.fileno())
    try:
        os.waitpid(child, os.WUNTRACED)
        assert read_sync_place(child) == SyncPlace(path, is_flushed)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert read_sync_place(child) is None
