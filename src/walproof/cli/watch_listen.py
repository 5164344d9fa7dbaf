"""``--listen``: metrics of the last look for Prometheus, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from walproof.cli.serving import Served
from walproof.errors import SettingError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from walproof.report.watch.view import ServerView

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:]*)):(?P<port>\d+)")


class Listener(Served):
    """Context manager: serves the newest look. Raises SettingError when it cannot listen."""

    def __init__(self, address: str) -> None:
        """``address``: HOST:PORT; port 0 takes a free one."""
        from prometheus_client import make_asgi_app

        from walproof.report.watch.prometheus import registry

        self._views: Sequence[ServerView] = ()
        metrics = make_asgi_app(registry(lambda: self._views))

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await metrics(scope, receive, send)
            except (TypeError, ValueError):
                # A header is no UTF-8, or names a version that is no number. prometheus_client reads headers
                # before it sends anything, and sends plain text to whoever sends none.
                await metrics({**scope, "headers": []}, receive, send)

        host, port = parse_address(address)
        super().__init__(answer, host, port, "--listen")

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
