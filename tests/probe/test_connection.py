"""Sessions on servers that walproof did not start: what holds in them, and what the user gave."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.interrupting import Interrupt, interrupted
from tests.probe.conftest import Server
from walproof.errors import ConninfoError, ProbeError
from walproof.probe.connection import connect_foreign, resolve

pytestmark = pytest.mark.live
SHOWN = (
    "search_path", "default_transaction_read_only", "statement_timeout", "lock_timeout",
    "idle_in_transaction_session_timeout", "application_name", "work_mem",
)  # fmt: skip


def _shown(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)", [list(SHOWN)]
    )
    return {str(name): str(value) for name, value in rows.fetchall()}


def test_a_foreign_session_reads_only_and_waits_for_nothing(server: Server) -> None:
    with connect_foreign(server.conninfo) as session:
        shown = _shown(session)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session.execute("CREATE TABLE public.mine (i int)")
    assert shown["search_path"] == "pg_catalog"
    assert shown["default_transaction_read_only"] == "on"
    assert shown["application_name"] == "walproof"
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        assert shown[name] not in ("0", ""), name


def test_what_the_user_gave_holds_beside_it(
    server18: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the connection string, the environment or a service file; but for the settings that protect."""
    given = "-c work_mem=5MB -c search_path=public -c default_transaction_read_only=off"
    with connect_foreign(f"{server18.conninfo} application_name=mine options='{given}'") as session:
        shown = _shown(session)
    assert (shown["work_mem"], shown["application_name"]) == ("5MB", "mine")
    assert (shown["search_path"], shown["default_transaction_read_only"]) == ("pg_catalog", "on")

    services = tmp_path / "services"
    services.write_text(
        f"[shop]\nhost={server18.folder}\nuser=postgres\ndbname=postgres\noptions=-c work_mem=6MB\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGAPPNAME", "ours")
    with connect_foreign("service=shop") as session:
        shown = _shown(session)
        assert session.info.get_parameters()["connect_timeout"] == "10"
    assert (shown["work_mem"], shown["application_name"], shown["lock_timeout"]) == ("6MB", "ours", "5s")
    with connect_foreign("service=shop connect_timeout=3") as session:
        assert session.info.get_parameters()["connect_timeout"] == "3"


def _is_active(beside: psycopg.Connection[tuple[object, ...]], pid: int) -> bool:
    query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
    return beside.execute(query, [pid]).fetchone() is not None


def test_a_statement_ends_with_the_command_that_asked(server18: Server) -> None:
    """Though the session is still open: a server that computes would not notice its end."""
    with server18.connect() as beside, closing(connect_foreign(server18.conninfo)) as session:
        pid = session.info.backend_pid
        is_asking = partial(_is_active, beside, pid)

        with pytest.raises(Interrupt), interrupted(is_asking):
            session.execute("SELECT pg_sleep(50)")
        deadline = time.monotonic() + 20
        while is_asking():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_an_old_libpq_is_not_waited_for(server18: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cancel has no bound where the network is silent."""
    cancelled: list[object] = []
    monkeypatch.setattr(psycopg.capabilities, "has_cancel_safe", lambda **_: False)
    monkeypatch.setattr(psycopg.Connection, "cancel", lambda session: cancelled.append(session))
    with server18.connect() as beside, closing(connect_foreign(server18.conninfo)) as session:
        pid = session.info.backend_pid
        is_asking = partial(_is_active, beside, pid)

        with pytest.raises(Interrupt), interrupted(is_asking):
            session.execute("SELECT pg_sleep(50)")
        beside.execute("SELECT pg_terminate_backend(%s)", [pid])
    assert cancelled == []


@pytest.mark.parametrize(("wanted", "is_met"), [("read-write", True), ("read-only", False)])
def test_our_read_only_is_not_the_servers(server: Server, wanted: str, is_met: bool) -> None:
    """libpq takes default_transaction_read_only for a standby's sign, and it is on in every session."""
    conninfo = f"{server.conninfo} target_session_attrs={wanted}"
    if is_met:
        connect_foreign(conninfo).close()
    else:
        with pytest.raises(ProbeError, match="could not connect"):
            connect_foreign(conninfo)


def test_what_is_no_connection_string_is_not_repeated() -> None:
    with pytest.raises(ConninfoError, match="invalid connection string") as caught:
        connect_foreign("host=h password=hush oops")
    assert "hush" not in f"{caught.value} {caught.value.detail}"
    assert resolve("postgresql://me@db1:7/shop")["port"] == "7"


def test_a_server_that_is_too_old_is_refused_at_once(
    server18: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server older than 13 is here: the limit is raised above one of 18."""
    monkeypatch.setattr("walproof.probe.connection._OLDEST_NUM", 180000)
    connect_foreign(server18.conninfo).close()
    monkeypatch.setattr("walproof.probe.connection._OLDEST_NUM", 190000)
    with pytest.raises(ProbeError, match=r"the server is PostgreSQL 18\.\d+, which is too old"):
        connect_foreign(server18.conninfo)
