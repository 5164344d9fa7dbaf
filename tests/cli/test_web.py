"""``walproof web`` from the command line: what cannot be served is said, and Ctrl-C leaves nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NoReturn

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.command import start, walproof
from walproof.cli import bounded_http
from walproof.cli.app import app
from walproof.cli.web_serve import Site
from walproof.errors import SettingError
from walproof.facts.watch_recorder import HistoryLimits, HistoryRecorder


def link(errors: Path) -> str:
    until_s = time.monotonic() + 60
    while True:
        found = re.search(r"http://\S+\?token=\S+", errors.read_text())
        if found is not None:
            return found[0]
        assert time.monotonic() < until_s, errors.read_text()
        time.sleep(0.05)


def test_an_empty_folder_teaches_and_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    errors = tmp_path / "err"
    process = start(["web", "--address", "127.0.0.1:0"], tmp_path, errors)
    try:
        url = link(errors)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        text = opener.open(url, timeout=20).read().decode()
        for said in ("Three doors", "walproof advise --demo", "walproof run durability --quick"):
            assert said in text
        assert "Lines to paste" in opener.open(re.sub(r"/\?.*", "/demo/advice.html", url)).read().decode()
        assert not (tmp_path / "walproof-out").exists()
        with socket.create_connection(("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]))) as hanging:
            hanging.sendall(b"GET / HTTP/1.1\r\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        with pytest.raises(urllib.error.URLError):
            opener.open(url, timeout=5)
    finally:
        process.kill()
        process.wait()


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = walproof("web", "--address", f"127.0.0.1:{port}", cwd=tmp_path)
    assert done.returncode == 2
    assert "Address already in use" in done.stderr
    assert "takes a free port" in done.stderr
    done = walproof("web", "--out", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert 'folder "nowhere" holds no results' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """Else strangers use up the files that this process may open."""
    monkeypatch.setattr(bounded_http, "PATIENCE_S", 0.3)
    with (
        Site("127.0.0.1:0", [], None, None) as site,
        socket.create_connection(("127.0.0.1", site.port), timeout=30) as idle,
    ):
        idle.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            assert idle.recv(1) == b""


def test_what_is_served_is_what_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are those of --out where no folder is named. tests/web has what the pages then show."""
    monkeypatch.chdir(tmp_path)
    for name in ("WALPROOF_OUT", "WALPROOF_STORE"):
        monkeypatch.delenv(name, raising=False)
    recordings, history = tmp_path / "recordings", tmp_path / "watch.sqlite"
    recordings.mkdir()
    with HistoryRecorder(history, HistoryLimits(), 1.0, "1"):
        pass
    served: list[tuple[object, ...]] = []

    def noted(_address: str, names: tuple[str, ...], *_: object, **given: object) -> Site:
        served.append((names, given["recordings"], given["history"]))
        raise typer.Exit

    monkeypatch.setattr("walproof.cli.web_serve.Site", noted)
    words = ("--recordings", str(recordings), "--history", str(history), "--name", "db.example")
    for typed in ((), words):
        done = CliRunner().invoke(app, ["web", *typed])
        assert done.exit_code == 0, done.output
    assert served == [((), Path("walproof-out"), None), (("db.example",), recordings, history)]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "127.0.0.1:0", "localhost:0"])
def test_the_page_answers_under_the_link_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Nothing is bound: tests listen on loopback alone."""
    monkeypatch.setattr("walproof.cli.web_serve.socket.gethostname", lambda: "Db-1")
    site = Site(address, [], None, None)
    with socket.socket() as site._socket:
        host = urllib.parse.urlsplit(site.url).netloc
    assert site._access.is_host(host), host


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("8432", "expected HOST:PORT"),
        (":8432", "expected HOST:PORT"),
        ("127.0.0.1:99999", "expected HOST:PORT"),
        ("192.0.2.1:0", "could not listen on 192.0.2.1:0"),
        ("no.such.host.invalid:0", "could not listen on no.such.host.invalid:0"),
    ],
)
def test_an_address_that_is_none_is_said(address: str, said: str) -> None:
    with pytest.raises(SettingError) as caught, Site(address, [], None, None):
        pass
    assert said in caught.value.message
    assert caught.value.hint is not None


def test_a_token_that_is_none_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_WEB_TOKEN", "hunter2")
    with pytest.raises(SettingError) as caught:
        Site("127.0.0.1:0", [], None, None)
    assert "hunter2" not in f"{caught.value.message} {caught.value.detail} {caught.value.hint}"


@pytest.mark.parametrize("has_room", [True, False])
def test_without_a_browser_the_page_is_served_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_room: bool
) -> None:
    """So it is without room for the file that leads a browser to it."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("webbrowser.open", lambda _url: False)
    if not has_room:
        monkeypatch.setattr("walproof.cli.web_serve.write_whole", full)
    with Site("127.0.0.1:0", [], None, None) as site:
        site.announce(open_=True)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(site.url, timeout=20) as answer:
            assert answer.status == 200
    said = capsys.readouterr().err
    assert "warning: no browser could be opened: open the link by hand" in said


def test_the_browsers_command_line_has_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine may read it; the file that it names they may not."""
    opened: list[str] = []

    def open_(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", open_)
    with Site("127.0.0.1:0", [], None, None) as site:
        site.announce(open_=True)
        (address,) = opened
        assert site._access.token not in address
        page = Path(urllib.parse.urlsplit(address).path)
        assert (page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert f'content="0;url={site.url}"' in page.read_text()
    assert not page.parent.exists()
