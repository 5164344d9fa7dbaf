"""An application that answers at an address, by a thread of its own: the page, and metrics for Prometheus."""

from __future__ import annotations

import errno
import socket
import threading
import time
from typing import TYPE_CHECKING, Self

from walproof.errors import SettingError
from walproof.files import reason

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_START_S = 20.0
_END_S = 3.0
_ACCEPTED_AT_ONCE = 64
"""Connections that may come before one of them is looked at."""


class Served:
    """Context manager: serves an application over HTTP. Raises SettingError when it cannot listen."""

    def __init__(self, app: ASGIApp, host: str, port: int, option: str) -> None:
        """``port``: 0 takes a free one. ``option``: the option that gave the address."""
        self._app, self._host, self._port, self._option = app, host, port, option

    def __enter__(self) -> Self:
        import uvicorn

        from walproof.cli.bounded_http import BoundedProtocol

        self._socket = _bound(self._host, self._port, self._option)
        config = uvicorn.Config(
            self._app, log_config=None, log_level="error", access_log=False, lifespan="off", ws="none",
            http=BoundedProtocol, loop="asyncio", proxy_headers=False, server_header=False,
            backlog=_ACCEPTED_AT_ONCE, timeout_keep_alive=5, timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=16384,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name=self._option, daemon=True
        )
        self._thread.start()
        until_s = time.monotonic() + _START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until_s:
                self.__exit__()
                raise SettingError(f"could not serve on {self._host}:{self._port}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=_END_S)
        self._socket.close()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])


def _bound(host: str, port: int, option: str) -> socket.socket:
    """A socket that listens there. Raises SettingError."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(_ACCEPTED_AT_ONCE)
        except OSError:
            made.close()
            raise
    except (OSError, UnicodeError) as error:  # the latter for a name with empty or too long labels
        hint = {
            errno.EADDRINUSE: f"Another program has that port, perhaps another walproof. {option} {host}:0 "
            "takes a free port.",
            errno.EACCES: "Ports below 1024 are for root: use a higher one.",
        }.get(getattr(error, "errno", None) or 0, "The address has to be one of this machine.")
        raise SettingError(f"could not listen on {host}:{port}: {reason(error)}", hint=hint) from error
    return made
