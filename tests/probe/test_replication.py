"""The session that streams: how long the server keeps it, and what it says when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.probe.conftest import Server
from walproof.errors import ProbeError
from walproof.probe.connection import connect_foreign, streaming_parameters
from walproof.probe.replication import ReplicationStream, StreamEnd, WalData
from walproof.probe.slot import look_at_slot
from walproof.units import Lsn

pytestmark = pytest.mark.live
SLOT = "walproof_test"


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_slot_that_nobody_streams_from_is_given_up(server: Server) -> None:
    """A client that is stopped between two commands; 13 has no time-out for it."""
    assert server.version_num >= 140000
    with (
        connect_foreign(server.conninfo) as control,
        ReplicationStream(streaming_parameters(server.conninfo, control, 1.0)) as stream,
    ):
        stream.make_slot(SLOT)
        assert look_at_slot(control, SLOT).confirmed is not None
        _wait(lambda: look_at_slot(control, SLOT).confirmed is None)
        with pytest.raises(ProbeError, match="IDENTIFY_SYSTEM failed"):
            stream.identify()


def test_wal_comes_and_the_slot_follows_what_is_confirmed(server: Server) -> None:
    with connect_foreign(server.conninfo) as control:
        with ReplicationStream(streaming_parameters(server.conninfo, control, 30.0)) as stream:
            stream.make_slot(SLOT)
            identity = stream.identify()
            start = Lsn(identity.flushed - identity.flushed % (16 << 20))
            stream.start(SLOT, start, identity.timeline)
            end = int(start)
            while end < identity.flushed:
                message = stream.receive(10)
                assert isinstance(message, WalData)
                assert message.start == end
                end += len(message.data)
            stream.confirm(end, end, wants_reply=False)
            _wait(lambda: look_at_slot(control, SLOT).confirmed == end)
            with server.connect() as killer:
                killer.execute("SELECT pg_terminate_backend(%s)", [stream.pid])
            with pytest.raises(StreamEnd, match="terminating connection due to administrator command"):
                _receive_all(stream)
        _wait(lambda: look_at_slot(control, SLOT).confirmed is None)


def test_a_command_that_fails_says_why(server: Server) -> None:
    with (
        connect_foreign(server.conninfo) as control,
        ReplicationStream(streaming_parameters(server.conninfo, control, 30.0)) as stream,
    ):
        with pytest.raises(ProbeError, match="START_REPLICATION failed") as caught:
            stream.start("absent", Lsn(0), 1)
        assert 'replication slot "absent" does not exist' in (caught.value.detail or "")
        assert stream.identify().timeline == 1


def _receive_all(stream: ReplicationStream) -> None:
    while True:
        stream.receive(10)
