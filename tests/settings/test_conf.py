"""postgresql.conf read as the server reads it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from walproof.errors import SettingError
from walproof.settings.conf import read_conf
from walproof.settings.usable import usable


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


def test_bytes_are_read_as_the_server_reads_them(tmp_path: Path) -> None:
    """As ``postgres -C`` of 15 prints them. A form feed in a comment ends no line."""
    path = tmp_path / "postgresql.conf"
    path.write_bytes(
        b"# caf\xe9\n"
        b"work_mem = 5MB # a\fport = 1\v port = 2 \xc2\x85port = 3 \xe2\x80\xa8port = 4\r\n"
        b"log_line_prefix = 'a\\041b\\303\\251\\q\\477''\\'''\\9'\n"
        b"cluster_name = 'x\xe9'\n"
        b"my.gr\xf6\xdfe = 1\n"
        b"my.gr\xc3\xb6\xe2\x82\xac = 2\n"
        b"include_if_exists 'n\xefve.conf'\n"
    )
    (tmp_path / os.fsdecode(b"n\xefve.conf")).write_text("fsync = off\n")
    assert read_conf(path) == {
        "work_mem": "5MB",
        "log_line_prefix": "a!b\u00e9q?'''9",
        "cluster_name": "x\\xe9",
        "my.gr\\xf6\\xdfe": "1",
        "my.gr\u00f6\u20ac": "2",
        "fsync": "off",
    }
    found = usable(read_conf(path), 180000, lambda *_: True)
    assert found.refused == {}
    assert {"my.gr\\xf6\\xdfe", "my.gr\u00f6\u20ac"} <= found.left_out.keys()


@pytest.mark.parametrize(
    "text", ["work_mem\f= 5MB", "work_mem = 5MB\rport = 1", "x \u00a0= 1", "\udce9 = = 1"]
)
def test_what_is_no_blank_to_the_server_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "postgresql.conf"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingError, match="line 1") as raised:
        read_conf(path)
    str(raised.value.detail).encode()


def test_included_files_are_read_where_they_stand(tmp_path: Path) -> None:
    """As Debian has it: conf.d at the end, its files in the order of their bytes, later lines count."""
    for name, text in {
        "conf.d/10-b.conf": "wal_compression = lz4\nmax_wal_size = 2GB\n",
        "conf.d/9.conf": "max_wal_size = 3GB\n",
        "conf.d/B.conf": "include '../more/of.conf'\n",
        "conf.d/.hidden.conf": "broken line here\n",
        "conf.d/not-conf.bak": "broken line here\n",
        "more/of.conf": "fsync = off\ninclude_if_exists = 'none.conf'\ninclude_if_exists beside.conf\n",
        "more/beside.conf": "commit_delay = 7\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "conf.d/folder.conf").mkdir()
    found = _read(tmp_path, "max_wal_size = 1GB\ninclude_dir = 'conf.d'\nwal_compression = pglz\n")
    assert found == {"max_wal_size": "3GB", "wal_compression": "pglz", "fsync": "off", "commit_delay": "7"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("include 'none.conf'", r"file .*none\.conf.*No such file.* \(included by .*, line 1\)"),
        ("include_dir 'none'", r"folder .*none.*No such file.* \(included by .*, line 1\)"),
        ("include ''", "line 1: include names nothing"),
        ("include 'postgresql.conf'", "included too often"),
        ("include 'fifo.conf'", "is not a regular file"),
        ("include_dir 'many'", "included too often"),
    ],
)
def test_what_cannot_be_included_is_named(tmp_path: Path, line: str, message: str) -> None:
    os.mkfifo(tmp_path / "fifo.conf")
    # Each of a folder's two files includes the folder again: more files than anybody can read.
    (tmp_path / "many").mkdir()
    for name in ("a.conf", "b.conf"):
        (tmp_path / "many" / name).write_text("include_dir '../many'\n")
    with pytest.raises(SettingError, match=message):
        _read(tmp_path, f"{line}\n")


def test_a_pipe_is_read_where_somebody_named_it(tmp_path: Path) -> None:
    """``--conf <(git show main:postgresql.conf)``; what it includes is a file."""
    fifo = tmp_path / "fifo.conf"
    os.mkfifo(fifo)
    for text, included in (("fsync = off\n", None), ("include 'fifo.conf'\n", "is included too often")):
        writing = threading.Thread(target=fifo.write_text, args=[text])
        writing.start()
        if included is None:
            assert read_conf(fifo, is_typed=True) == {"fsync": "off"}
        else:
            with pytest.raises(SettingError, match=included):
                read_conf(fifo, is_typed=True)
        writing.join()
    with pytest.raises(SettingError, match="not a regular file"):
        read_conf(fifo)


@pytest.mark.parametrize("line", ["include 'a\0b'", "include_dir 'a\0b'", "\0 = 1"])
def test_bytes_that_are_no_name_are_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingError):
        _read(tmp_path, f"{line}\n")
    assert _read(tmp_path, "include_if_exists 'a\0b'\n") == {}


def test_a_chain_as_long_as_the_server_follows(tmp_path: Path) -> None:
    for number in range(1, 12):
        (tmp_path / f"{number}.conf").write_text(f"include '{number + 1}.conf'\n")
    (tmp_path / "10.conf").write_text("fsync = off\n")
    assert _read(tmp_path, "include '1.conf'\n") == {"fsync": "off"}
    (tmp_path / "10.conf").write_text("include '11.conf'\n")
    (tmp_path / "11.conf").write_text("fsync = off\n")
    with pytest.raises(SettingError, match="included too often"):
        _read(tmp_path, "include '1.conf'\n")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        read_conf(tmp_path / "none.conf")
