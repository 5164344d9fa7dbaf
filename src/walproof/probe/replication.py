"""A session that streams WAL, in PostgreSQL's own protocol (manual, "Streaming Replication Protocol").

The session holds a temporary slot and streams from it, so the slot's life is the session's: when the client
is killed, cut off or stopped, the server ends the session and drops the slot. Messages within COPY BOTH:

    XLogData   'w'  start of the data, end of the server's WAL, clock; then the data
    keepalive  'k'  end of the server's WAL, clock, whether a reply is wanted at once
    status     'r'  written, flushed, applied, clock, whether a keepalive is wanted at once (ours)

Numbers are big-endian; clocks count microseconds since 2000. libpq does the rest: TLS, passwords, services.
"""

from __future__ import annotations

import math
import select
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import psycopg
from psycopg import conninfo as conninfos
from psycopg import pq

from walproof.errors import ProbeError
from walproof.settings.refusal import hint_for
from walproof.units import Lsn

_DATA_HEAD = struct.Struct(">xqqq")
_KEEPALIVE = struct.Struct(">xqqB")
_STATUS = struct.Struct(">cqqqqB")
_DATA, _KEEP = ord("w"), ord("k")
_EPOCH_S = 946_684_800
"""2000-01-01 in Unix time."""
_COMMAND_PATIENCE_S = 30.0
_NO_ANSWER = f"the server did not answer within {_COMMAND_PATIENCE_S:.0f} s"
_COPYING = (pq.ExecStatus.COPY_BOTH, pq.ExecStatus.COPY_IN)


@dataclass(frozen=True, slots=True)
class SystemIdentity:
    """Answer to IDENTIFY_SYSTEM."""

    system_identifier: int
    timeline: int
    flushed: Lsn
    """End of the WAL that may be streamed."""


class WalData(NamedTuple):
    """WAL that arrived."""

    start: int
    data: memoryview
    lag_bytes: int
    """How much more the server had, which it had not sent yet."""


class Keepalive(NamedTuple):
    """Sign of life of the server."""

    end: int
    """End of the server's WAL."""
    wants_reply: bool


class Halted(NamedTuple):
    """The stream is over because `ReplicationStream.halt` asked for it; the session and its slot are left."""


class StreamEnd(ProbeError):
    """The stream ended, and not because its receiver wanted it to."""


class TimelineEnd(StreamEnd):
    """All of a timeline has come, and the WAL goes on with another: call `ReplicationStream.start` again."""

    def __init__(self, timeline: int, lsn: Lsn) -> None:
        super().__init__(f"the server switched to timeline {timeline}")
        self.timeline = timeline
        self.lsn = lsn

    def __reduce__(self) -> tuple[object, ...]:
        return (TimelineEnd, (self.timeline, self.lsn))


class ReplicationStream:
    """Context manager: one replication session. A single thread may use it at a time."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        """Connect with the libpq parameters of `streaming_parameters`. Raises ProbeError."""
        self._sslmode = parameters["sslmode"]
        self._connection = pq.PGconn.connect_start(conninfos.make_conninfo("", **parameters).encode())
        said = self._wait_for_session(float(parameters["connect_timeout"]))
        if said is not None:
            self._connection.finish()
            raise ProbeError(
                "could not open a session for streaming WAL",
                detail=said,
                hint=hint_for(said, self._sslmode)
                or "The role needs REPLICATION, and pg_hba.conf a line for the database replication.",
            )
        self._connection.nonblocking = 1
        self._is_halted = False
        self._answered: pq.abc.PGresult | None = None
        self._last_words = ""
        """What a server said that ended the session while no command ran: libpq has it for a notice."""
        self._connection.notice_handler = self._hear
        self._poll = select.poll()
        self._poll.register(self._connection.socket, select.POLLIN)

    @property
    def pid(self) -> int:
        """Process id of the walsender."""
        return self._connection.backend_pid

    @property
    def is_encrypted(self) -> bool:
        """Whether WAL comes through TLS."""
        return bool(self._connection.ssl_in_use)

    def identify(self) -> SystemIdentity:
        """Ask which system's WAL it is, and how far it reaches. Raises ProbeError."""
        result = self._ask("IDENTIFY_SYSTEM")
        values = [(result.get_value(0, column) or b"").decode() for column in range(3)]
        return SystemIdentity(int(values[0]), int(values[1]), Lsn.parse(values[2]))

    def make_slot(self, name: str, patience_s: float = _COMMAND_PATIENCE_S) -> None:
        """Make a temporary slot; it keeps WAL from the last redo point on. Raises ProbeError."""
        self._ask(f'CREATE_REPLICATION_SLOT "{name}" TEMPORARY PHYSICAL RESERVE_WAL', patience_s)

    def start(self, slot: str, lsn: Lsn, timeline: int) -> None:
        """Begin to stream from ``lsn`` on. Raises ProbeError, TimelineEnd if the timeline ends there."""
        try:
            self.ask_to_start(slot, lsn, timeline)
            has_started = self.has_started(_COMMAND_PATIENCE_S)
        except TimelineEnd:
            raise
        except StreamEnd as error:
            raise self._failed("START_REPLICATION", error.message) from error
        if not has_started:
            raise self._failed("START_REPLICATION", _NO_ANSWER)

    def ask_to_start(self, slot: str, lsn: Lsn, timeline: int) -> None:
        """Ask for the stream from ``lsn`` on, and do not wait for it. Raises StreamEnd."""
        self._is_halted = False
        self._send(f'START_REPLICATION SLOT "{slot}" PHYSICAL {lsn} TIMELINE {timeline}')

    def has_started(self, patience_s: float) -> bool:
        """Whether the stream that was asked for has begun within ``patience_s``. Raises StreamEnd."""
        result = self._answer(patience_s)
        if result is None:
            return False
        if result.status == pq.ExecStatus.TUPLES_OK:
            raise _timeline_end(result)
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise StreamEnd(_words(result.get_error_message()) or "the server ended the stream")
        return True

    def halt(self) -> None:
        """Ask the server to end the stream; what is on its way still comes. Raises StreamEnd."""
        try:
            self._connection.put_copy_end()
            self._connection.flush()
        except psycopg.Error as error:
            raise self._broken(error) from error
        self._is_halted = True

    def receive(self, patience_s: float) -> WalData | Keepalive | Halted | None:
        """Return the next message; None if no whole one has come within ``patience_s``. Raises StreamEnd."""
        try:
            length, message = self._connection.get_copy_data(1)
            deadline = time.monotonic() + patience_s
            if length == 0:
                length, message = self._take()
            # A message of 128 kB arrives in parts: as long as some come, it is not late.
            is_coming = True
            while length == 0 and is_coming:
                left_s = max(0.0, deadline - time.monotonic())
                is_coming = bool(self._poll.poll(left_s * 1000))
                self._connection.consume_input()
                length, message = self._connection.get_copy_data(1)
        except psycopg.Error as error:
            raise self._broken(error) from error
        if length == 0:
            return None
        if length < 0:
            return self._end()
        view = memoryview(message)
        if view[0] == _DATA:
            start, end, _ = _DATA_HEAD.unpack_from(view)
            data = view[_DATA_HEAD.size :]
            return WalData(start, data, max(0, end - start - len(data)))
        if view[0] == _KEEP:
            end, _, wants_reply = _KEEPALIVE.unpack_from(view)
            return Keepalive(end, bool(wants_reply))
        raise StreamEnd(f"the server sent a message of unknown type {view[0]}")

    def _take(self) -> tuple[int, memoryview]:
        """The next message of what has arrived; a length of 0 if that is no whole one."""
        while True:
            # Before looking at the socket, because what TLS has already decrypted does not make it readable.
            self._connection.consume_input()
            length, message = self._connection.get_copy_data(1)
            # libpq takes no more than fits its buffer, and makes that larger for a message that does not.
            if length != 0 or not self._poll.poll(0):
                return length, message

    def confirm(self, written: int, flushed: int, *, wants_reply: bool) -> None:
        """Tell the server what has arrived, and what it may recycle. Raises StreamEnd."""
        clock = round((time.time() - _EPOCH_S) * 1e6)
        try:
            self._connection.put_copy_data(_STATUS.pack(b"r", written, flushed, 0, clock, wants_reply))
            self._connection.flush()
        except psycopg.Error as error:
            raise self._broken(error) from error

    def __enter__(self) -> ReplicationStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session, and the slot with it."""
        self._connection.finish()

    def _wait_for_session(self, patience_s: float) -> str | None:
        """Wait until it is connected; return why not, if it is not. PQconnectdb would keep every other thread
        waiting."""
        # 0 waits for ever, as libpq's connect_timeout does.
        deadline = time.monotonic() + (patience_s if patience_s > 0 else math.inf)
        wanted = select.POLLOUT
        while self._connection.status != pq.ConnStatus.BAD and time.monotonic() < deadline:
            # A retry without TLS has another socket.
            poll = select.poll()
            poll.register(self._connection.socket, wanted)
            if not poll.poll(200):
                continue
            state = self._connection.connect_poll()
            if state == pq.PollingStatus.OK:
                return None
            wanted = select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT
        return _words(self._connection.get_error_message()) or f"no answer within {patience_s:g} s"

    def _end(self) -> Halted:
        """Why COPY ended, if it was not asked to: another timeline follows, the server shuts down, or an
        error. Raises StreamEnd."""
        result = self._answer(_COMMAND_PATIENCE_S)
        if result is not None and result.status == pq.ExecStatus.COPY_IN:
            try:
                self._connection.put_copy_end()
            except psycopg.Error as error:
                raise self._broken(error) from error
            result = self._answer(_COMMAND_PATIENCE_S)
        if result is None:
            raise StreamEnd(_NO_ANSWER)
        if result.status == pq.ExecStatus.TUPLES_OK:
            raise _timeline_end(result)
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise StreamEnd(_words(result.get_error_message()) or "the server ended the stream")
        if not self._is_halted:
            raise StreamEnd("the server shut down")
        return Halted()

    def _ask(self, command: str, patience_s: float = _COMMAND_PATIENCE_S) -> pq.abc.PGresult:
        verb = command.split()[0]
        try:
            self._send(command)
            result = self._answer(patience_s)
        except StreamEnd as error:
            raise self._failed(verb, error.message) from error
        if result is None:
            raise self._failed(verb, _NO_ANSWER)
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise self._failed(verb, _words(result.get_error_message()))
        return result

    def _hear(self, notice: pq.abc.PGresult) -> None:
        if notice.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) == b"FATAL":
            self._last_words = _words(notice.get_error_message())

    def _broken(self, error: psycopg.Error) -> StreamEnd:
        return StreamEnd(self._last_words or _words(str(error)))

    def _failed(self, verb: str, said: str) -> ProbeError:
        return ProbeError(f"{verb} failed", detail=said, hint=hint_for(said, self._sslmode))

    def _send(self, command: str) -> None:
        """Raises StreamEnd."""
        try:
            self._connection.send_query(command.encode())
        except psycopg.Error as error:
            raise self._broken(error) from error

    def _answer(self, patience_s: float) -> pq.abc.PGresult | None:
        """The first result of the last command, once all have come or COPY begins; None until then. Raises
        StreamEnd."""
        deadline = time.monotonic() + patience_s
        try:
            while True:
                pending = self._connection.flush()
                while not self._connection.is_busy():
                    result = self._connection.get_result()
                    if result is not None:
                        self._answered = self._answered or result
                    if result is None or result.status in _COPYING:
                        answer, self._answered = self._answered, None
                        if answer is None:
                            raise StreamEnd("the server ended the stream")
                        return answer
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return None
                self._poll.poll(1000 * (min(left_s, 0.01) if pending else left_s))
                self._connection.consume_input()
        except psycopg.Error as error:
            # A server that shuts down ends the session right after its answer.
            answer, self._answered = self._answered, None
            if answer is not None:
                return answer
            raise self._broken(error) from error


def _timeline_end(result: pq.abc.PGresult) -> TimelineEnd:
    timeline, lsn = ((result.get_value(0, column) or b"").decode() for column in range(2))
    return TimelineEnd(int(timeline), Lsn.parse(lsn))


def _words(said: str) -> str:
    """What libpq says, in one line, without the place in psycopg and without libpq's guess at the reason."""
    words = " ".join(said.split()).partition(" This probably means")[0]
    return words.removeprefix("consuming input failed: ")
