"""WAL that is read in bursts: all of it comes, and between two bursts nothing streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import TupleRow

from tests import versions
from tests.probe.conftest import BINDIRS, Server
from walproof.probe import bursts
from walproof.probe.bursts import BurstStream, may_rest
from walproof.probe.connection import connect_foreign, streaming_parameters
from walproof.probe.replication import Keepalive, StreamEnd
from walproof.probe.slot import look_at_slot
from walproof.units import Lsn

pytestmark = pytest.mark.live
SLOT = "walproof_test"
_STATE = "SELECT state FROM pg_stat_replication WHERE pid = %s"
_VERSIONS = sorted(BINDIRS, key=int)
_END = "SELECT pg_current_wal_flush_lsn()::text"


@pytest.fixture(params=versions.ends(_VERSIONS))
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """A server of the oldest and of the newest version: those between stream as these do."""
    return servers(request.param)


class _Reader:
    """Reads a stream, and asserts that no byte is missing."""

    def __init__(self, stream: BurstStream, control: psycopg.Connection[TupleRow]) -> None:
        self.stream = stream
        identity = stream.session.identify()
        self.position = int(identity.flushed) // (16 << 20) * (16 << 20)
        stream.start(Lsn(self.position), identity.timeline)
        self._control = control

    @property
    def pid(self) -> int:
        return self.stream.session.pid

    def read_until(self, is_over: Callable[[], bool], patience_s: float = 0.05) -> None:
        deadline = time.monotonic() + 30
        while not is_over():
            assert time.monotonic() < deadline
            message = self.stream.receive(patience_s)
            if message is not None and not isinstance(message, Keepalive):
                assert message.start == self.position
                self.position += len(message.data)

    def read_all(self) -> None:
        """Read what is there now."""
        (end,) = self._control.execute(_END).fetchone() or ("",)
        self.read_until(lambda: self.position >= Lsn.parse(end))

    @property
    def state(self) -> str:
        return str((self._control.execute(_STATE, [self.pid]).fetchone() or ("gone",))[0])


@contextmanager
def _reading(server: Server, *, rests: bool = True) -> Iterator[_Reader]:
    with connect_foreign(server.conninfo) as control:
        parameters = streaming_parameters(server.conninfo, control, 30.0)
        with BurstStream(parameters, SLOT, rests=rests, timeout_s=30.0) as stream:
            yield _Reader(stream, control)


def _states_under_load(server: Server, *, rests: bool) -> list[str]:
    """States of the session while each commit is flushed, looked at after each message or its absence."""
    seen: list[str] = []
    with _reading(server, rests=rests) as reader, server.connect() as writer:
        writer.execute("CREATE TABLE IF NOT EXISTS burst (i int)")
        reader.read_all()

        def is_over() -> bool:
            writer.execute("INSERT INTO burst SELECT generate_series(1, 100)")
            seen.append(reader.state)
            return time.monotonic() > until_s

        until_s = time.monotonic() + 3.0
        reader.read_until(is_over)
        reader.read_all()
    return seen


def test_between_two_bursts_nothing_streams_and_all_comes(server: Server) -> None:
    resting = _states_under_load(server, rests=True)
    assert resting.count("startup") > 0.7 * len(resting)
    assert "startup" not in _states_under_load(server, rests=False)


def test_where_nothing_is_written_the_stream_stays(server: Server) -> None:
    # A server writes by itself now and then (LogStandbySnapshot, checkpoints): then the quiet begins anew.
    with _reading(server) as reader:
        reader.read_all()
        position, began_s = reader.position, time.monotonic()
        late: list[str] = []

        def is_over() -> bool:
            nonlocal position, began_s
            if reader.position != position:
                position, began_s = reader.position, time.monotonic()
                late.clear()
            quiet_s = time.monotonic() - began_s
            if quiet_s > 1.5:
                late.append(reader.state)
            return quiet_s > 3.0

        reader.read_until(is_over)
        assert set(late) == {"streaming"}


def test_what_is_confirmed_in_a_rest_reaches_the_server_after_it(server: Server) -> None:
    with _reading(server) as reader, server.connect() as writer:
        reader.read_all()
        reader.read_until(lambda: reader.state == "startup")
        reader.stream.confirm(reader.position, reader.position, wants_reply=False)
        assert (look_at_slot(writer, SLOT).confirmed or 0) < reader.position
        told = reader.position
        reader.read_until(lambda: look_at_slot(writer, SLOT).confirmed == told)


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _slots(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, str]:
    rows = connection.execute(
        "SELECT slot_name::text, restart_lsn::text FROM pg_replication_slots"
    ).fetchall()
    return {str(name): str(lsn) for name, lsn in rows}


def test_a_walsender_keeps_few_files_open_however_long_it_streams(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that may open no more files is down: PANIC while it writes a slot."""
    monkeypatch.setattr(bursts, "SESSION_STARTS", 3)
    with _reading(server) as reader, server.connect() as writer:
        writer.execute("CREATE TABLE IF NOT EXISTS files (i int)")
        reader.read_all()
        most, pids = _open_files(reader.pid) + 4, {reader.pid}
        for _ in range(10):
            reader.stream.confirm(reader.position, reader.position, wants_reply=False)
            writer.execute("INSERT INTO files SELECT generate_series(1, 100)")
            reader.read_all()
            reader.read_until(lambda: reader.state == "startup")
            assert _open_files(reader.pid) <= most
            pids.add(reader.pid)
        told = reader.position
        reader.stream.confirm(told, told, wants_reply=False)
        reader.read_until(lambda: (look_at_slot(writer, SLOT).confirmed or 0) >= told)
        assert len(pids) >= 3
        # The session before has ended, and its slot with it.
        (name,) = _slots(writer)
        assert name.startswith(f"{SLOT}_")
    with server.connect() as owner:
        deadline = time.monotonic() + 10
        while _slots(owner):
            assert time.monotonic() < deadline


def test_the_session_before_ends_also_where_nothing_more_is_written(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bursts, "SESSION_STARTS", 2)
    with _reading(server) as reader, server.connect() as writer:
        reader.read_all()
        reader.stream.confirm(reader.position, reader.position, wants_reply=False)
        first = reader.pid
        writer.execute("CREATE TABLE IF NOT EXISTS files (i int)")
        for _ in range(3):
            writer.execute("INSERT INTO files SELECT generate_series(1, 100)")
            reader.read_all()
            reader.read_until(lambda: reader.state == "startup" or reader.pid != first)
        reader.read_until(lambda: reader.pid != first)
        until_s = time.monotonic() + 1.0
        reader.read_until(lambda: len(_slots(writer)) == 1 and time.monotonic() > until_s)
        assert reader.pid != first
        assert reader.state == "streaming"


def test_where_no_slot_is_left_for_another_session_the_stream_stays(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bursts, "SESSION_STARTS", 2)
    monkeypatch.setattr(bursts, "_TRY_AGAIN_S", 0.5)
    with _reading(server) as reader, server.connect() as writer:
        pid = reader.pid
        left = "current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)"
        writer.execute(
            f"SELECT pg_create_physical_replication_slot('full_' || i, false, true)"
            f" FROM generate_series(1, {left}) AS i".encode()
        )
        writer.execute("CREATE TABLE IF NOT EXISTS files (i int)")
        for _ in range(6):
            writer.execute("INSERT INTO files SELECT generate_series(1, 100)")
            reader.read_all()
        reader.read_until(lambda: reader.state == "streaming")
        assert reader.pid == pid
        # Another one is tried again later.
        writer.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ~ '^full'"
        )

        def has_another() -> bool:
            writer.execute("INSERT INTO files SELECT generate_series(1, 100)")
            return reader.pid != pid

        reader.read_until(has_another)


def test_a_session_that_ends_in_a_rest_says_why(server: Server) -> None:
    with _reading(server) as reader, server.connect() as killer:
        reader.read_all()
        reader.read_until(lambda: reader.state == "startup")
        killer.execute("SELECT pg_terminate_backend(%s)", [reader.pid])
        with pytest.raises(StreamEnd, match="terminating connection due to administrator command"):
            reader.read_until(lambda: False)


def test_a_server_that_logs_replication_commands_is_streamed_from_without_rests(server: Server) -> None:
    with connect_foreign(server.conninfo) as control:
        assert may_rest(control) is (server.version_num >= 140000)
    with server.connect() as owner:
        owner.execute("CREATE ROLE logged LOGIN REPLICATION")
        owner.execute("ALTER ROLE logged SET log_replication_commands = on")
    with connect_foreign(f"{server.conninfo} user=logged") as control:
        assert not may_rest(control)
