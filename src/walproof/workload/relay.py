"""What each command of a pgbench script does: a relay between pgbench and a throw-away server.

pgbench says how long its commands take, and not how many rows they find. The server says that to it, in the
tag that ends each command (manual, "Message Formats", CommandComplete). Before pgbench hears of a command's
end the relay asks for the server's position in the WAL, so what lies between two positions is of one command.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_CHUNK = 1 << 16
_POLL_S = 0.1
_JOIN_S = 10.0
_HEADER = 5
"""A type and a length, which counts itself, but not the type."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a command that has ended."""

    tag: str
    """``UPDATE 1``."""
    lsn: int
    """Insert position after it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A command that failed."""

    message: str
    after: int
    """How many commands had ended before it."""


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
        self._own, self._server, self._user, self._position = own, server, user, position
        self.answers: list[Answer] = []
        self.faults: list[Fault] = []
        self.is_cut = False
        self._deadline = float("inf")
        self._over = threading.Event()
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
        self._thread.join(_JOIN_S)
        self._listener.close()
        with acting_as(self._user), contextlib.suppress(FileNotFoundError):
            Path(self._own).unlink()

    def begin(self, seconds: float) -> None:
        """Forget what was seen; sessions end after so many seconds from now."""
        self.answers, self.faults, self.is_cut = [], [], False
        self._deadline = time.monotonic() + seconds

    def check(self) -> None:
        """Raise what made the relay itself end."""
        if self._raised is not None:
            raise self._raised

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                if select.select([self._listener], [], [], _POLL_S)[0]:
                    client, _ = self._listener.accept()
                    with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
                        server.connect(self._server)
                        self._pass_on(client, server)
        except BaseException as error:  # raised again by `check`
            self._raised = error

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        take = self.reader()
        while not self._over.is_set():
            if time.monotonic() > self._deadline:
                self.is_cut = True
                return
            for ready in select.select([client, server], [], [], _POLL_S)[0]:
                data = ready.recv(_CHUNK)
                if not data:
                    return
                if ready is client:
                    server.sendall(data)
                else:
                    client.sendall(take(data))

    def reader(self) -> Callable[[bytes], bytes]:
        """Takes what the server of one session sends, notes what it answers, and returns what is whole."""
        return _Session(self).take

    def ended(self, tag: str) -> None:
        """A command has ended."""
        self.answers.append(Answer(tag, self._position()))

    def failed(self, message: str) -> None:
        """A command has failed."""
        self.faults.append(Fault(message, len(self.answers)))


class _Session:
    """Takes what a server sends apart into messages."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._rest = b""
        self._tag: str | None = None

    def take(self, data: bytes) -> bytes:
        """The whole messages of what has come so far."""
        held, at = self._rest + data, 0
        while len(held) - at >= _HEADER:
            end = at + 1 + int.from_bytes(held[at + 1 : at + _HEADER])
            if end > len(held):
                break
            kind = held[at : at + 1]
            if kind == b"C":
                self._tag = held[at + _HEADER : end].rstrip(b"\0").decode(errors="replace")
            elif kind == b"E":
                self._relay.failed(_message(held[at + _HEADER : end]))
                self._tag = None
            elif kind == b"Z" and self._tag is not None:
                self._relay.ended(self._tag)
                self._tag = None
            at = end
        self._rest = held[at:]
        return held[:at]


def _message(body: bytes) -> str:
    """Message and detail of an ErrorResponse."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return ": ".join(fields[key] for key in (b"M", b"D") if key in fields)


def rows_of(tag: str) -> int:
    """Rows that a command returned or changed: ``INSERT 0 3``, ``SELECT 20``; 0 for what has none."""
    last = tag.rsplit(" ", 1)[-1]
    return int(last) if last.isdigit() else 0
