"""``--listen``: metrics of the last look for Prometheus, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from walproof.errors import SettingError
from walproof.files import reason

if TYPE_CHECKING:
    from walproof.report.watch.view import ServerView

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:]*)):(?P<port>\d+)")


class Listener:
    """Context manager: serves the newest look. Raises SettingError when it cannot listen."""

    def __init__(self, address: str) -> None:
        """``address``: HOST:PORT; port 0 takes a free one."""
        self._host, self._port = parse_address(address)
        self._views: Sequence[ServerView] = ()

    def __enter__(self) -> Listener:
        from prometheus_client import start_http_server

        from walproof.report.watch.prometheus import registry

        try:
            self._server, self._thread = start_http_server(
                self._port, self._host, registry(lambda: self._views)
            )
        except (OSError, OverflowError) as error:
            raise SettingError(
                f"could not listen on {self._host}:{self._port}: {reason(error)}",
                hint="Another program has that port, or the address is not this machine's.",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2.0)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_port)

    def tell(self, views: Sequence[ServerView]) -> None:
        """Set what the next scrapes get."""
        self._views = tuple(views)


def parse_address(text: str, option: str = "--listen", port: int = 8433) -> tuple[str, int]:
    """``127.0.0.1:8433``, ``[::1]:8433``. Raises SettingError: a host has to be named.

    ``option`` and its usual ``port`` are for the message.
    """
    match = _ADDRESS.fullmatch(text)
    host = "" if match is None else match["six"] or match["host"]
    if match is None or not host or int(match["port"]) > 65535:
        raise SettingError(
            f'{option} is "{text}", expected HOST:PORT',
            hint=f"{option} 127.0.0.1:{port} is for this machine alone; 0.0.0.0:{port} for everybody.",
        )
    return host, int(match["port"])
