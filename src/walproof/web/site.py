"""The page as an ASGI application: what each address shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walproof.errors import StoreError, WalproofError
from walproof.web.access import NOT_ALLOWED, Access, Guard, error_json, is_of_programs
from walproof.web.asking import asking_routes
from walproof.web.listed import ListedRun
from walproof.web.live.board import Board
from walproof.web.live.past import Past
from walproof.web.live.past_site import past_routes
from walproof.web.live.site import live_routes
from walproof.web.pages import page
from walproof.web.recordings import recording_routes
from walproof.web.shelf import Shelf
from walproof.web.stored import stored_routes
from walproof.web.tunings import Tunings, tuning_routes

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_STATIC = {
    "web.css": ("static/web.css", "text/css"),
    "live.css": ("templates/live.css", "text/css"),
    "web.js": ("static/web.js", "text/javascript"),
}
_NEWEST = 6


def make_site(
    access: Access,
    shelf: Shelf | None,
    board: Board | None,
    recordings: Path | None = None,
    tunings: Path | None = None,
    past: Past | None = None,
) -> ASGIApp:
    """The application. ``shelf``: runs; ``board``: watched servers; ``past``: their history; and two folders.

    It has no other access to a server.
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    told = Tunings(tunings, shelf) if tunings is not None and shelf is not None else None
    shown = {"shelf": shelf, "board": board, "recordings_at": recordings, "tunings_at": tunings, "past": past}
    routes = [
        Route("/", _first_page(shown)),
        Route("/static/{name}", _static),
        Route("/demo/advice.html", _demo),
    ]
    if shelf is not None:
        routes += stored_routes(shelf, shown) + asking_routes(shelf, shown)
    if told is not None:
        routes += tuning_routes(told, shown)
    if recordings is not None:
        routes += recording_routes(recordings, shown)
    if past is not None:
        routes += past_routes(past, shown)
    if board is not None:
        routes += live_routes(board, shown)
    handlers: Mapping[Any, Callable[..., Any]] = {
        405: _not_allowed,
        404: lambda request, _error: _problem(request, 404, _NOT_FOUND, shown),
        WalproofError: lambda request, error: _problem(request, 503, error, shown),
        500: lambda request, _error: _problem(request, 500, _DEFECT, shown),
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


_NOT_FOUND = WalproofError(
    "there is no such page", hint="It may be a run of another store, or a moment that is no longer kept."
)
_DEFECT = WalproofError("a defect of walproof", hint="What happened is on the terminal where walproof runs.")


def _problem(request: Request, status: int, problem: WalproofError, shown: Mapping[str, Any]) -> Response:
    """A page for browsers; for programs the parts of the error."""
    if is_of_programs(request.url.path):
        return error_json(problem, status)
    return page("problem.html.j2", status, **shown, problem=problem)


def _not_allowed(request: Request, error: HTTPException) -> Response:
    from starlette.responses import PlainTextResponse

    if is_of_programs(request.url.path):
        return error_json(NOT_ALLOWED, 405, error.headers)
    return PlainTextResponse(error.detail, 405, error.headers)


def _first_page(shown: Mapping[str, Any]) -> Callable[[Request], Response]:
    def first(_request: Request) -> Response:
        shelf, board = shown["shelf"], shown["board"]
        runs: list[ListedRun] = []
        problem: StoreError | None = None
        try:
            runs = [] if shelf is None else shelf.listed()
        except StoreError as error:
            if board is None:
                raise
            # Watched servers need no store.
            problem = error
        live = [] if board is None else board.servers()
        return page(
            "first.html.j2", **shown, runs=runs[:_NEWEST], count=len(runs), live=live, problem=problem,
            open_runs=[entry for entry in runs if entry.extent.finished_at is None][:_NEWEST],
        )  # fmt: skip

    return first


def _static(request: Request) -> Response:
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    place, kind = _STATIC[name]
    return Response((files("walproof") / "web" / place).read_text(encoding="utf-8"), media_type=kind)


def _demo(_request: Request) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse((files("walproof") / "web" / "demo" / "advice.html").read_text(encoding="utf-8"))
