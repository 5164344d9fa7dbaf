"""A stream of WAL that is read in bursts, so that the server's processors are seldom taken for it.

A server wakes a walsender at every flush, and the walsender its client. Where they share busy processors with
backends, that costs more than reading and sending the WAL. So once all has come, the stream is ended, and
asked for again half a second later, in the same session, which keeps a temporary slot:

    STREAMING --all has come--> ENDING --> RESTING --half a second--> STARTING --> STREAMING

A walsender leaves a segment's file open at each end of a stream (14 to 18: StartReplication in walsender.c
makes a reader each time, and closes none), and a server that may open no more files is down by PANIC. So
after SESSION_STARTS streams another session with a slot of its own goes on, and the one before ends once all
has come through the new one.

Meanwhile nobody waits for a flush. (Before 16 a flush wakes each walsender, but this one finds nothing to do:
WalSndWakeup in walsender.c.) pg_stat_replication shows a session that rests in the state "startup".

The stream is not ended where that would be a nuisance (`may_rest`). It is read every 50 ms then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from enum import Enum, auto
from types import TracebackType

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError
from walproof.probe.replication import Halted, Keepalive, ReplicationStream, WalData
from walproof.units import Lsn

SESSION_STARTS = 100
"""Streams of a session. A server's processes may have 1,024 files open by default, 256 on some systems."""
_TRIES, _TRY_AGAIN_S = 20, 600.0
"""How often, and after how many seconds, another session is tried again where there is none."""
_REST_S = 0.5
_LEAST_REST_S = 0.05
_REST_BYTES = 4 << 20
"""A rest is shorter where the server is expected to write more than this meanwhile."""
_SHARE_OF_PATIENCE = 1 / 4
"""A rest is at most this share of the time after which the server gives up a session that is silent."""
_LAG_BYTES = 256 << 10
"""A server that has so much more WAL than it has sent is not waited for: its buffers are full."""


class _Phase(Enum):
    STREAMING = auto()
    ENDING = auto()
    RESTING = auto()
    STARTING = auto()


def may_rest(beside: psycopg.Connection[TupleRow]) -> bool:
    """Whether a stream from the same server as the session ``beside`` may be ended and asked for again.

    13 has no idle_session_timeout: a client that is stopped while it rests would keep the slot for ever.
    With log_replication_commands each request is a line in the server's log. Raises psycopg.Error.
    """
    row = beside.execute("SELECT current_setting('log_replication_commands')").fetchone()
    assert row is not None
    return beside.info.server_version >= 140000 and row[0] == "off"


class BurstStream:
    """Context manager: a session with a temporary slot, and those that follow it. A single thread may use it
    at a time."""

    def __init__(self, parameters: Mapping[str, str], slot: str, *, rests: bool, timeout_s: float) -> None:
        """Connect with the libpq parameters of `streaming_parameters`, and make the slot. Raises ProbeError.

        ``slot``: its name; those of later sessions begin with it and ``_``. ``timeout_s``: how long the
        server keeps a session that is silent.
        """
        self._parameters = parameters
        self._slots = self._slot = slot
        self._rests_from_s = 0.0 if rests else math.inf
        """Until then the stream goes on without rests: they are a nuisance, or there was no other session."""
        self._timeout_s = timeout_s
        self._most_s = min(_REST_S, timeout_s * _SHARE_OF_PATIENCE)
        self._system: int | None = None
        """Identifier of the cluster whose WAL it is."""
        self.session = self._open(slot, parameters)
        """The present one."""
        self._retiring: ReplicationStream | None = None
        """The one before, until the present slot keeps what the server was not told to have arrived."""
        self._count = 1
        """Sessions so far."""
        self._starts = 0
        """Streams of the present session."""
        self._phase = _Phase.STREAMING
        self._timeline = 0
        self._position = 0
        self._confirmed: tuple[int, int] | None = None
        self._is_owed = False
        """Whether the server has not been told what is confirmed."""
        self._began_s = time.monotonic()
        """When the last rest began."""
        self._resting_until_s = 0.0
        self._bytes = 0
        """What came since then."""
        self._lag_bytes = 0

    def __enter__(self) -> BurstStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the sessions, and the slots with them."""
        self._retire()
        self.session.close()

    def start(self, lsn: Lsn, timeline: int) -> None:
        """Begin to stream from ``lsn`` on. Raises ProbeError."""
        self.session.start(self._slot, lsn, timeline)
        self._starts += 1
        self._phase = _Phase.STREAMING
        self._position, self._timeline = int(lsn), timeline

    def receive(self, patience_s: float) -> WalData | Keepalive | None:
        """Return the next message; None if no whole one has come within ``patience_s``. Raises StreamEnd."""
        if self._phase is _Phase.RESTING:
            self._rest(patience_s)
            return None
        if self._phase is _Phase.STARTING:
            if self.session.has_started(patience_s):
                self._phase = _Phase.STREAMING
                if self._is_owed and self._confirmed is not None:
                    self.confirm(*self._confirmed, wants_reply=self._retiring is not None)
            return None
        message = self._next(patience_s)
        if isinstance(message, Halted):
            self._begin_rest()
            return None
        if isinstance(message, WalData):
            self._took(message)
        elif isinstance(message, Keepalive):
            self._retire()  # the answer to what was confirmed first in a new session
        return message

    def confirm(self, written: int, flushed: int, *, wants_reply: bool) -> None:
        """Tell the server what has arrived, and what it may recycle: now, or when it streams again. Raises
        StreamEnd."""
        self._confirmed = (written, flushed)
        self._is_owed = self._phase is not _Phase.STREAMING
        if not self._is_owed:
            self.session.confirm(written, flushed, wants_reply=wants_reply)

    @property
    def _may_rest(self) -> bool:
        return time.monotonic() >= self._rests_from_s

    def _next(self, patience_s: float) -> WalData | Keepalive | Halted | None:
        if self._may_rest:
            return self.session.receive(patience_s)
        message = self.session.receive(0.0)
        if message is None:
            if self._lag_bytes < _LAG_BYTES:
                time.sleep(min(_LEAST_REST_S, patience_s))
            message = self.session.receive(patience_s)
        return message

    def _took(self, message: WalData) -> None:
        self._position = message.start + len(message.data)
        self._bytes += len(message.data)
        self._lag_bytes = message.lag_bytes
        if self._may_rest and self._phase is _Phase.STREAMING and message.lag_bytes == 0:
            self.session.halt()
            self._phase = _Phase.ENDING

    def _begin_rest(self) -> None:
        self._retire()
        now_s = time.monotonic()
        bytes_per_s = self._bytes / max(now_s - self._began_s, _LEAST_REST_S)
        rest_s = min(self._most_s, max(_LEAST_REST_S, _REST_BYTES / max(bytes_per_s, 1.0)))
        self._phase = _Phase.RESTING
        self._began_s, self._resting_until_s, self._bytes = now_s, now_s + rest_s, 0

    def _rest(self, patience_s: float) -> None:
        left_s = self._resting_until_s - time.monotonic()
        if left_s > 0:
            time.sleep(min(left_s, patience_s))
        if left_s <= patience_s:
            if self._starts >= SESSION_STARTS:
                self._renew()
            self.session.ask_to_start(self._slot, Lsn(self._position), self._timeline)
            self._starts += 1
            self._phase = _Phase.STARTING

    def _renew(self) -> None:
        """Go on in another session. Where there is none within half of the time after which the server ends
        this one (no walsender or slot is left, another server answers), this one streams without rests."""
        name = f"{self._slots}_{self._count + 1}"
        connect_s = min(float(self._parameters["connect_timeout"]), self._timeout_s / 6)
        try:
            fresh = self._open(name, {**self._parameters, "connect_timeout": f"{max(1, round(connect_s))}"})
        except ProbeError:
            is_tried_again = self._starts < SESSION_STARTS + _TRIES
            self._rests_from_s = time.monotonic() + _TRY_AGAIN_S if is_tried_again else math.inf
            return
        self._retiring, self.session, self._slot = self.session, fresh, name
        self._count, self._starts, self._is_owed = self._count + 1, 0, True

    def _open(self, slot: str, parameters: Mapping[str, str]) -> ReplicationStream:
        """A session with a slot of that name, on the cluster of the sessions before. Raises ProbeError."""
        session = ReplicationStream(parameters)
        try:
            self._require_same(session.identify().system_identifier)
            session.make_slot(slot, self._timeout_s / 3)
        except BaseException:
            session.close()
            raise
        return session

    def _require_same(self, system: int) -> None:
        """An address may have moved to another cluster. Raises ProbeError."""
        if self._system not in (None, system):
            raise ProbeError("another cluster answers at that address")
        self._system = system

    def _retire(self) -> None:
        if self._retiring is not None:
            self._retiring.close()
            self._retiring = None
