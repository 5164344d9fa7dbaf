"""Addresses of a stored history: its servers, any stretch of a server with its plots, and that as a file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from walproof.facts.watch_history import HistoryServer
from walproof.units import format_duration
from walproof.web.live.moment import MARKS, WORDS
from walproof.web.live.past import Past
from walproof.web.live.plot import day, zone, zoned
from walproof.web.live.plots import plots
from walproof.web.pages import page, templates

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

SPANS = {
    3600: "1 h", 6 * 3600: "6 h", 86400: "24 h", 7 * 86400: "7 days", 30 * 86400: "30 days",
}  # fmt: skip
"""Spans that are offered, in seconds; any other span may be asked for."""
_SPAN_S = 86400
_SHORTEST_S = 60.0


@dataclass(frozen=True, slots=True)
class HistoryStretch:
    """A stretch of a server's history."""

    server: HistoryServer
    since: float
    until: float

    @property
    def seconds(self) -> float:
        """Length of the stretch."""
        return self.until - self.since


def past_routes(past: Past, shown: Mapping[str, Any]) -> list[Route]:
    """Addresses below /history."""
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    def servers(_request: Request) -> Response:
        return page(
            "history.html.j2",
            **shown,
            servers=past.servers(),
            path=past.path,
            day=day,
            marks=MARKS,
            words=WORDS,
        )

    def server(request: Request) -> Response:
        found = _asked(past, request.query_params)
        if found is None:
            raise HTTPException(404)
        return page("history_server.html.j2", **shown, **_values(past, found))

    def file(request: Request) -> Response:
        found = _asked(past, request.query_params)
        if found is None:
            raise HTTPException(404)
        text = templates().get_template("moment.html.j2").render(**_values(past, found))
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(found.until))
        name = found.server.name
        safe = "".join(char if char.isascii() and (char.isalnum() or char in "-.") else "_" for char in name)
        named = f'attachment; filename="walproof-{safe}-{stamp}.html"'
        return HTMLResponse(text, headers={"Content-Disposition": named})

    return [
        Route("/history", servers),
        Route("/history/server", server),
        Route("/history/file", file),
    ]


def _asked(past: Past, asked: Mapping[str, str]) -> HistoryStretch | None:
    """The server and the stretch of an address; None if there is no such server."""
    known = {server.name: server for server in past.servers()}
    server = known.get(asked.get("name", ""))
    if server is None:
        return None
    until = _time(asked.get("until", "")) or server.last_at
    until = max(min(until, server.last_at), server.first_at + _SHORTEST_S)
    since = _time(asked.get("since", "")) or until - _seconds(asked.get("seconds", ""))
    since = min(max(since, server.first_at), until - _SHORTEST_S)
    return HistoryStretch(server, since, until)


def _seconds(text: str) -> float:
    return float(text) if text in map(str, SPANS) else float(_SPAN_S)


def _time(text: str) -> float | None:
    """Unix time from a number or from a browser's date and time field, in the time zone of walproof."""
    try:
        found = float(text)
    except ValueError:
        try:
            found = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            return None
    return found if math.isfinite(found) else None


def _values(past: Past, stretch: HistoryStretch) -> dict[str, Any]:
    moments = past.span(stretch.server, stretch.since, stretch.until)
    worst = max(moments, key=lambda moment: (moment.severity, moment.warm or 0.0), default=None)
    return {
        "name": stretch.server.name,
        "server": stretch.server,
        "stretch": stretch,
        "spans": SPANS,
        "moment": moments[-1] if moments else None,
        "worst": worst,
        "outages": sum(not moment.answers for moment in moments),
        "plots": plots(moments, stretch.since, stretch.until),
        "began": stretch.server.first_at,
        "since": stretch.since,
        "until": stretch.until,
        "length": format_duration(stretch.seconds),
        "count": len(moments),
        "frozen": True,
        "zone": zone(stretch.since, stretch.until),
        "zoned": zoned,
        "field": lambda at: time.strftime("%Y-%m-%dT%H:%M", time.localtime(at)),
        "day": day,
    }
