"""The one thing that a reader may change: a request to a run in progress, stored as a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from walproof.errors import StoreError
from walproof.facts import RequestKind
from walproof.web.pages import page
from walproof.web.shelf import Shelf

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_BODY_MOST = 1000


def asking_routes(shelf: Shelf, shown: Mapping[str, Any]) -> list[Route]:
    """The address /runs/RUN/requests, for POST only; `Guard` has checked the token and the origin."""
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.responses import RedirectResponse
    from starlette.routing import Route

    async def ask(request: Request) -> Response:
        run = request.path_params["run"]
        try:
            kind, rounds = _asked(await _body(request))
        except StoreError as error:
            return page("problem.html.j2", 400, **shown, problem=error)
        try:
            made = await run_in_threadpool(shelf.ask, run, kind, rounds)
        except StoreError as error:
            return page("problem.html.j2", 409, **shown, problem=error)
        if made is None:
            raise HTTPException(404)
        return RedirectResponse(f"/runs/{quote(run, safe='')}/progress", 303)

    return [Route("/runs/{run}/requests", ask, methods=["POST"])]


async def _body(request: Request) -> str:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _BODY_MOST:
            raise StoreError("the request is longer than any that this page sends")
    return body.decode("ascii", "replace")


def _asked(text: str) -> tuple[RequestKind, int]:
    """The kind and the number of rounds that a form asks for. Raises StoreError."""
    given = {name: values[0] for name, values in parse_qs(text).items()}
    try:
        kind = RequestKind(given.get("kind", ""))
    except ValueError:
        known = ", ".join(known_kind.value for known_kind in RequestKind)
        raise StoreError(
            "the request does not name anything that a run can do", detail=f"Expected {known}."
        ) from None
    if kind is RequestKind.STOP:
        return kind, 0
    rounds = given.get("rounds", "")
    if not (rounds.isascii() and rounds.isdigit() and len(rounds) < 9):
        raise StoreError("the request has no number of rounds")
    return kind, int(rounds)
