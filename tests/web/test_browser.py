"""The page in headless Chromium: it complains of nothing, is live, and fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.watching import Server, clock, view
from tests.web.conftest import AT, named, watched
from tests.web.devtools import Tab
from tests.web.kept import NAME
from tests.web.reading import Reader
from walproof.cli.web_serve import Site, shelf_of
from walproof.web.live.board import Board

LIVE = "/live/server?" + urlencode({"name": "db1:5432", "minutes": 10})
STICKS_OUT = """[...document.querySelectorAll("main *, header *")].filter(e => {
  if (e.closest("svg") && e.tagName !== "svg") return false;
  if (e.closest(".table, .drawing svg, pre, .quiet, .skip")) return false;
  return e.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
}).map(e => e.outerHTML.slice(0, 80))"""
SCALED = """[...document.querySelectorAll(".drawing svg")].filter(e =>
  innerWidth <= 640 && e.getBoundingClientRect().width < e.viewBox.baseVal.width - 1
).map(e => e.outerHTML.slice(0, 80))"""
"""Charts whose text is smaller than it was drawn, on a phone."""
UNNAMED = """[...document.querySelectorAll("a, button, input, select, svg, nav, table")].filter(e => {
  if (e.type === "hidden") return false;
  const label = e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim()
    || (e.labels && e.labels.length) || e.closest("[aria-hidden]");
  return !label;
}).map(e => e.outerHTML.slice(0, 120))"""
"""Elements without a name for a screen reader."""
STOPS = """[...document.querySelectorAll("[tabindex='0']")].filter(e =>
  !e.getAttribute("role") || !e.getAttribute("aria-label")
).map(e => e.outerHTML.slice(0, 120))"""
"""What the keyboard comes to because it can be scrolled, and which has no name."""
HIDDEN = """Object.defineProperty(document, "hidden", {{value: {}, configurable: true}});
document.dispatchEvent(new Event("visibilitychange"))"""
"""Whether the tab is one that nobody sees."""


@pytest.fixture(scope="module")
def tab(browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with Tab(browser, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def shown(site: Reader, path: str) -> str:
    return f"http://{site.host}:{site.port}{path}{'&' if '?' in path else '?'}token={site.token}"


def test_every_page_opens_fits_and_names_its_parts(
    tab: Tab, site: Reader, stored: tuple[Path, list[str]]
) -> None:
    run = stored[1]
    paths = (
        "/", "/runs", f"/runs/{run[0]}", f"/runs/{run[-1]}/progress", f"/compare?run={run[0]}&run={run[1]}",
        "/trend?study=durability", "/recordings", "/live", LIVE, f"{LIVE}&at={AT + 20}", "/tunings",
        "/history", "/history/server?" + urlencode({"name": NAME, "seconds": 604800}), "/demo/advice.html",
        "/none",
    )  # fmt: skip
    for path in paths:
        tab.open(shown(site, path), width=1200)
        assert "token" not in tab.ask("location.href"), path
        expected = 1 if path == "/none" else 0  # Chromium notes every 404
        assert len(tab.complaints) == expected, (path, tab.complaints)
        assert tab.ask("document.querySelectorAll('main').length") == 1, path
        assert tab.ask("document.querySelectorAll('h1').length") == 1, path
        assert tab.ask("document.documentElement.lang") == "en"
        assert tab.ask(UNNAMED) == [], path
        assert tab.ask(STOPS) == [], path
        ids = tab.ask("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)), path
        for width in (1200, 390):
            tab.resize(width)
            assert tab.ask(STICKS_OUT) == [], (path, width)
            assert tab.ask("document.documentElement.scrollWidth") == width, path
            assert tab.ask(SCALED) == [], (path, width)


def test_back_and_forward_lead_to_what_was_seen_and_it_is_live_again(tab: Tab, site: Reader) -> None:
    tab.open(shown(site, "/live"))
    live = "document.getElementById('connection')?.textContent === 'live'"
    tab.wait_for(live)
    tab.leave("document.querySelector('.card a').click()")
    tab.wait_for(f"location.pathname === '/live/server' && {live}")
    tab.leave("history.back()")
    tab.wait_for(f"location.pathname === '/live' && {live}")
    tab.leave("history.forward()")
    tab.wait_for(f"location.pathname === '/live/server' && {live}")
    assert tab.ask("document.querySelector('h1').textContent") == "db1:5432"


def test_the_keyboard_comes_to_the_content_first(tab: Tab, site: Reader) -> None:
    tab.open(shown(site, "/runs"))
    first = tab.ask("document.querySelector('a, button, input').getAttribute('href')")
    assert first == "#main"
    tab.ask("document.querySelector('.skip').click()")
    tab.wait_for("document.activeElement.id === 'main'")


def test_a_console_that_complains_would_be_heard(tab: Tab, site: Reader) -> None:
    tab.open(shown(site, "/"))
    tab.ask("console.error('heard')")
    tab.ask("document.body.insertAdjacentHTML('beforeend', '<img src=http://192.0.2.1/x.png>')")
    tab.wait_for("true")
    said = " ".join(tab.complaints)
    assert "heard" in said
    assert "Content Security Policy" in said


def test_a_watched_server_changes_without_a_reload_and_can_be_paused(
    tab: Tab, site: Reader, board: Board
) -> None:
    tab.open(shown(site, LIVE))
    tab.ask("window.stays = true")
    tab.wait_for("document.getElementById('connection').textContent === 'live'")
    before = tab.ask("document.getElementById('plot-clock').textContent")
    board.tell([named(view(Server(), crash=clock(33.0)), "db1:5432"), watched()[1]], AT + 200)
    tab.wait_for("document.getElementById('part-panels').textContent.includes('33 s')")
    assert tab.ask("document.getElementById('plot-clock').textContent") != before
    assert tab.ask("document.title") == "● db1:5432 - walproof"
    tab.ask("document.getElementById('pause').click()")
    board.tell([named(view(Server(), crash=clock(44.0)), "db1:5432"), watched()[1]], AT + 202)
    tab.ask("new Promise((done) => setTimeout(done, 600))")
    assert "44 s" not in tab.ask("document.getElementById('part-panels').textContent")
    assert tab.ask("document.getElementById('connection').textContent").startswith("paused at")
    tab.ask("document.getElementById('pause').click()")
    tab.wait_for("document.getElementById('part-panels').textContent.includes('44 s')")
    # Nobody sees it: it holds no connection, and catches up when it is seen again.
    tab.ask(HIDDEN.format("true"))
    board.tell([named(view(Server(), crash=clock(55.0)), "db1:5432"), watched()[1]], AT + 204)
    tab.ask("new Promise((done) => setTimeout(done, 600))")
    assert "55 s" not in tab.ask("document.getElementById('part-panels').textContent")
    tab.ask(HIDDEN.format("false"))
    tab.wait_for("document.getElementById('part-panels').textContent.includes('55 s')")
    assert tab.ask("window.stays") is True


def test_the_keyboard_stays_where_it_is_when_a_page_changes(tab: Tab, site: Reader, board: Board) -> None:
    """The focus was on the whole page again before Enter, and a table that was scrolled jumped back."""
    troubled = watched()[1]
    tab.open(shown(site, "/live"))
    tab.wait_for("document.getElementById('connection').textContent === 'live'")
    tab.ask("document.querySelectorAll('.card a')[0].focus()")
    board.tell([named(view(Server(), crash=clock(66.0)), "db1:5432"), troubled], AT + 206)
    tab.wait_for("document.querySelector('.card').textContent.includes('1 min 06 s')")
    focused = "document.activeElement.getAttribute('href')"
    assert tab.ask(focused) == "/live/server?name=db1%3A5432"
    # One that is gone takes no other's place.
    tab.ask("document.querySelectorAll('.card a')[0].textContent = 'another'")
    board.tell([named(view(Server(), crash=clock(77.0)), "db1:5432"), troubled], AT + 208)
    tab.wait_for("document.querySelector('.card').textContent.includes('1 min 17 s')")
    assert tab.ask("document.activeElement === document.body") is True

    tab.open(shown(site, LIVE))
    tab.wait_for("document.getElementById('connection').textContent === 'live'")
    tab.ask("document.querySelector('#part-head a').focus()")
    tab.ask("window.table = document.querySelector('#part-panels .table'); true")
    board.tell([named(view(Server(), crash=clock(88.0)), "db1:5432"), troubled], AT + 210)
    tab.wait_for("document.getElementById('part-panels').textContent.includes('1 min 28 s')")
    assert tab.ask("document.activeElement.textContent") == "Freeze this moment"
    assert f"at={AT + 210}" in tab.ask(focused)
    assert tab.ask("window.table === document.querySelector('#part-panels .table')") is True


def test_a_plot_that_can_be_drawn_only_later_is_drawn(tab: Tab, site: Reader, board: Board) -> None:
    """The clock is known when the stream has caught up; the page may be open before."""
    late = named(view(Server()), "late")
    board.tell([late], AT + 300)
    tab.open(shown(site, "/live/server?" + urlencode({"name": "late", "minutes": 10})))
    tab.wait_for("document.getElementById('connection').textContent === 'live'")
    assert tab.ask("document.getElementById('plot-clock')") is None
    board.tell([named(view(Server(), crash=clock(33.0)), "late")], AT + 302)
    tab.wait_for("document.getElementById('plot-clock')?.querySelector('svg') != null")


def test_a_page_that_is_gone_is_said_and_comes_back(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_WEB_TOKEN", "the-same-token-again")
    told = Board(2.0)
    told.tell(watched(), AT)
    with Site("127.0.0.1:0", [], None, told) as served:
        reader = Reader(served.url)
        tab.open(shown(reader, LIVE))
        tab.wait_for("document.getElementById('connection').textContent === 'live'")
    tab.wait_for("document.getElementById('connection').textContent.startsWith('connection lost at')")
    again = Board(2.0)
    again.tell([named(view(Server(), crash=clock(55.0)), "db1:5432")], AT + 60)
    with Site(f"127.0.0.1:{reader.port}", [], None, again):
        tab.wait_for("document.getElementById('part-panels').textContent.includes('55 s')")
        assert tab.ask("document.getElementById('connection').textContent") == "live"
        tab.open("about:blank?")


def test_a_progress_page_without_an_answer_says_when_the_last_one_came(
    tab: Tab, stored: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next morning it still said that a process carries the run out."""
    monkeypatch.setenv("WALPROOF_WEB_TOKEN", "the-same-token-again")
    out, run = stored[0], stored[1][-1]
    said = "document.getElementById('heard').textContent"
    shelf = shelf_of(out, None, must_exist=True)
    try:
        with Site("127.0.0.1:0", [], shelf, None) as served:
            reader = Reader(served.url)
            assert 'id="heard"' in reader.get("/runs").text
            tab.open(shown(reader, f"/runs/{run}/progress"))
            assert tab.ask(said) == ""
        tab.wait_for(f"{said}.startsWith('no answer now; the last one came at ')")
        with Site(f"127.0.0.1:{reader.port}", [], shelf, None):
            tab.wait_for(f"{said} === ''")
            tab.open("about:blank?")
    finally:
        shelf.close()
