"""A store is opened where it was named; who only reads makes none; tables of others are not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.facts.plans import ENVIRONMENT, plan
from tests.facts.server import store_url
from walproof.errors import StoreError, StoreMissingError
from walproof.facts.place import find_place, open_engine
from walproof.facts.store import Store
from walproof.postgres.cluster import Cluster

COMMAND = ("walproof", "run", "example")


def test_who_only_reads_makes_no_store(url: str) -> None:
    with pytest.raises(StoreMissingError):
        Store(url, must_exist=True)
    Store(url).close()
    Store(url, must_exist=True).close()


def test_who_only_reads_makes_no_file_and_no_table(tmp_path: Path, server: Cluster) -> None:
    missing = tmp_path / "folder" / "miss.sqlite"
    with pytest.raises(StoreMissingError, match=r'there is no store ".*miss.sqlite"'):
        Store(missing, must_exist=True)
    assert not missing.parent.exists()
    with pytest.raises(StoreError, match="cannot be opened: File name too long"):
        Store(tmp_path / ("x" * 300), must_exist=True)
    theirs = _of_another_program(tmp_path / "theirs.sqlite", "x")
    was = theirs.read_bytes()
    with pytest.raises(StoreMissingError, match="is not a store of walproof"):
        Store(theirs, must_exist=True)
    assert theirs.read_bytes() == was
    with server.connect() as connection:
        connection.execute("CREATE DATABASE unasked")
    with pytest.raises(StoreMissingError, match="is not a store of walproof"):
        Store(store_url(server, "unasked"), must_exist=True)
    with server.connect(store_url(server, "unasked")) as connection:
        assert connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public'").fetchall() == []


def test_tables_of_another_program_are_not_taken_for_ours(tmp_path: Path, server: Cluster) -> None:
    """A file is one program's. A server's database may have others' tables beside ours, by other names."""
    theirs = _of_another_program(tmp_path / "theirs.sqlite", "x")
    was = theirs.read_bytes()
    with pytest.raises(StoreError, match="tables of another program: x"):
        Store(theirs)
    assert theirs.read_bytes() == was
    for name, table in (("beside", "x"), ("among", "metric")):
        with server.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        with server.connect(store_url(server, name)) as connection:
            connection.execute(f"CREATE TABLE {table} (y int)".encode())
    Store(store_url(server, "beside")).close()
    with pytest.raises(StoreError, match="tables of another program: metric"):
        Store(store_url(server, "among"))


def test_a_store_on_a_disk_that_is_read_only_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write in any folder, so the answer to whether one may is replaced."""
    path = tmp_path / "a store?.sqlite"
    store = Store(path)
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.close()
    was = sorted(tmp_path.iterdir())
    monkeypatch.setattr("walproof.facts.place.os.access", lambda *_: False)
    reader = Store(path, must_exist=True)
    assert reader.runs() == (run,)
    assert reader.claimed([run.id]) == frozenset()
    assert sorted(tmp_path.iterdir()) == was
    with pytest.raises(StoreError, match="cannot be written"):
        reader.finish_run(run.id)
    reader.close()


def test_what_a_reader_cannot_add_to_a_store_of_before_is_said(
    tmp_path: Path, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE trial_begin")
    with monkeypatch.context() as patched:
        patched.setattr("walproof.facts.place.os.access", lambda *_: False)
        with pytest.raises(StoreError, match="cannot be brought up to date") as refused:
            Store(path, must_exist=True)
    assert "readonly database" in str(refused.value.detail)
    assert "copy it to a folder that you can write" in str(refused.value.hint)
    Store(path, must_exist=True).close()

    with server.connect() as connection:
        connection.execute("CREATE DATABASE before")
    shared = store_url(server, "before")
    Store(shared).close()
    with server.connect(shared) as connection:
        connection.execute("DROP TABLE trial_begin")
        connection.execute("ALTER DATABASE before SET default_transaction_read_only = on")
    with pytest.raises(StoreError, match="cannot be brought up to date") as refused:
        Store(shared, must_exist=True)
    assert "as a role that may make tables" in str(refused.value.hint)


def test_a_wal_beside_a_store_is_never_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    writer = Store(path)
    run = writer.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    assert path.with_name("store.sqlite-wal").stat().st_size > 0
    monkeypatch.setattr("walproof.facts.place.os.access", lambda *_: False)
    reader = Store(path, must_exist=True)
    assert reader.runs() == (run,)
    reader.close()
    writer.close()


def test_a_link_to_a_store_is_read_as_the_store_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A WAL is beside the database, not beside the link: it was passed over, and its trials were missing."""
    path, link = tmp_path / "there" / "store.sqlite", tmp_path / "here" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    writer = Store(path)
    run = writer.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    monkeypatch.setattr("walproof.facts.place.os.access", lambda *_: False)
    reader = Store(link, must_exist=True)
    assert reader.runs() == (run,)
    with writer.claim(run.id):
        assert reader.claimed([run.id]) == {run.id}
    reader.close()
    writer.close()
    monkeypatch.setattr("walproof.facts.place.os.access", lambda folder, _: Path(folder) == link.parent)
    assert open_engine(find_place(link)).url.query["mode"] == "ro"


@pytest.mark.parametrize(
    ("given", "waits", "connects"),
    [("", "120000", "10"), ("&tcp_user_timeout=7000", "7000", "10"), ("&service=facts", "7000", "4")],
)
def test_a_server_that_says_nothing_is_given_up(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, waits: str, connects: str
) -> None:
    services = tmp_path / "services"
    services.write_text("[facts]\ntcp_user_timeout=7000\nconnect_timeout=4\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    engine = open_engine(find_place(store_url(server) + given))
    with engine.connect() as connection:
        session: Any = connection.connection.driver_connection
        parameters = session.info.get_parameters()
    engine.dispose()
    assert (parameters["tcp_user_timeout"], parameters["connect_timeout"]) == (waits, connects)
    assert parameters["keepalives_idle"] == "60"


def _of_another_program(path: Path, table: str) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table} (y)")
    connection.close()
    return path


def test_a_path_with_characters_of_a_url_is_that_file(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c%41{d}"
    path = folder / "walproof.sqlite"
    store = Store(path)
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.close()
    assert list(tmp_path.iterdir()) == [folder]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT id FROM run").fetchall() == [(run.id,)]
