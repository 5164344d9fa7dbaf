"""Who may read the page: token, name of the host, method, origin. Asked over HTTP."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack

import pytest

from tests.web.reading import Reader
from walproof.cli import bounded_http
from walproof.errors import SettingError
from walproof.web.access import HEADERS, make_access


def test_without_the_token_nothing_is_shown(site: Reader) -> None:
    for path in ("/", "/runs", "/api/runs", "/live", "/live/events", "/static/web.js", "/none"):
        answer = site.get(path, knows=False)
        assert answer.status == 401, path
        assert "?token=" in answer.text
        assert "durability" not in answer.text
    for wrong in ("x", site.token + "x", site.token[:-1], "ä"):
        assert site.get("/", {"Authorization": f"Bearer {wrong}"}, knows=False).status == 401
        assert site.get(f"/?token={wrong.encode().hex()}", knows=False).status == 401


def test_the_link_leaves_a_cookie_and_no_token_in_the_address(site: Reader) -> None:
    answer = site.get(f"/runs?q=a%26b&token={site.token}", knows=False)
    assert answer.status == 303
    assert answer.headers["location"] == "/runs?q=a%26b"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert site.get("/runs", {"Cookie": cookie.partition(";")[0]}, knows=False).status == 200
    assert site.get("/runs", {"Cookie": cookie.partition("=")[0] + "=other"}, knows=False).status == 401


@pytest.mark.parametrize(
    "theirs", ['g_state={"i_l":0}', "without-a-value", "path", "a@b=1", "x=1; x/y=2", 'q="open', "ä=ö"]
)
def test_cookies_of_other_programs_of_the_host_lock_nobody_out(site: Reader, theirs: str) -> None:
    """They come first, because they are older."""
    answer = site.get(f"/?token={site.token}", knows=False)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert site.get("/", {"Cookie": f"{theirs}; {cookie}; {theirs}"}, knows=False).status == 200
    assert site.get("/", {"Cookie": f"{theirs}; {cookie}x"}, knows=False).status == 401


def test_a_cookie_lasts_as_long_as_its_token(site: Reader) -> None:
    assert "Max-Age" not in site.get(f"/?token={site.token}", knows=False).headers["set-cookie"]
    assert not make_access(None).is_lasting
    assert make_access("a-token-of-my-own").is_lasting


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/\\evil.example"])
def test_the_link_leads_to_no_other_host(site: Reader, path: str) -> None:
    answer = site.get(f"{path}?token={site.token}", knows=False)
    assert answer.status == 303
    where = answer.headers["location"]
    assert where.startswith("/")
    assert not where.startswith(("//", "/\\"))


def test_a_name_that_somebody_made_point_here_gets_nothing(site: Reader) -> None:
    for host in ("evil.example", f"evil.example:{site.port}", "127.0.0.1.evil.example", "localhost@evil", ""):
        assert site.get("/", {"Host": host}).status in (400, 421), host
    for host in (f"127.0.0.1:{site.port}", "localhost", "LOCALHOST:9000", "[::1]:8432", "walproof.example"):
        assert site.get("/", {"Host": host}).status == 200, host


def test_nothing_is_changed_by_a_request(site: Reader) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert site.get("/runs", method=method).status == 405, method
    assert site.get("/runs", method="POST").status == 403
    assert site.get("/runs", {"Origin": "http://evil.example"}, method="POST").status == 403
    from_here = {"Origin": f"http://{site.host}:{site.port}"}
    assert site.get("/runs", from_here, method="POST").status == 405
    assert site.get("/runs/none/requests", from_here, method="POST", body="kind=stop").status == 404
    for origin in ("null", "http://evil.example", f"http://{site.host}:{site.port + 1}", ""):
        answer = site.get("/runs/none/requests", {"Origin": origin}, method="POST", body="kind=stop")
        assert answer.status == 403, origin
    assert (
        site.get("/runs/none/requests", from_here, method="POST", body="kind=stop", knows=False).status == 401
    )


def test_programs_are_refused_in_json(site: Reader) -> None:
    from_here = {"Origin": f"http://{site.host}:{site.port}"}
    for status, answer in (
        (401, site.get("/api/runs", knows=False)),
        (421, site.get("/api/runs", {"Host": "evil.example"})),
        (405, site.get("/api/live", method="PUT")),
        (405, site.get("/api/runs", from_here, method="POST")),
        (403, site.get("/api/runs", {"Origin": "http://evil.example"}, method="POST")),
        (404, site.get("/api/none")),
    ):
        assert answer.status == status
        assert json.loads(answer.text)["error"]["message"]
        assert (status == 405) is ("allow" in answer.headers)
    assert site.get("/api/runs", knows=False).headers["www-authenticate"] == "Bearer"


def test_every_answer_has_the_headers(site: Reader) -> None:
    for path in ("/", "/none", "/static/web.js", "/api/runs", "/live/server?name=no", "/static/..%2fsite.py"):
        found = site.get(path).headers
        assert {name: found.get(name.lower()) for name in HEADERS} == HEADERS, path
    found = site.get("/", knows=False).headers
    assert {name: found.get(name.lower()) for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe-eval" not in policy


def test_strangers_who_keep_connections_keep_nobody_out(
    site: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they say nothing, half a request, or one that is refused and has no end."""
    monkeypatch.setattr(bounded_http, "MOST", 20)
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with ExitStack() as open_:
        for number in range(60):
            made = open_.enter_context(socket.create_connection((site.host, site.port), timeout=30))
            made.sendall((b"", head, head + b"\r\n12")[number % 3])
        assert site.get("/").status == 200
        assert site.get("/", knows=False).status == 401


def test_only_listed_files_are_served(site: Reader) -> None:
    assert site.get("/static/web.js").status == 200
    for name in ("..%2Fsite.py", "%2e%2e/site.py", "templates", "/etc/passwd", "web.js%00"):
        assert site.get(f"/static/{name}").status == 404, name


def test_a_token_of_the_users_own_is_not_repeated() -> None:
    assert make_access("a-token-of-my-own").is_token("a-token-of-my-own")
    for bad in ("short", "with blank in the middle", "x" * 300):
        with pytest.raises(SettingError) as caught:
            make_access(bad)
        assert bad not in str(caught.value) + str(caught.value.detail) + str(caught.value.hint)
