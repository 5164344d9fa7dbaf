"""postgresql.conf read as the server reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from walproof.errors import SettingError
from walproof.settings.conf import read_conf


def _read(folder: Path, text: str) -> dict[str, str]:
    path = folder / "postgresql.conf"
    path.write_text(text)
    return read_conf(path)


def test_quotes_comments_and_the_last_line_counts(tmp_path: Path) -> None:
    text = """
# a comment
max_wal_size = 4GB          # another one
  Shared_Buffers '8GB'
wal_compression=lz4
archive_command = 'cp %p ''/a b''/%f'
search_path = '"$user", public'   # with # in it
log_line_prefix = 'it\\'s %m '
max_wal_size = 8GB
pg_stat_statements.max = 10000
"""
    assert _read(tmp_path, text) == {
        "max_wal_size": "8GB",
        "shared_buffers": "8GB",
        "wal_compression": "lz4",
        "archive_command": "cp %p '/a b'/%f",
        "search_path": '"$user", public',
        "log_line_prefix": "it's %m ",
        "pg_stat_statements.max": "10000",
    }


@pytest.mark.parametrize("line", ["= 4GB", "max_wal_size 4 GB", "max_wal_size = '4GB", "max_wal_size ="])
def test_a_line_that_the_server_refuses_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingError, match=r'syntax error in file ".*" line 2'):
        _read(tmp_path, f"fsync = on\n{line}\n")


def test_files_that_include_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="line 1 includes another file"):
        _read(tmp_path, "include_dir 'conf.d'\n")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        read_conf(tmp_path / "none.conf")
