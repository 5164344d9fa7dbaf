"""Folders with well-known names are believed only where nobody else can have put something there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof.errors import DiskError
from walproof.privilege.folders import own_folder


def test_a_missing_folder_is_made_for_ourselves_alone(tmp_path: Path) -> None:
    made = own_folder(tmp_path / "a" / "work", passable=False)
    assert made.stat().st_mode & 0o777 == 0o700
    assert own_folder(tmp_path / "a" / "work", passable=True) == made
    assert made.stat().st_mode & 0o777 == 0o711


def test_a_symbolic_link_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "work").symlink_to(elsewhere)
    with pytest.raises(DiskError, match="symbolic link"):
        own_folder(tmp_path / "work", passable=False)
    assert not elsewhere.exists()
    elsewhere.mkdir()
    with pytest.raises(DiskError, match="symbolic link"):
        own_folder(tmp_path / "work", passable=False)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(mode)
    with pytest.raises(DiskError, match="others may write to it") as raised:
        own_folder(work, passable=False)
    assert f"{mode:04o}" in str(raised.value.detail)


def test_a_folder_below_what_others_may_rename_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(DiskError, match=r'others may write to ".*/shared"'):
        own_folder(shared / "below" / "work", passable=False)
    # As /tmp and /dev/shm are: there, nobody may rename what another one owns.
    shared.chmod(0o1777)
    assert own_folder(shared / "work", passable=False).is_dir()


def test_a_link_above_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert own_folder(tmp_path / "link" / "work", passable=False) == (tmp_path / "real" / "work").resolve()


def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        lacking("root", "a folder cannot be made for somebody else")
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    os.chown(work, 65534, 65534)
    with pytest.raises(DiskError, match='belongs to user "nobody"'):
        own_folder(work, passable=False)
    with pytest.raises(DiskError, match=r'".*/work" belongs to user "nobody"'):
        own_folder(work / "below", passable=False)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("")
    with pytest.raises(DiskError, match="Not a directory"):
        own_folder(tmp_path / "work", passable=False)
