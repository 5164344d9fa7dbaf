"""Who may read the page, checked before anything else looks at a request.

Host    an address, localhost, or a name that was given: another site whose name is made to point here
        (DNS rebinding) gets nothing
token   once in the printed link, then in a cookie, or as a bearer token: other users of the machine reach
        loopback too
method  GET and HEAD change nothing; POST has to come from this page (Origin)
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from walproof.errors import SettingError, WalproofError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?")
_YEAR_S = 365 * 86400
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer. Styles may be inline, because charts carry theirs; scripts may not. The referrer
is sent to this page only. Without a referrer, browsers would send forms with the Origin "null", which is
refused."""

NOT_ALLOWED = WalproofError("method not allowed")
_OTHER_HOST = WalproofError(
    "this page does not answer under that host name",
    hint="open the printed address, or name the host with --name",
)
_OTHER_PAGE = WalproofError("the request came from another page")
_UNKNOWN = WalproofError(
    "the link lacks the token",
    hint="open the link that walproof printed when it started; it ends with ?token=...",
)


@dataclass(frozen=True, slots=True)
class Access:
    """What a reader has to show."""

    token: str
    names: frozenset[str] = frozenset()
    """Host names, besides addresses and localhost, under which the page answers."""
    is_lasting: bool = False
    """Whether the next start has the same token."""

    @property
    def cookie(self) -> str:
        """Name of the cookie. Cookies of a host are shared by all its ports, so each token has one."""
        return f"walproof-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    def is_host(self, text: str) -> bool:
        """Whether the page answers under the Host ``text``."""
        match = _HOST.fullmatch(text)
        if match is None:
            return False
        name = (match["six"] or match["name"]).lower().rstrip(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self.names
        return True

    def is_token(self, text: str) -> bool:
        """Whether ``text`` is the token, in a time that does not depend on the text."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())


def make_access(token: str | None, names: Iterable[str] = ()) -> Access:
    """Access with the given token, or a new one. Raises SettingError, which does not repeat the token."""
    is_lasting = token is not None
    if token is None:
        token = secrets.token_urlsafe(24)
    elif not _TOKEN.fullmatch(token):
        raise SettingError(
            "WALPROOF_WEB_TOKEN is not a token: expected 16 to 200 letters, digits, - or _",
            hint="If you leave it out, walproof makes one at each start.",
        )
    return Access(token, frozenset(name.lower().rstrip(".") for name in names), is_lasting)


class Guard:
    """ASGI application around another: it admits a request that shows what `Access` asks for."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or let the page answer."""
        from starlette.datastructures import Headers
        from starlette.responses import RedirectResponse

        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refused: Response | None = None
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.is_host(hosts[0]):
            refused = _refusal(scope, 421, _OTHER_HOST)
        elif scope["method"] not in ("GET", "HEAD", "POST"):
            refused = _refusal(scope, 405, NOT_ALLOWED, {"Allow": "GET, HEAD, POST"})
        elif scope["method"] == "POST" and not _is_own(headers.get("origin"), hosts[0]):
            refused = _refusal(scope, 403, _OTHER_PAGE)
        elif (shown := _query_token(scope)) is not None:
            if self._access.is_token(shown):
                refused = RedirectResponse(_without_token(scope), 303)
                # Each start has a new token: its cookie is not to stay with the browser, which sends all of
                # them to every program of this host.
                kept_s = _YEAR_S if self._access.is_lasting else None
                refused.set_cookie(
                    self._access.cookie, self._access.token, max_age=kept_s, httponly=True, samesite="lax"
                )
            else:
                refused = _refusal(scope, 401, _UNKNOWN, {"WWW-Authenticate": "Bearer"})
        elif not self._is_known(headers.get("cookie"), headers.get("authorization")):
            refused = _refusal(scope, 401, _UNKNOWN, {"WWW-Authenticate": "Bearer"})

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), text.encode())
                        for name, text in HEADERS.items()
                        if name.lower().encode() not in given
                    ),
                ]
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _is_known(self, cookie: str | None, authorization: str | None) -> bool:
        if authorization is not None and authorization.startswith("Bearer "):
            return self._access.is_token(authorization.removeprefix("Bearer "))
        # Cookies of all programs of this host come together, and not each is one that SimpleCookie reads on
        # from: it would lose those that follow.
        pairs = (part.strip().partition("=") for part in (cookie or "").split(";"))
        return any(name == self._access.cookie and self._access.is_token(value) for name, _, value in pairs)


def is_of_programs(path: str) -> bool:
    """Whether programs ask for that address, which read errors as JSON."""
    return path.startswith("/api/")


def error_json(error: WalproofError, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The three parts of an error, as ``walproof mcp`` answers."""
    from starlette.responses import JSONResponse

    parts = {"message": error.message, "detail": error.detail, "hint": error.hint}
    return JSONResponse({"error": {name: part for name, part in parts.items() if part}}, status, headers)


def _refusal(
    scope: Scope, status: int, error: WalproofError, headers: Mapping[str, str] | None = None
) -> Response:
    from starlette.responses import PlainTextResponse

    if is_of_programs(scope["path"]):
        return error_json(error, status, headers)
    hint = f"hint: {error.hint}\n" if error.hint else ""
    return PlainTextResponse(f"walproof: {error.message}\n{hint}", status, headers)


def _is_own(origin: str | None, host: str) -> bool:
    return origin is not None and origin.partition("://")[2] == host


def _pairs(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _query_token(scope: Scope) -> str | None:
    return next((value for name, value in _pairs(scope) if name == "token"), None)


def _without_token(scope: Scope) -> str:
    """The same address without the token, on this host: a leading "//" would lead to another host."""
    path = "/" + quote(scope["path"].lstrip("/"))
    rest = urlencode([(name, value) for name, value in _pairs(scope) if name != "token"])
    return f"{path}?{rest}" if rest else path
