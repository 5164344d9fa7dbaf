"""A link between clusters that is slower than a unix socket: a delay, a bandwidth, or cut. Needs no rights.

    standby --> .s.PGSQL.<port of the link> --[delay, bandwidth]--> .s.PGSQL.<port of the upstream>

It relays in a thread of walproof, so it costs CPU here and ends with walproof. It stops reading when its
buffer is full, so a sender notices a narrow link as it would notice a network. It cannot show the window of a
TCP connection, so throughput is better than over a network of the same delay. On a busy machine each
direction waits about a millisecond longer than asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType

from psycopg.conninfo import make_conninfo

from walproof.errors import ClusterError
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as

_CHUNK_BYTES = 16 * 1024
_BUFFER_BYTES = 64 * 1024
_IN_FLIGHT_BYTES = 64 * 1024**2
"""How many bytes may be on their way over a link with a delay: a second at 64 MB/s."""
_START_PATIENCE_S = 10.0


class Link:
    """Context manager: another address of ``upstream``. ``shape`` changes it while it is used."""

    def __init__(
        self, workspace: Workspace, upstream: Cluster, *, delay_s: float = 0.0, bytes_per_s: int | None = None
    ) -> None:
        """``delay_s``: one way, so that a round trip takes twice as long; ``bytes_per_s``: each direction."""
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self._upstream = upstream.sockets / f".s.PGSQL.{upstream.port}"
        self._sockets = workspace.sockets
        self._user = workspace.user
        self._port = workspace.take_port()
        self._is_open = True
        self._listening = socket.socket(socket.AF_UNIX)
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._fault: Exception | None = None
        """Why it does not listen."""
        self._thread = threading.Thread(target=self._run, name="walproof-link", daemon=True)

    def __enter__(self) -> Link:
        """Listen. Raises ClusterError."""
        try:
            with acting_as(self._user):
                # The socket belongs to the user of the standby's server, which may thus connect to it.
                self._listening.bind(str(self.path))
        except OSError as error:
            self._listening.close()
            self._loop.close()
            raise ClusterError(f'no link can listen on "{self.path}": {error.strerror or error}') from error
        self._thread.start()
        if not self._ready.wait(_START_PATIENCE_S) or self._fault is not None:
            self._forget_socket()
            why = self._fault or f"it did not begin within {_START_PATIENCE_S:.0f} s"
            raise ClusterError(f'no link can listen on "{self.path}": {why}') from self._fault
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._forget_socket()

    @property
    def route(self) -> str:
        """Host and port for a connection string."""
        return make_conninfo(host=str(self._sockets), port=self._port)

    def shape(self, *, delay_s: float = 0.0, bytes_per_s: int | None = None) -> None:
        """Change delay (one way) and bandwidth for what arrives from now on."""
        self.delay_s, self.bytes_per_s = delay_s, bytes_per_s

    def sever(self) -> None:
        """Close every connection and refuse new ones, until ``mend``."""
        self._is_open = False
        self._loop.call_soon_threadsafe(self._close_all)

    def mend(self) -> None:
        """Accept connections again."""
        self._is_open = True

    @property
    def path(self) -> Path:
        """The socket on which it listens."""
        return self._sockets / f".s.PGSQL.{self._port}"

    def _forget_socket(self) -> None:
        with acting_as(self._user):
            self.path.unlink(missing_ok=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
        except Exception as fault:
            self._fault = fault
            self._listening.close()
            self._loop.close()
            return
        finally:
            self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._relay, sock=self._listening)

    async def _end(self) -> None:
        self._server.close()
        self._close_all()
        for task in list(self._relays):
            task.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def _close_all(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        self._connections.add(writer)
        onward: asyncio.StreamWriter | None = None
        try:
            if not self._is_open:
                return
            back, onward = await asyncio.open_unix_connection(str(self._upstream))
            self._connections.add(onward)
            pumps = [
                asyncio.ensure_future(self._pump(reader, onward)),
                asyncio.ensure_future(self._pump(back, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the upstream is gone, or the link ends
        finally:
            for end in (writer, onward):
                if end is not None:
                    self._connections.discard(end)
                    end.transport.abort()
            self._relays.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one direction until its end. What is read waits for its time in a queue of bounded size."""
        waiting: deque[tuple[float, bytes]] = deque()
        held = 0
        changed = asyncio.Condition()
        ended = False

        async def read() -> None:
            nonlocal held, ended
            # A reset is an end, too: of a process that died before it had read what was sent to it.
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK_BYTES):
                    async with changed:
                        room = room_bytes(self.delay_s, self.bytes_per_s)
                        while held >= room:
                            await changed.wait()
                        waiting.append((time.monotonic() + self.delay_s, data))
                        held += len(data)
                        changed.notify_all()
            async with changed:
                ended = True
                changed.notify_all()

        reading = asyncio.ensure_future(read())
        free_at = 0.0
        try:
            while True:
                async with changed:
                    while not waiting and not ended:
                        await changed.wait()
                    if not waiting:
                        return
                    due, data = waiting.popleft()
                await _sleep_until(due)
                writer.write(data)
                await writer.drain()
                if self.bytes_per_s is not None:
                    free_at = max(free_at, time.monotonic()) + len(data) / self.bytes_per_s
                    await _sleep_until(free_at)
                async with changed:
                    held -= len(data)
                    changed.notify_all()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await reading


def room_bytes(delay_s: float, bytes_per_s: int | None) -> float:
    """How much a direction of a link holds: what fills the way at its bandwidth, and a buffer. If it held
    more, the sender of a narrow link would have sent what still waits for its turn."""
    if bytes_per_s is None:
        return _IN_FLIGHT_BYTES if delay_s else _BUFFER_BYTES
    return _BUFFER_BYTES + min(_IN_FLIGHT_BYTES, bytes_per_s * delay_s)


async def _sleep_until(due: float) -> None:
    left = due - time.monotonic()
    if left > 0:
        await asyncio.sleep(left)
