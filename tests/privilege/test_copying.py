"""Trees arrive as they are, and nothing that was planted in them leads elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof.privilege.copying import copy_tree
from walproof.privilege.user import server_user


def test_files_folders_links_and_second_names(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "base" / "5").mkdir(parents=True)
    (source / "base" / "5" / "16384").write_bytes(os.urandom(70_000))
    (source / "base" / "second").hardlink_to(source / "base" / "5" / "16384")
    (source / "empty").mkdir()
    (source / "pg_wal").symlink_to("/elsewhere/wal")
    (source / "space").symlink_to("base")
    os.mkfifo(source / "pipe")
    copy_tree(source, target, reader=None, writer=None)
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    assert names == ["base", "base/5", "base/5/16384", "base/second", "empty", "pg_wal", "space"]
    assert (target / "base/5/16384").read_bytes() == (source / "base/5/16384").read_bytes()
    assert (target / "base/second").samefile(target / "base/5/16384")
    assert not (target / "base/second").samefile(source / "base/second")
    assert (target / "pg_wal").readlink() == Path("/elsewhere/wal")
    assert (target / "space").readlink() == Path("base")


def test_the_reader_reads_with_its_own_rights(open_place: Path) -> None:
    """A second name of root's file, planted where that is allowed, is as closed as the file."""
    user = server_user()
    source = open_place / "source"
    source.mkdir()
    source.chmod(0o755)
    precious = open_place / "precious"
    precious.write_text("of root alone")
    precious.chmod(0o600)
    (source / "16384").hardlink_to(precious)
    if user is None:
        lacking("root", "there is nobody else whose rights could be taken")
    with pytest.raises(PermissionError):
        copy_tree(source, open_place / "target", reader=user, writer=None)
    assert not (open_place / "target" / "16384").exists()


def test_an_existing_target_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        copy_tree(tmp_path / "source", tmp_path / "target", reader=None, writer=None)
