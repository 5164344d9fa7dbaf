"""HTTP for strangers: who asks for nothing does not stay, and takes no room from whoever asks.

uvicorn gives a connection that sends nothing all the time it likes. Without the token anybody could so use up
the connections that are answered, and the files that this process may open: a watch would see nothing more.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 200
"""Connections at once. A browser has up to six; those that are being answered are never closed."""
PATIENCE_S = 10.0
"""For a request to come as a whole."""


class BoundedProtocol(H11Protocol):
    """One connection. It is closed when it has waited too long, or the longest of too many."""

    waits_since_s = 0.0
    """Time of the loop."""
    is_over = False
    _clock: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, or for the rest of one; a refusal waits for no rest."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the one that has waited longest go if there are too many."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._look()
        there = [each for each in self.connections if isinstance(each, BoundedProtocol) and not each.is_over]
        if len(there) > MOST:
            min((each for each in there if each.waits), key=lambda each: each.waits_since_s).end()

    def data_received(self, data: bytes) -> None:
        """Go on with the request, or begin one."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self.is_over = True
        self._look()

    def shutdown(self) -> None:
        """Let it go at the end. A request that has not come as a whole is not waited for."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.more_body:
            super().shutdown()
        else:
            self.end()

    def end(self) -> None:
        """Close it at once, whatever was to be sent."""
        self.is_over = True
        self.transport.abort()

    def _look(self) -> None:
        """Let its clock run while it waits: bytes of a request that never ends do not stop it."""
        is_running = self.waits and not self.is_over
        if is_running and self._clock is None:
            self.waits_since_s = self.loop.time()
            self._clock = self.loop.call_later(PATIENCE_S, self._give_up)
        elif not is_running and self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        if self.transport.get_write_buffer_size():
            self._look()  # an answer is still on its way
        else:
            self.end()
