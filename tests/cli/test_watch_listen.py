"""Metrics over HTTP, which anybody may ask for."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack

import pytest

from tests.watching import Server, clock, view
from walproof.cli import bounded_http
from walproof.cli.watch_listen import Listener
from walproof.errors import SettingError


def test_the_newest_look_is_served_beside_connections_that_ask_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_http, "MOST", 20)
    with Listener("127.0.0.1:0") as listener, ExitStack() as open_:
        listener.tell([view(Server(), crash=clock(20.0))])
        for number in range(60):
            idle = socket.create_connection(("127.0.0.1", listener.port), timeout=30)
            open_.enter_context(idle).sendall(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n" if number % 2 else b""
            )
        address = f"http://127.0.0.1:{listener.port}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "walproof_up{" in answer.read().decode()


@pytest.mark.parametrize(
    "header", ["Accept: \xff", "Accept-Encoding: \xff", "Accept: application/openmetrics-text; version=new"]
)
def test_headers_that_cannot_be_read_change_nothing(header: str, caplog: pytest.LogCaptureFixture) -> None:
    """What the HTTP server logs would stand in the page of the watch."""
    asked = f"GET /metrics HTTP/1.0\r\nHost: x\r\n{header}\r\n\r\n".encode("latin-1")
    with (
        Listener("127.0.0.1:0") as listener,
        socket.create_connection(("127.0.0.1", listener.port), timeout=30) as scraper,
    ):
        listener.tell([view(Server())])
        scraper.sendall(asked)
        with scraper.makefile("rb") as stream:
            answer = stream.read()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"walproof_up{" in answer
    assert not caplog.records


def test_a_request_without_its_rest_is_not_waited_for_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as open_, Listener("127.0.0.1:0") as listener:
        listener.tell([view(Server())])
        half = open_.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=30))
        half.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        # What was sent first has been read when this is answered.
        urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=30).close()
    assert not caplog.records


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(SettingError, match="Address already in use") as caught,
            Listener(f"127.0.0.1:{port}"),
        ):
            pass
    assert "--listen 127.0.0.1:0 takes a free port" in str(caught.value.hint)
