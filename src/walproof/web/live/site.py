"""Addresses of watched servers: all of them, a server with its plots, streams of both, a moment as a file."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walproof.report.watch.json import watch_data
from walproof.report.watch.panels import clock_time
from walproof.web.live.board import Board
from walproof.web.live.moment import Moment
from walproof.web.live.plot import dated, zone, zoned
from walproof.web.live.plots import plots
from walproof.web.live.sizes import SizePicture
from walproof.web.pages import page, templates

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

SPANS = {10: "10 min", 60: "1 h", 360: "6 h", 1440: "24 h"}
"""Spans that a page can show, in minutes."""
_SPAN = 60
_SHORTEST_S = 60.0
_POINTS = 300
_STREAMS_MOST = 64
_LOOK_S = 0.2
_SILENCE_S = 15.0


@dataclass(frozen=True, slots=True)
class ShownServer:
    """What a page of one server shows."""

    name: str
    minutes: int
    until: float
    moment: Moment


def live_routes(board: Board, shown: Mapping[str, Any]) -> list[Route]:
    """Addresses below /live and /api/live."""
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
    from starlette.routing import Route

    pictures = _Pictures(board)
    streams = 0

    def all_servers(_request: Request) -> Response:
        return page("live.html.j2", **shown, **pictures.overview())

    def server(request: Request) -> Response:
        found = _asked(board, request.query_params)
        if found is None:
            raise HTTPException(404)
        frozen = "at" in request.query_params
        return page("server.html.j2", **shown, **pictures.server(found), frozen=frozen, spans=SPANS)

    def file(request: Request) -> Response:
        found = _asked(board, request.query_params)
        if found is None:
            raise HTTPException(404)
        values = pictures.server(found) | {"frozen": True, "clock_time": dated}
        text = templates().get_template("moment.html.j2").render(**values)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(found.until))
        safe = "".join(
            char if char.isascii() and (char.isalnum() or char in "-.") else "_" for char in found.name
        )
        named = f'attachment; filename="walproof-{safe}-{stamp}.html"'
        return HTMLResponse(text, headers={"Content-Disposition": named})

    async def events(request: Request) -> Response:
        nonlocal streams
        asked = request.query_params
        if "name" in asked and board.server(asked["name"]) is None:
            raise HTTPException(404)
        if streams >= _STREAMS_MOST:
            return PlainTextResponse("walproof: too many pages are open\n", 503, {"Retry-After": "10"})

        def told() -> Mapping[str, str]:
            if "name" not in asked:
                return pictures.parts(None)
            found = _asked(board, {"name": asked["name"], "minutes": asked.get("minutes", "")})
            return {} if found is None else pictures.parts(found)

        async def stream() -> AsyncIterator[str]:
            nonlocal streams
            streams += 1
            try:
                sent: dict[str, str] = {}
                version, quiet_s = -1, 0.0
                yield "retry: 2000\n\n"
                while not board.is_over:
                    if board.version != version:
                        version = board.version
                        parts = dict(await run_in_threadpool(told))
                        title = parts.pop("title", "")
                        changed = {name: html for name, html in parts.items() if sent.get(name) != html}
                        sent.update(changed)
                        message = {"title": title, "parts": changed, "ids": list(parts)}
                        yield f"data: {json.dumps(message)}\n\n"
                        quiet_s = 0.0
                    elif quiet_s >= _SILENCE_S:
                        quiet_s = 0.0
                        yield ": here\n\n"
                    await asyncio.sleep(_LOOK_S)
                    quiet_s += _LOOK_S
            finally:
                streams -= 1

        return StreamingResponse(stream(), media_type="text/event-stream")

    def api_live(_request: Request) -> Response:
        return JSONResponse([watch_data(now.view) for now in board.servers()])

    return [
        Route("/live", all_servers),
        Route("/live/server", server),
        Route("/live/file", file),
        Route("/live/events", events),
        Route("/api/live", api_live),
    ]


def _asked(board: Board, asked: Mapping[str, str]) -> ShownServer | None:
    """The server, span and moment of an address; None if there is no such moment or it is no longer kept."""
    name, minutes = asked.get("name", ""), asked.get("minutes", "")
    now = board.server(name)
    if now is None:
        return None
    span = int(minutes) if minutes in map(str, SPANS) else _SPAN
    if "at" not in asked:
        return ShownServer(name, span, now.moment.at, now.moment)
    try:
        at = float(asked["at"])
    except ValueError:
        return None
    if not math.isfinite(at) or at > now.moment.at + 1:
        return None
    moment = board.at(name, at)
    return None if moment is None else ShownServer(name, span, moment.at, moment)


class _Pictures:
    """Parts of the pages as HTML. What several readers look at is drawn once for each look."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._kept: dict[tuple[str, int] | None, tuple[int, Mapping[str, str]]] = {}

    def overview(self) -> dict[str, Any]:
        servers: list[dict[str, Any]] = []
        for now in self._board.servers():
            until = now.moment.at
            moments = self._board.span(now.name, until - 600, until, 120)
            drawn = [plot for plot in plots(moments, until - 600, until) if plot.id in ("clock", "wal")]
            servers.append({"name": now.name, "moment": now.moment, "plots": drawn[:1]})
        worst = max((card["moment"].severity for card in servers), default=0)
        return {"servers": servers, "worst": worst, "clock_time": clock_time}

    def server(self, shown: ShownServer) -> dict[str, Any]:
        began = self._board.began(shown.name)
        since = shown.until - 60.0 * shown.minutes
        if began is not None:
            since = max(since, min(began, shown.until - _SHORTEST_S))
        moments = self._board.span(shown.name, since, shown.until, _POINTS)
        return {
            "name": shown.name,
            "moment": shown.moment,
            "sizes": None if shown.moment.sizes is None else SizePicture(shown.moment.sizes),
            "minutes": shown.minutes,
            "plots": plots(moments, since, shown.until),
            "began": began,
            "since": since,
            "until": shown.until,
            "zone": zone(since, shown.until),
            "zoned": zoned,
            "clock_time": clock_time,
        }

    def parts(self, shown: ShownServer | None) -> Mapping[str, str]:
        """Contents of elements by id, and the title. ``shown``: a server as it is now; None: all servers."""
        key = None if shown is None else (shown.name, shown.minutes)
        version = self._board.version
        kept = self._kept.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        parts = self._all_parts() if shown is None else self._server_parts(shown)
        self._kept[key] = (version, parts)
        return parts

    def _all_parts(self) -> dict[str, str]:
        values = self.overview()
        found = {"servers": _drawn("live_servers.html.j2", **values)}
        bad = sum(card["moment"].severity > 0 for card in values["servers"])
        return found | {"title": f"{f'({bad}) ' if bad else ''}Live servers - walproof"}

    def _server_parts(self, shown: ShownServer) -> dict[str, str]:
        values = self.server(shown)
        found = {
            "part-head": _drawn("server_head.html.j2", **values),
            "part-said": _drawn("server_said.html.j2", **values),
            "part-concerns": _drawn("server_concerns.html.j2", **values),
            "part-panels": _drawn("server_panels.html.j2", **values),
        }
        if shown.moment.streams:
            found["part-sizes"] = _drawn("server_sizes.html.j2", **values)
        for plot in values["plots"]:
            found[f"plot-{plot.id}"] = _drawn("plot_inner.html.j2", plot=plot)
        return found | {"title": f"{shown.moment.mark} {shown.name} - walproof"}


def _drawn(template: str, /, **values: Any) -> str:
    return templates().get_template(template).render(**values)
