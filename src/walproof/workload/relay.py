"""What each command of a pgbench script does: a relay between pgbench and a throw-away server.

pgbench says how long its commands take, and not how many rows they find. The server says that to it, in the
tag that ends each command (manual, "Message Formats", CommandComplete). Before pgbench hears of a command's
end the relay asks for the server's position in the WAL, so what lies between two positions is of one command.

With ``--protocol=prepared`` each command has a name, which its text (Parse) and each run of it (Bind) bear:
``P0_3`` is command 3 of script 0, and from pgbench 16 on ``P_3`` the fourth that was prepared.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_CHUNK = 1 << 16
_POLL_S = 0.1
_PATIENCE_S = 10.0
_HEADER = 5
"""A type and a length, which counts itself, but not the type."""
_LENGTH = 4
NO_SUCH_STATEMENT = "26000"
"""SQLSTATE of a run of what could not be prepared."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a command that has ended."""

    name: str
    """Of the prepared statement; empty for a command without one."""
    tag: str
    """``UPDATE 1``."""
    lsn: int
    """Insert position after it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A command that failed."""

    name: str
    code: str
    """SQLSTATE."""
    message: str


@dataclass(slots=True)
class Seen:
    """What was seen of the sessions since ``Relay.begin``."""

    texts: dict[str, str] = field(default_factory=dict)
    """Name of a prepared statement -> its SQL, with ``$1`` for pgbench's variables."""
    answers: list[Answer] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    is_cut: bool = False
    """Whether time was over."""
    is_pipelined: bool = False
    """Whether commands were sent before others had ended: positions do not tell them apart."""


class Relay:
    """Context manager: a socket in ``folder`` that pgbench connects to as to the server's.

    ``position`` is asked for the insert position, in the relay's own thread. Sessions come one after the
    other.
    """

    def __init__(
        self,
        folder: Path,
        ports: tuple[int, int],
        user: ServerUser | None,
        position: Callable[[], int],
    ) -> None:
        """``ports``: the relay's own, and that of the server, whose socket is in the same folder."""
        own, server = (str(folder / f".s.PGSQL.{port}") for port in ports)
        self._own, self._server, self._user, self.position = own, server, user, position
        self._seen = Seen()
        self._deadline = float("inf")
        self._over = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> Relay:
        self._listener = socket.socket(socket.AF_UNIX)
        with acting_as(self._user):
            self._listener.bind(self._own)
        self._listener.listen(4)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_PATIENCE_S)
        self._listener.close()
        with acting_as(self._user), contextlib.suppress(FileNotFoundError):
            Path(self._own).unlink()

    def begin(self, seconds: float) -> Seen:
        """What is seen of the sessions that begin from now on, which end after so many seconds."""
        self._deadline = time.monotonic() + seconds
        self._seen = Seen()
        return self._seen

    def settle(self) -> None:
        """Return when no session is open, so that what was seen is complete. Raises what ended the relay."""
        self._idle.wait(_PATIENCE_S)
        if self._raised is not None:
            raise self._raised

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                if select.select([self._listener], [], [], _POLL_S)[0]:
                    self._idle.clear()
                    client, _ = self._listener.accept()
                    with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
                        server.connect(self._server)
                        self._pass_on(client, server)
                    self._idle.set()
        except BaseException as error:  # raised again by `settle`
            self._raised = error
        finally:
            self._idle.set()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        session = Session(self._seen, self.position)
        while not self._over.is_set():
            if time.monotonic() > self._deadline:
                session.seen.is_cut = True
                return
            for ready in select.select([client, server], [], [], _POLL_S)[0]:
                data = ready.recv(_CHUNK)
                if not data:
                    return
                if ready is client:
                    session.sent(data)
                    server.sendall(data)
                else:
                    client.sendall(session.answered(data))


class Session:
    """Takes what pgbench and the server send each other apart into messages."""

    def __init__(self, seen: Seen, position: Callable[[], int]) -> None:
        self.seen = seen
        self._position = position
        self._from_client = _Messages(b"PBQ", begins_bare=True)
        self._from_server = _Messages(b"CEZ")
        self._name = ""
        self._awaited = 0
        """Commands that were sent and are not answered."""
        self._tag: str | None = None

    def sent(self, data: bytes) -> None:
        """pgbench sends this."""
        for kind, body in self._from_client.take(data):
            if kind == b"P":
                self._name, text, *_ = _strings(body)
                self.seen.texts[self._name] = text
                continue
            self._name = _strings(body)[1] if kind == b"B" else ""
            self._awaited += 1
            self.seen.is_pipelined = self.seen.is_pipelined or self._awaited > 1

    def answered(self, data: bytes) -> bytes:
        """The server sends this; what of it pgbench may have."""
        for kind, body in self._from_server.take(data):
            if kind == b"C":
                self._tag = _strings(body)[0]
            elif kind == b"E":
                code, message = _fault(body)
                self.seen.faults.append(Fault(self._name, code, message))
                self._tag = None
            else:
                if self._tag is not None:
                    self.seen.answers.append(Answer(self._name, self._tag, self._position()))
                self._tag, self._awaited = None, 0
        return self._from_server.passed


class _Messages:
    """Cuts a stream into messages, and takes those of the wanted types. Others are never held in memory."""

    def __init__(self, wanted: bytes, *, begins_bare: bool = False) -> None:
        """``begins_bare``: the first message has no type, as a client's has none."""
        self._wanted = wanted
        self._bare = begins_bare
        self._rest = b""
        self._skip = 0
        self.passed = b""
        """What was whole of the data that came last, and all of unwanted messages."""

    def take(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """(type, body) of the wanted messages that are whole now."""
        held, at = self._rest + data, 0
        found: list[tuple[bytes, bytes]] = []
        while True:
            skipped = min(self._skip, len(held) - at)
            at, self._skip = at + skipped, self._skip - skipped
            header = _LENGTH if self._bare else _HEADER
            if self._skip or len(held) - at < header:
                break
            size = int.from_bytes(held[at + header - _LENGTH : at + header]) + header - _LENGTH
            kind = b"" if self._bare else held[at : at + 1]
            if self._bare or kind not in self._wanted:
                self._bare, self._skip = False, size
                continue
            if len(held) - at < size:
                break
            found.append((kind, held[at + header : at + size]))
            at += size
        self._rest, self.passed = held[at:], held[:at]
        return found


def _strings(body: bytes) -> list[str]:
    """Strings of a message, each of which ends with a zero; what follows the first two may be something
    else."""
    return [part.decode(errors="replace") for part in body.split(b"\0", 2)] + [""]


def _fault(body: bytes) -> tuple[str, str]:
    """SQLSTATE, and message with detail, of an ErrorResponse."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return fields.get(b"C", ""), ": ".join(fields[key] for key in (b"M", b"D") if key in fields)


def rows_of(tag: str) -> int:
    """Rows that a command returned or changed: ``INSERT 0 3``, ``SELECT 20``; 0 for what has none."""
    last = tag.rsplit(" ", 1)[-1]
    return int(last) if last.isascii() and last.isdigit() else 0
