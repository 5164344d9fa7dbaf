"""The kept history on the page: any stretch of it, its worst moments, its gaps, and the same as a file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.facts.test_watch_history import recorder
from tests.watching import BEGAN
from tests.web.kept import HOURS, NAME, OUTAGE, PEAK, RATE, UNWATCHED, keep_history, record
from tests.web.reading import Reader
from walproof.cli.web_serve import Site
from walproof.web.live.past import Past
from walproof.web.live.plots import plots


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("history") / "watch.sqlite"
    keep_history(made)
    return made


@pytest.fixture(scope="module")
def site(path: Path) -> Iterator[Reader]:
    with Site("127.0.0.1:0", [], None, None, history=path) as served:
        yield Reader(served.url)


def test_a_long_stretch_keeps_its_peak_its_rates_and_its_gaps(path: Path) -> None:
    past = Past(path)
    (server,) = past.servers()
    moments = past.span(server, server.first_at, server.last_at)
    assert 100 < len(moments) <= 300
    assert max(moment.warm or 0.0 for moment in moments) == 90.0
    rates = [moment.wal_bytes_per_s for moment in moments if moment.wal_bytes_per_s is not None]
    assert rates
    assert rates == pytest.approx([RATE] * len(rates), rel=1e-6)
    caused = [sum(dict(moment.causes).values()) for moment in moments if moment.causes]
    assert caused == pytest.approx([RATE] * len(caused), rel=0.01)
    drawn = {plot.id: plot for plot in plots(moments, server.first_at, server.last_at)}
    assert set(drawn) >= {"clock", "wal", "pg_wal", "archive"}
    hidden = [
        (drawn["clock"].at[place], drawn["clock"].at[place + 1]) for place in sorted(drawn["clock"].breaks)
    ]
    for begin, end in (OUTAGE, UNWATCHED):
        middle = BEGAN + 3600 * (begin + end) / 2
        assert any(left <= middle <= right for left, right in hidden), (begin, end)
    assert not any(right < BEGAN + 3600 * 39 for _, right in hidden), "nothing is hidden before the outage"
    # Over more than a day an hour is not enough.
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", drawn["clock"].x_labels[0])


def test_the_age_of_what_a_standby_has_is_read_from_the_records_before(path: Path) -> None:
    """It stands still at the beginning of the history."""
    past = Past(path)
    (server,) = past.servers()

    def ages(since: float, until: float) -> list[tuple[float, float | None]]:
        moments = past.span(server, since, until)
        return [(moment.at, standby.lag_s) for moment in moments for standby in moment.standbys]

    whole = ages(server.first_at, server.last_at)
    assert len(whole) > 100
    assert [lag_s for _, lag_s in whole] == pytest.approx([at - BEGAN for at, _ in whole])
    # Of a stretch from its middle it is the least, and at its first look not known.
    (_, first), *later = ages(BEGAN + 3600 * 10, BEGAN + 3600 * 12)
    assert first is None
    assert [lag_s for _, lag_s in later] == pytest.approx([at - BEGAN - 3600 * 10 for at, _ in later])


def test_any_stretch_can_be_asked_for(site: Reader) -> None:
    def said(**asked: object) -> str:
        answer = site.get("/history/server?" + urlencode({"name": NAME, **asked}))
        assert answer.status == 200
        assert "<i>" not in answer.text
        return answer.text

    listed = site.get("/history").text
    assert "db1 &#34;&lt;i&gt;&#34;" in listed
    whole = said(since=BEGAN, until=BEGAN + 3600 * HOURS)
    assert "A crash now would take" in whole or "does not answer" in whole
    peak = said(since=BEGAN + 3600 * (PEAK - 1), until=BEGAN + 3600 * (PEAK + 1))
    assert "▲ Warning" in peak
    assert "A crash now would take &lt;b&gt;90 s" in peak
    down = said(since=BEGAN + 3600 * 40.5, until=BEGAN + 3600 * 41)
    assert "It did not answer" in down
    assert "Nothing was kept for that time" in said(since=BEGAN + 3600 * 53, until=BEGAN + 3600 * 54)
    # What a field for date and time sends, and what is no time at all.
    local = time.strftime("%Y-%m-%dT%H:%M", time.localtime(BEGAN + 3600 * (PEAK - 1)))
    assert "A crash now would take" in said(since=local, until=BEGAN + 3600 * (PEAK + 1))
    for nonsense in ("nan", "inf", "1e999", "x", "-1", "99999-01-01"):
        said(since=nonsense, until=nonsense)
    said(seconds=7 * 86400)
    said(seconds="1e9")
    assert site.get("/history/server?name=other").status == 404


def test_a_server_has_the_colour_of_its_last_record(tmp_path: Path) -> None:
    path = tmp_path / "watch.sqlite"
    with recorder(path) as kept:
        kept.add([("down", record(OUTAGE[0] - 1)), ("poor", record(0.0)), ("fine", record(PEAK))])
        kept.add([("down", record(OUTAGE[0])), ("poor", record(PEAK)), ("fine", record(PEAK + 1))])
    assert {server.name: server.severity for server in Past(path).servers()} == {
        "down": 2, "poor": 1, "fine": 0,
    }  # fmt: skip
    with Site("127.0.0.1:0", [], None, None, history=path) as served:
        text = Reader(served.url).get("/history").text
    for name, severity, word in (("down", 2, "critical"), ("poor", 1, "warning"), ("fine", 0, "fine")):
        card = next(card for card in text.split("<article")[1:] if f">{name}</a>" in card)
        assert f'class="card s{severity}"' in card
        assert word in card.partition("</article>")[0].partition("</h2>")[2]


def test_a_stretch_is_saved_as_a_file_that_needs_nothing(site: Reader) -> None:
    asked = urlencode({"name": NAME, "since": BEGAN, "until": BEGAN + 3600 * HOURS})
    answer = site.get(f"/history/file?{asked}")
    assert answer.headers["content-disposition"].startswith('attachment; filename="walproof-db1')
    assert "<script" not in answer.text
    assert not re.search(r'(?:src|href)="(?!data:|#)', answer.text)
    assert "Crash recovery, if it crashed then" in answer.text
    at = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC[+-]\d\d:\d\d"
    assert re.search(f"{at} to {at}, from a kept history", answer.text)
    assert re.search(r"where walproof runs, UTC[+-]\d\d:\d\d", answer.text)


def test_a_history_that_grows_is_seen_and_one_that_is_gone_is_said(tmp_path: Path) -> None:
    path = tmp_path / "watch.sqlite"
    with recorder(path) as kept, Site("127.0.0.1:0", [], None, None, history=path) as served:
        site = Reader(served.url)
        assert "It holds no record yet" in site.get("/history").text
        kept.add([("db1", record(0.0))])
        kept.flush()
        assert "1 record<" in site.get("/history").text
        for name in tmp_path.iterdir():
            name.unlink()
        assert site.get("/history").status == 503
        assert "does not exist" in site.get("/history").text
