"""Settings of a server by its files and its command line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from walproof.errors import SettingError
from walproof.settings.server_conf import ServerFiles, files_of, server_conf


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "main"
    folder.mkdir()
    (folder / "postgresql.conf").write_text("shared_buffers = 1GB\nmax_wal_size = 1GB\n")
    (folder / "postgresql.auto.conf").write_text("max_wal_size = 2GB\n")
    return folder


def test_alter_system_counts_after_the_files(data: Path) -> None:
    assert server_conf(data, ["postgres"]) == {"shared_buffers": "1GB", "max_wal_size": "2GB"}


def test_the_file_may_be_elsewhere(data: Path, tmp_path: Path) -> None:
    """As Debian starts it; ALTER SYSTEM's file stays in the data directory."""
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (elsewhere / "postgresql.conf").write_text("shared_buffers = 3GB\n")
    for command in (
        ["postgres", "-D", str(data), "-c", f"config_file={elsewhere}/postgresql.conf"],
        ["postgres", f"--config-file={elsewhere}/postgresql.conf", "-D", str(data)],
        ["postgres", "-D", str(elsewhere)],
    ):
        found = server_conf(data, command)
        assert (found["shared_buffers"], found["max_wal_size"]) == ("3GB", "2GB")
    with pytest.raises(SettingError, match="could not read"):
        server_conf(data, ["postgres", "-c", f"config_file={elsewhere}/none.conf"])


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["-c", "shared_buffers=4GB"], ("shared_buffers", "4GB")),
        (["-cshared_buffers=4GB"], ("shared_buffers", "4GB")),
        (["--shared-buffers=4GB"], ("shared_buffers", "4GB")),
        (["-B", "1000"], ("shared_buffers", "1000")),
        (["-ijB1000"], ("shared_buffers", "1000")),
        (["-p", "-B9", "-N", "7"], ("max_connections", "7")),
        (["-F"], ("fsync", "off")),
        (["--recovery_init_sync_method=syncfs", "-i"], ("recovery_init_sync_method", "syncfs")),
    ],
)
def test_the_command_line_counts_last(data: Path, words: list[str], setting: tuple[str, str]) -> None:
    expected = {"shared_buffers": "1GB", "max_wal_size": "2GB", **dict([setting])}
    assert server_conf(data, ["/usr/bin/postgres", *words]) == expected


def test_words_that_set_nothing(data: Path) -> None:
    found = server_conf(data, ["postgres", "-D", "main", "--single", "-", "word", "-c", "nothing", "-c"])
    assert found == {"shared_buffers": "1GB", "max_wal_size": "2GB"}


def test_a_file_leads_to_what_alter_system_has_set(data: Path, tmp_path: Path) -> None:
    assert files_of(data / "postgresql.conf") == ServerFiles(
        {"shared_buffers": "1GB", "max_wal_size": "2GB"},
        counted=data / "postgresql.auto.conf",
        by_sql=frozenset({"max_wal_size"}),
    )
    elsewhere = tmp_path / "postgresql.conf"
    elsewhere.write_text(f"data_directory = '{data}'\nmax_wal_size = 9GB\n")
    assert files_of(elsewhere).settings["max_wal_size"] == "2GB"
    elsewhere.write_text("max_wal_size = 9GB\n")
    assert files_of(elsewhere) == ServerFiles({"max_wal_size": "9GB"})


def test_a_data_directory_of_somebody_else(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for everybody but its owner and root, to whom no file is closed: the kernel's answer is given."""
    elsewhere = tmp_path / "postgresql.conf"
    elsewhere.write_text(f"data_directory = '{data}'\n")
    look = Path.stat

    def closed(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent == data:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(SettingError, match="Permission denied"):
        server_conf(data, ["postgres", "-c", f"config_file={elsewhere}"])
    found = files_of(elsewhere)
    assert found == ServerFiles({"data_directory": str(data)}, closed=data / "postgresql.auto.conf")
    assert found.missing == (
        f"{data}/postgresql.auto.conf may not be read: what ALTER SYSTEM has set is missing",
    )
