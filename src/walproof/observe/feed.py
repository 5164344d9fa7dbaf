"""Streams a server's WAL to whatever counts it, in a thread, and begins again when the stream ends.

Reading begins at the redo point of the last completed checkpoint, so that what a crash would have to recover
is known as soon as the end is reached. The temporary slot is the session's: when walproof is killed or cut
off, the server drops it. The server may keep up to ``max_retained_bytes`` more for it than for itself; beyond
that the stream is given up and begun again later. Nothing is stored."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ConninfoError, ProbeError, WalError, one_line
from walproof.facts.watch import StreamPhase, StreamState
from walproof.observe import watch_queries as queries
from walproof.observe.backoff import Backoff
from walproof.observe.leaving import ObserverThread
from walproof.observe.pace import RateBucket
from walproof.probe.bursts import BurstStream, may_rest
from walproof.probe.connection import connect_foreign, streaming_parameters
from walproof.probe.replication import Keepalive, ReplicationStream, StreamEnd, TimelineEnd, WalData
from walproof.probe.slot import look_at_slot
from walproof.probe.startup import is_here
from walproof.settings.session import PATIENCE_S
from walproof.units import Lsn, format_bytes
from walproof.wal.segment import segment_holding

_WAIT_S = 0.2
_LOOK_S = 1.0
"""Seconds between two looks at what the server keeps, and between two replies."""
_LATE_LOOKS = 5
"""A stream is catching up if it has not reached the place where the end was this many looks ago."""


class WalSink(Protocol):
    """Who counts WAL."""

    def observe(self, lsn: Lsn, data: bytes) -> None:
        """Take the bytes from ``lsn`` on. Raises WalError if they are not WAL."""
        ...

    def switch_timeline(self, timeline: int, lsn: Lsn) -> None:
        """Note that what follows ``lsn`` belongs to that timeline. Raises WalError."""
        ...

    def recompute(self, records: int = ...) -> bool:
        """Go on with work that was put off; return whether there is more."""
        ...

    def snapshot(self) -> Any:
        """What is known now; None as long as nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class FeedBeginning:
    """The server whose WAL comes, and where it begins."""

    version_num: int
    system_identifier: int
    timeline: int
    """The redo point's timeline. After a promotion it is the previous one until a checkpoint has
    completed."""
    segment_bytes: int
    start: int
    """The beginning of a segment."""
    redo: int
    shared_buffers: str
    """The server's shared_buffers, as SHOW prints it."""
    io_concurrency: int
    """maintenance_io_concurrency."""
    is_here: bool
    """Whether the server runs on this machine."""
    is_synced: bool = True
    """fsync."""
    sync_method: str = "fsync"
    """recovery_init_sync_method; before 14 there is only fsync."""
    data_directory: str | None = None
    """None if the role may not see it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Values of the settings that were asked for, as SHOW prints them."""


class WalFeed(ObserverThread):
    """Context manager: feeds a sink while its block lasts; ``begin`` makes one for each stream."""

    def __init__(
        self,
        conninfo: str,
        begin: Callable[[FeedBeginning], WalSink],
        max_retained_bytes: int,
        bytes_per_s_most: int | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        """``bytes_per_s_most``: at most so many bytes of a stream are read each second; the rest waits in the
        server. ``settings``: names of those that ``begin`` is told."""
        super().__init__("walproof-feed", 5.0)
        self._conninfo = conninfo
        self._begin = begin
        self._most = max_retained_bytes
        self._rate = bytes_per_s_most
        self._settings = list(settings)
        self._due = threading.Event()
        self._lock = threading.Lock()
        self._sink: WalSink | None = None
        self._state = StreamState(StreamPhase.BEGINNING, since=time.time())
        self._late = 0

    def hurry(self) -> None:
        """Begin the next stream at once, where it would be waited: the server answers again."""
        self._due.set()

    @property
    def state(self) -> StreamState:
        """How the stream is doing. Raises what a fault of ours raised in the thread."""
        self._check()
        return self._state

    def snapshot(self) -> Any:
        """What the sink knows; None while the end of WAL has not been reached."""
        with self._lock:
            if self._sink is None or self._state.phase is not StreamPhase.LIVE:
                return None
            return self._sink.snapshot()

    def _wake(self) -> None:
        self._due.set()

    def _observe(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                self._stream(backoff)
            except (ProbeError, ConninfoError, WalError) as error:
                reason = error.message if error.detail is None else f"{error.message}: {error.detail}"
                self._broken(reason, error.hint)
            except psycopg.Error as error:
                self._broken(one_line(error), None)
            if not self._stopping.is_set():
                self._due.wait(backoff.failed())
                self._due.clear()

    def _broken(self, reason: str, hint: str | None) -> None:
        self._go(StreamPhase.BROKEN, reason, hint)
        with self._lock:
            self._sink = None

    def _go(self, phase: StreamPhase, reason: str = "", hint: str | None = None) -> None:
        if phase is not self._state.phase:
            self._state = replace(self._state, since=time.time())
        self._state = replace(self._state, phase=phase, reason=reason, hint=hint)

    def _stream(self, backoff: Backoff) -> None:
        """Read one stream from its beginning until it ends. Raises ProbeError, WalError, psycopg.Error."""
        with connect_foreign(self._conninfo) as control:
            _refuse(control)
            parameters = streaming_parameters(self._conninfo, control, PATIENCE_S)
            slot = f"walproof_watch_{secrets.token_hex(6)}"
            rests = may_rest(control)
            with BurstStream(parameters, slot, rests=rests, timeout_s=PATIENCE_S) as stream:
                beginning = _beginning(control, stream.session, self._settings)
                self._sink = self._begin(beginning)
                stream.start(Lsn(beginning.start), beginning.timeline)
                self._state = replace(self._state, received=beginning.start)
                self._go(StreamPhase.CATCHING_UP)
                self._late = _LATE_LOOKS
                self._receive(stream, control, slot, backoff)

    def _receive(
        self, stream: BurstStream, control: psycopg.Connection[TupleRow], slot: str, backoff: Backoff
    ) -> None:
        end = self._look(control, slot)
        told_s = heard_s = time.monotonic()
        pace = None if self._rate is None else RateBucket(self._rate)
        while not self._stopping.is_set():
            wait_s = 0.0 if pace is None else pace.wait_s(time.monotonic())
            if wait_s > 0:
                # What is not read stays in the network's buffers, and the walsender stops.
                self._stopping.wait(min(wait_s, _WAIT_S))
                heard_s = time.monotonic()
                message = None
            else:
                message = self._next(stream)
            now_s = time.monotonic()
            wants_reply = False
            if message is not None:
                heard_s = now_s
                if isinstance(message, Keepalive):
                    wants_reply = message.wants_reply
                else:
                    self._take(message.start, message.data)
                    if pace is not None:
                        pace.took(len(message.data))
            else:
                with self._lock:
                    assert self._sink is not None
                    self._sink.recompute()
            if message is None and now_s - heard_s > PATIENCE_S:
                raise StreamEnd(f"the server said nothing for {PATIENCE_S:g} s")
            if self._state.phase is StreamPhase.CATCHING_UP and (self._state.received or 0) >= end:
                self._settle(end)
            if wants_reply or now_s - told_s >= _LOOK_S:
                assert self._state.received is not None
                stream.confirm(self._state.received, self._state.received, wants_reply=True)
            if now_s - told_s >= _LOOK_S:
                self._settle(end)
                if self._state.phase is StreamPhase.LIVE:
                    backoff.succeeded()
                end = self._look(control, slot)
                told_s = time.monotonic()

    def _next(self, stream: BurstStream) -> WalData | Keepalive | None:
        """The next message, also where the WAL goes on with another timeline. Raises StreamEnd, WalError."""
        try:
            return stream.receive(_WAIT_S)
        except TimelineEnd as end:
            if end.lsn != self._state.received:
                raise
            with self._lock:
                assert self._sink is not None
                self._sink.switch_timeline(end.timeline, end.lsn)
            stream.start(end.lsn, end.timeline)
            return None

    def _take(self, start: int, data: memoryview) -> None:
        received = self._state.received
        if start != received:
            raise StreamEnd(f"the server sent WAL of {Lsn(start)}, expected {Lsn(received or 0)}")
        with self._lock:
            assert self._sink is not None
            self._sink.observe(Lsn(start), bytes(data))
        count = len(data)
        self._state = replace(
            self._state, received=start + count, received_bytes=self._state.received_bytes + count
        )

    def _settle(self, end: int) -> None:
        """Say that the stream is live, or behind once _LATE_LOOKS looks in a row found more than has come."""
        self._late = 0 if (self._state.received or 0) >= end else self._late + 1
        if self._late < _LATE_LOOKS:
            self._go(StreamPhase.LIVE)
        else:
            limit = "" if self._rate is None else f"limited to {format_bytes(self._rate)}/s (--max-rate)"
            self._go(StreamPhase.CATCHING_UP, limit)

    def _look(self, control: psycopg.Connection[TupleRow], slot: str) -> int:
        """The end of the WAL that may be streamed. Raises StreamEnd when the server keeps too much."""
        look = look_at_slot(control, slot)
        if look.is_synchronous:
            raise StreamEnd(_SYNCHRONOUS)
        row = control.execute(queries.CHECKPOINT.encode()).fetchone()
        # The server keeps for itself what lies after the redo point.
        if row is not None and look.confirmed is not None and int(row[0]) - look.confirmed > self._most:
            why = "the network is slower than the server writes"
            if self._rate is not None:
                why = f"the server writes more than {format_bytes(self._rate)}/s (--max-rate), or {why}"
            raise StreamEnd(
                f"the server retained {format_bytes(int(row[0]) - look.confirmed)} of WAL for the stream, "
                f"more than {format_bytes(self._most)} (--max-retained): {why}"
            )
        return look.flushed


_SYNCHRONOUS = (
    "synchronous_standby_names would make a synchronous standby of the stream; give it another name by "
    "application_name=NAME in the connection string"
)


def _refuse(control: psycopg.Connection[TupleRow]) -> None:
    """Raises ProbeError where WAL cannot be streamed without harm."""
    row = control.execute("SELECT pg_is_in_recovery()").fetchone()
    if row is not None and row[0]:
        raise ProbeError("the server is a standby: its crash clock is not known")
    if look_at_slot(control, "").is_synchronous:
        raise ProbeError(_SYNCHRONOUS)


def _beginning(
    control: psycopg.Connection[TupleRow], stream: ReplicationStream, names: list[str]
) -> FeedBeginning:
    """Asked for after the slot is made, so that WAL from the redo point on is kept."""
    identity = stream.identify()
    row = control.execute(
        "SELECT (redo_lsn - '0/0')::int8, pg_size_bytes(current_setting('wal_segment_size')),"
        " current_setting('shared_buffers'), current_setting('maintenance_io_concurrency')::int,"
        " current_setting('fsync'), current_setting('recovery_init_sync_method', true),"
        " (SELECT setting FROM pg_settings WHERE name = 'data_directory'), timeline_id"
        " FROM pg_control_checkpoint()"
    ).fetchone()
    assert row is not None
    redo, segment_bytes, shared_buffers = int(row[0]), int(row[1]), str(row[2])
    settings = control.execute(queries.SETTINGS.encode(), [names]).fetchall()
    return FeedBeginning(
        control.info.server_version, identity.system_identifier, int(row[7]), segment_bytes,
        int(segment_holding(redo, segment_bytes)), redo, shared_buffers, int(row[3]),
        is_here(control), str(row[4]) == "on", str(row[5] or "fsync"),
        None if row[6] is None else str(row[6]), {str(name): str(value) for name, value in settings},
    )  # fmt: skip
