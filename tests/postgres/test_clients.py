"""Which client program meets a server. Versions that no machine has are folders that say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.installs import put_install
from walproof.errors import InstallError
from walproof.facts import Install
from walproof.postgres import install
from walproof.postgres.clients import find_client


@pytest.fixture(autouse=True)
def _no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/path")
    (tmp_path / "path").mkdir()


def _put(folder: Path, *versions: str) -> list[Install]:
    return [
        install.examine(put_install(folder / version, version, "pg_dump"), "installed")
        for version in versions
    ]


@pytest.mark.parametrize(
    ("server", "chosen"),
    [
        (170005, "17.11"),
        (170011, "17.11"),
        # No 16 is there: the next major version, in its newest minor.
        (160000, "17.11"),
        # 15.2 and 15.18 would be older than the server, by a minor.
        (150019, "17.11"),
        (150003, "15.18"),
        (180000, "18.4"),
    ],
)
def test_newest_minor_of_the_servers_major(tmp_path: Path, server: int, chosen: str) -> None:
    there = _put(tmp_path, "17.10", "18.4", "15.18", "17.11", "15.2", "18.1", "17.6")
    client = find_client("pg_dump", server, there)
    assert (client.version, client.path) == (chosen, tmp_path / chosen / "bin/pg_dump")


def test_none_is_older_than_the_server(tmp_path: Path) -> None:
    with pytest.raises(InstallError) as caught:
        find_client("pg_dump", 180006, _put(tmp_path, "17.11", "18.4"))
    assert caught.value.message == "no pg_dump of PostgreSQL 18.6 or newer found for a server of 18.6"
    assert f"18.4 ({tmp_path}/18.4/bin/pg_dump)" in (caught.value.detail or "")
    assert "postgresql-client-18" in (caught.value.hint or "")


def test_path_is_one_of_those_looked_at(tmp_path: Path) -> None:
    """Its program wins where it is the newest, and of equals."""
    there = _put(tmp_path, "17.10", "17.11")
    on_path = tmp_path / "path/pg_dump"
    for said, chosen in (("17.6", there[1]), ("17.11 (Debian 17.11-1)", None), ("17.12", None)):
        on_path.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {said} '\n")
        on_path.chmod(0o755)
        expected = on_path if chosen is None else Path(chosen.bindir) / "pg_dump"
        assert find_client("pg_dump", 170001, there).path == expected, said


def test_what_cannot_be_run_is_passed_over(tmp_path: Path) -> None:
    there = _put(tmp_path, "17.10", "17.11")
    (tmp_path / "17.11/bin/pg_dump").write_text("#!/bin/sh\necho 'cannot open libpq.so.5' >&2\nexit 127\n")
    without = install.examine(put_install(tmp_path / "17.12", "17.12"), "installed")
    assert find_client("pg_dump", 170001, [*there, without]).version == "17.10"
