"""Watched servers over HTTP: pages, the stream, frozen moments; and the history behind them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.watching import Server, clock, size_curve, view
from tests.web.conftest import AT, unanswering, watched
from tests.web.reading import Reader
from walproof.advise.watch.concern import Concern, Severity
from walproof.cli.web_serve import WatchedSite
from walproof.facts.wal_causes import RmgrWal, WalCauses
from walproof.facts.watch import Span, SyncForecast
from walproof.report.watch.panels import Panel
from walproof.units import format_bytes, format_duration, parse_bytes
from walproof.web.live.board import LOOKS_MOST, MINUTES_MOST, Board, ServerMoments
from walproof.web.live.moment import IMAGES, Moment, merged, moment_of
from walproof.web.live.plot import Plot, PlotLine, ceiling, zone
from walproof.web.live.plots import plots
from walproof.web.live.sizes import SizePicture
from walproof.web.pages import templates

TROUBLED = 'db2 "<i>" #2'


def address(path: str, **asked: object) -> str:
    return f"{path}?{urlencode(asked)}"


def test_a_band_that_is_cut_off_says_how_far_it_goes() -> None:
    def plot(high: float) -> Plot:
        line = PlotLine("now", 1, (4.0, 4.1), low=(0.2, 0.2), high=(high, 4.5))
        return Plot("p", "P", "A band.", 0, 10, (0.0, 10.0), frozenset(), (line,), format_duration,
                    is_seconds=True)  # fmt: skip

    assert plot(16.0).top == 5.0
    assert plot(16.0).caption == "A band. It continues above the plot, to 16 s."
    assert plot(5.0).caption == "A band."
    assert "range at the end 200 ms to 4.5 s" in plot(5.0).describe()


def test_each_server_has_a_card_and_a_page(site: Reader) -> None:
    text = unescape(site.get("/live").text)
    assert "db1:5432" in text
    assert "● fine" in text
    assert "✖ critical" in text
    page = site.get(address("/live/server", name=TROUBLED, minutes=10))
    assert page.status == 200
    assert "<i>" not in page.text
    assert "<b>&" not in page.text.replace("<b>&#", "")
    said = unescape(page.text)
    assert "if it crashed now" in said
    assert "Crash recovery takes" in said or "crash recovery" in said.lower()
    for plot in ("plot-clock", "plot-pg_wal", "plot-archive", "plot-standbys", "plot-wal"):
        assert f'id="{plot}"' in page.text, plot
    assert site.get(address("/live/server", name="none")).status == 404
    assert len(site.get("/api/live").data) == 2


def test_the_what_if_curve_has_todays_point_and_the_advised_one(site: Reader) -> None:
    asked = {"name": "db1:5432", "minutes": 10}
    for path in ("/live/server", "/live/file"):
        said = unescape(site.get(address(path, **asked)).text)
        assert "Now, with 1 GB: 33.0 GB/h, simulated for steady operation. Advised: " in said
        assert "Advised: max_wal_size = 4GB: 12.0 GB/h" in said
        assert "(11.2 GB/h to 13.0 GB/h), and a crash recovery at most 1 min 04 s; how sure: high" in said
        assert "132 GB of WAL with a gap" in said
        assert (
            "27,950 of about 310,000 pages that it touched were followed, a standard error of 0.8 %" in said
        )
        assert said.count('class="dot ') == 6
        assert '<th scope="row">4 GB</th><td><b>advised</b></td>' in said
    (told, _) = site.get("/api/live").data
    assert told["sizes"]["present_mb"] == 1024
    assert told["sizes"]["advised"]["max_wal_size_mb"] == 4096


def test_every_rate_of_the_curve_is_of_an_hour() -> None:
    picture = SizePicture(size_curve())
    assert picture.y_labels == ("100 GB/h", "50.0 GB/h", "0")
    (first, *_) = picture.rows
    assert (first.wal, first.span) == ("81.0 GB/h", "75.3 GB/h to 87.5 GB/h")


def test_what_was_written_stands_beside_what_is_simulated() -> None:
    whole = replace(size_curve(), gaps=0)
    assert "(written in these 4 h 00 min: 33.0 GB/h)" in SizePicture(whole).sentence
    # What was not seen is in no rate.
    assert "written in these" not in SizePicture(size_curve()).sentence


def test_an_advised_timeout_has_a_row_of_its_own() -> None:
    curve = size_curve()
    assert curve.advised is not None
    other = replace(curve.advised, checkpoint_timeout_s=1800, wal_bytes_per_hour=7.0 * (1 << 30))
    changes = (*curve.changes, ("checkpoint_timeout", "30min"))
    picture = SizePicture(replace(curve, advised=other, changes=changes))
    (row,) = (row for row in picture.rows if row.mark == "advised")
    assert (row.size, row.wal) == ("4 GB, checkpoint_timeout = 30 min 00 s", "7.00 GB/h")
    assert f"max_wal_size = 4GB, checkpoint_timeout = 30min: {row.wal}" in picture.sentence
    assert "with checkpoint_timeout = 5 min 00 s as now where a row names no other" in picture.caption
    # The dot of the advice is beside the curve's own.
    assert picture.svg().count('class="dot ') == 7
    assert picture.svg().count("advised: 7.00 GB/h") == 1
    assert "no other" not in SizePicture(curve).caption


def test_the_crash_plot_says_which_line_leaves_the_sync_out() -> None:
    def note(*syncs: bool) -> str:
        moments = [
            Moment(AT + place, 1.0, True, "", 0, warm=1.0, syncs=is_known)
            for place, is_known in enumerate(syncs)
        ]
        return next(plot.note for plot in plots(moments, AT, AT + 10) if plot.id == "clock")

    assert "is not included if the machine were lost." in note(True, True)
    assert "is not included." in note(False, False)
    assert "if the machine were lost, and before it was known." in note(False, True)
    span = Span(1.0, 0.5, 2.0)
    known = replace(clock(5.0), sync=SyncForecast(span, "fsync", 100, None, is_seen=True))
    assert moment_of(view(Server(), crash=known), AT, 1.0, ()).syncs
    assert not moment_of(view(Server(), crash=clock(5.0)), AT, 1.0, ()).syncs


def test_without_a_curve_the_page_says_what_it_takes(board: Board) -> None:
    moment = moment_of(replace(watched()[0], sizes=None), AT, 2.0, ())
    text = templates().get_template("server_sizes.html.j2").render(sizes=None)
    assert moment.streams
    assert "16 MB" in text
    standby = view(Server())
    look = standby.seen.look
    assert look is not None
    followed = replace(standby, seen=replace(standby.seen, look=replace(look, is_in_recovery=True)))
    assert not moment_of(followed, AT, 2.0, ()).streams


def test_servers_are_watched_whatever_is_wrong_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the store may be the one that is down."""
    monkeypatch.setenv("WALPROOF_OUT", str(tmp_path))
    monkeypatch.setenv("WALPROOF_STORE", "postgresql://127.0.0.1:1/facts")
    with WatchedSite("127.0.0.1:0", [], 2.0) as watching:
        watching.tell(watched())
        reader = Reader(watching.url)
        first = reader.get("/")
        assert first.status == 200
        assert "db1:5432" in first.text
        assert "No runs are shown: store postgresql (" in first.text
        assert reader.get("/runs").status == 503
        assert reader.get(address("/live/server", name="db1:5432")).status == 200


@contextmanager
def streamed(site: Reader, **asked: object) -> Iterator[Callable[[], dict[str, dict[str, str]]]]:
    """What the stream says next, each time that it is called."""
    connection = HTTPConnection(site.host, site.port, timeout=20)
    try:
        headers = {"Authorization": f"Bearer {site.token}"}
        connection.request("GET", address("/live/events", **asked), headers=headers)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")

        def message() -> dict[str, dict[str, str]]:
            while True:
                line = answer.readline().decode()
                if line.startswith("data: "):
                    found: dict[str, dict[str, str]] = json.loads(line.removeprefix("data: "))
                    return found

        yield message
    finally:
        connection.close()


def test_the_stream_sends_what_has_changed(site: Reader, board: Board) -> None:
    with streamed(site, name="db1:5432", minutes=10) as message:
        first = message()
        assert {"part-head", "part-concerns", "part-panels", "plot-clock"} <= set(first["parts"])
        assert set(first["ids"]) == set(first["parts"])
        calm, troubled = watched()
        board.tell([unanswering(calm), troubled], AT + 62)
        second = message()
        assert "does not answer" in second["parts"]["part-concerns"]
        assert "part-head" in second["parts"]
        assert "plot-clock" in second["ids"]
        # What is read out changes with the concerns, not with their figures.
        assert second["parts"]["part-said"].startswith("The server does not answer.")
        board.tell([calm, troubled], AT + 64)
        third = message()
        # Nothing was seen for a while: that shows.
        assert 'class="gap"' in third["parts"]["plot-clock"]


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/live", {}), ("/live/server", {"name": "db1:5432", "minutes": 10})],
    ids=["all servers", "a server"],
)
def test_what_the_stream_sends_first_is_what_the_page_holds(
    site: Reader, path: str, asked: dict[str, object]
) -> None:
    """A newline more in the page, and the first message replaced every element: the focus was lost."""
    page = site.get(address(path, **asked)).text
    with streamed(site, **asked) as message:
        for name, html in message()["parts"].items():
            assert re.search(rf'id="{name}"[^>]*>{re.escape(html)}</', page), name


def test_a_moment_is_frozen_as_a_link_and_a_file(site: Reader) -> None:
    at = AT + 20
    page = site.get(address("/live/server", name=TROUBLED, minutes=10, at=at))
    assert "Frozen at" in page.text
    assert "data-events" not in page.text
    file = site.get(address("/live/file", name=TROUBLED, minutes=10, at=at))
    assert re.fullmatch(r'attachment; filename="walproof-[\w.-]+\.html"', file.headers["content-disposition"])
    for part in ("<script", "/static/", 'http-equiv="refresh"', "data-events"):
        assert part not in file.text, part
    assert "default-src 'none'" in file.text
    assert "plot-clock" in file.text
    for wrong in ("0", "nan", "inf", "x", str(AT + 1e6)):
        assert site.get(address("/live/server", name=TROUBLED, at=wrong)).status == 404, wrong


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AT is 10:15 there."""
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_a_saved_moment_has_one_time_zone_and_names_it(site: Reader) -> None:
    """In a ticket nobody knows where walproof ran, nor on which day."""
    file = site.get(address("/live/file", name=TROUBLED, minutes=10, at=AT + 20)).text
    assert "Frozen at 2026-09-21 10:15 UTC-04:00, with the 10 minutes before it." in file
    assert "where walproof runs, UTC-04:00." in file
    assert not re.search(r" UTC(?![+-])", file)
    assert "Since 2026-09-21 10:1" in file
    assert "where walproof runs, UTC-04:00." in site.get(address("/live/server", name=TROUBLED)).text
    assert zone(AT, AT + 90 * 86400) == "UTC-04:00, then UTC-05:00"


@pytest.mark.usefixtures("new_york")
def test_an_axis_that_crosses_midnight_has_dates_at_its_ends() -> None:
    """Both ends of 24 hours had the same words."""

    def labels(seconds: float) -> tuple[str, ...]:
        return Plot("p", "P", "", AT, AT + seconds, (), frozenset(), (), str).x_labels

    assert labels(3600) == ("10:15:00", "10:30:00", "10:45:00", "11:00:00", "11:15:00")
    assert labels(86400) == ("2026-09-21 10:15", "16:15:00", "22:15:00", "04:15:00", "2026-09-22 10:15")


def moment(at: float, **changes: object) -> Moment:
    made = Moment(at, 2.0, True, "PostgreSQL 18.4, primary", 0, warm=10.0, wal_bytes_per_s=1e6)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.usefixtures("new_york")
def test_a_mark_of_a_checkpoint_has_its_date() -> None:
    """A file for a ticket is read on another day."""
    (crash, *_) = plots((moment(AT, checkpoint_at=AT - 5),), AT - 60, AT)
    assert crash.marks == ((AT - 5, "checkpoint began 2026-09-21 10:14:55"),)


def test_a_day_is_kept_in_bounds_and_hides_no_gap_and_no_peak() -> None:
    history = ServerMoments()
    for look in range(3 * 43_200):
        at = 2.0 * look
        history.add(moment(at, warm=500.0 if look == 100_000 else 10.0, answers=look != 110_000))
    until = 2.0 * (3 * 43_200 - 1)
    day = history.span(until - 86_400, until, 10_000)
    assert len(day) <= LOOKS_MOST + MINUTES_MOST
    assert day[0].at - (until - 86_400) < 120
    assert [moment.at for moment in day] == sorted({moment.at for moment in day})
    for most in (10_000, 300, 20):
        seen = history.span(until - 86_400, until, most)
        assert len(seen) <= most + 1
        assert max(moment.warm or 0.0 for moment in seen) == 500.0
        assert sum(not moment.answers for moment in seen) == 1
    assert history.at(until - 86_400 * 2) is None
    recent = history.at(until - 1)
    assert recent is not None
    assert recent.at == until - 2
    # A look that is kept no longer is answered by its own minute, which ended later.
    old = history.at(until - 80_000)
    assert old is not None
    assert old.at // 60 == (until - 80_000) // 60
    assert old.at > until - 80_000
    assert history.began is not None
    first = history.at(history.began - 30)
    assert first is not None
    assert first.at == history.began
    # A look that is still kept is shown itself, also where it ended a minute.
    ended = history.at(until // 60 * 60 - 2)
    assert ended is not None
    assert ended.covers_s == 2.0


def test_a_minute_says_what_its_worst_look_said() -> None:
    full = Concern("pg_wal full", Severity.CRITICAL, "pg_wal is full in 4 min.", ())
    calm = moment(0.0)
    worst = moment(2.0, severity=2, concerns=(full,), panels=(Panel("pg_wal", "1.00 GB", is_bad=True),))
    kept = merged([calm, worst, moment(4.0)])
    assert (kept.at, kept.severity, kept.concerns, kept.panels) == (4.0, 2, (full,), worst.panels)
    away = moment(4.0, answers=False, severity=2, gone="connection refused")
    kept = merged([worst, away, moment(6.0)])
    assert (kept.answers, kept.gone, kept.panels) == (False, "connection refused", ())


def causes(**totals: tuple[int, int]) -> WalCauses:
    found = {name: RmgrWal(1 + count, count, images, 1) for name, (count, images) in totals.items()}
    return WalCauses(60.0, 0.0, 0.0, 0.0, (), found)


def test_what_does_not_change_is_kept_once() -> None:
    board = Board(2.0)
    for number in range(2):
        board.tell(watched(), AT + 2 * number)
    name = board.servers()[1].name
    first, second = board.span(name, AT, AT + 2, 10)
    assert first.concerns
    assert first.panels
    assert second == replace(first, at=AT + 2, causes=second.causes)
    assert second.concerns is first.concerns
    assert all(now is then for now, then in zip(second.panels, first.panels, strict=True))
    board.tell([unanswering(watched()[1])], AT + 4)
    gone = board.servers()[1].moment
    assert not gone.answers
    assert not gone.panels


def test_wal_by_cause_is_what_was_written_since_the_look_before() -> None:
    board = Board(2.0)
    calm = view(Server(), crash=clock(5.0))
    for at, found in ((0.0, causes(Heap=(0, 0))), (2.0, causes(Heap=(4000, 8000), Btree=(200, 0)))):
        board.tell([replace(calm, causes=found)], at)
    now = board.server("db1")
    assert now is not None
    assert dict(now.moment.causes) == {IMAGES: 4000.0, "Heap": 2000.0, "Btree": 100.0}
    # Another stream counts from the beginning: no rate is made of that.
    board.tell([replace(calm, causes=causes(Heap=(10, 0)))], 4.0)
    now = board.server("db1")
    assert now is not None
    assert now.moment.causes == ()


def test_a_plot_breaks_where_nothing_was_seen() -> None:
    seen = [moment(0.0), moment(2.0), moment(4.0, answers=False), moment(100.0), moment(102.0)]
    (drawn,) = [plot for plot in plots(seen, 0.0, 102.0) if plot.id == "clock"]
    assert drawn.breaks == {1, 2}
    svg = str(drawn.svg())
    assert svg.count('class="line c1"') == 2
    assert "2 gaps" in drawn.describe()


def test_a_limit_far_away_does_not_flatten_the_plot() -> None:
    def drawn(limit: float) -> Plot:
        lines = (PlotLine("x", 1, (1.0, 2.0)), PlotLine("limit", 2, (limit, limit), is_limit=True))
        return Plot("x", "x", "", 0.0, 1.0, (0.0, 1.0), frozenset(), lines, lambda value: f"{value:g}")

    assert drawn(4.0).top >= 4.0
    assert drawn(400.0).top == 2.0
    assert ("limit", 2, "400 (above the plot)", True) in drawn(400.0).legend


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0, 7.0, 59.0, 61.0, 3601.0, 1e5, 1023.0, 1025.0, 3e9, 7e14])
def test_an_axis_ends_at_a_round_number_above_all(most: float) -> None:
    for is_seconds, is_bytes in ((False, False), (True, False), (False, True)):
        top = ceiling(most, is_seconds=is_seconds, is_bytes=is_bytes)
        assert most <= top <= max(2.0, 3 * most)
    assert "." not in format_bytes(round(ceiling(3e9, is_bytes=True))).rstrip(" GB").replace(".00", "")


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0, 3.0, 5.0, 60.0, 999.0, 1001.0, 1025.0, 3e6, 1.06e9, 7e14])
def test_the_middle_of_an_axis_is_half_of_its_top(most: float) -> None:
    """The middle of an idle server's axis was 0 B/s, that of five segments 2."""
    top = ceiling(most, is_bytes=True)
    assert parse_bytes(format_bytes(top)) == 2 * parse_bytes(format_bytes(top / 2)) == top
    count = ceiling(most)
    assert count % 2 == 0


def test_the_axes_of_an_idle_server_have_a_middle() -> None:
    seen = [moment(at, waiting=5, wal_bytes_per_s=0.0, pg_wal_bytes=0) for at in (0.0, 2.0)]
    labels = {plot.id: plot.y_labels for plot in plots(seen, 0.0, 2.0)}
    assert labels["archive"] == ("10", "5", "0")
    assert labels["wal"] == ("2 B/s", "1 B/s", "0")
    assert labels["pg_wal"] == ("2 B", "1 B", "0")


def test_what_is_kept_of_a_look_says_what_the_terminal_says() -> None:
    calm = view(Server(), crash=clock(20.0))
    kept = moment_of(calm, 5.0, 2.0, ())
    assert kept.answers
    assert kept.warm == 20.0
    assert kept.panels[0].figure.startswith("20 s")
    assert kept.standbys[0].name == "a"
    lost = moment_of(unanswering(calm), 5.0, 2.0, ())
    assert not lost.answers
    assert lost.gone == "connection refused"
