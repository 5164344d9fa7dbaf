"""Stored runs over HTTP: what is found, shown, compared and followed."""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.report.facts import durability
from tests.web.conftest import RECORDING, STORABLE
from tests.web.reading import Reader
from walproof.cli.web_serve import shelf_of
from walproof.facts import TrialState
from walproof.facts.store import Store
from walproof.wal.recording import write_recording
from walproof.web.recordings import find_recordings
from walproof.web.stored import run_data

Stored = tuple[Path, list[str]]


def summed_up(site: Reader) -> list[dict[str, object]]:
    until_s = time.monotonic() + 60
    while True:
        found: list[dict[str, object]] = site.get("/api/runs").data
        if all(run["answers"] is not None for run in found):
            return found
        assert time.monotonic() < until_s
        time.sleep(0.1)


def test_the_list_has_question_answer_and_how_sure(site: Reader, stored: Stored) -> None:
    runs = summed_up(site)
    assert {run["run"] for run in runs} == set(stored[1])
    text = unescape(site.get("/runs").text)
    assert "What does each durability setting buy on this machine?" in text
    assert "the throughput of default, and may lose last commits." in text
    assert "widest interval ±" in text
    assert "28 of at most 70 trials" in text
    assert "2 failed trials" in text


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("", 5),
        ("FSYNC wal_compression", 1),
        ("most 70", 1),
        ("last commits", 5),
        ("no such thing", 0),
        ("%27", 0),
    ],
)
def test_a_search_finds_runs_by_all_of_its_words(site: Reader, words: str, count: int) -> None:
    summed_up(site)
    found = site.get("/api/runs?" + urlencode({"q": words})).data
    if words == "last commits":
        assert 3 <= len(found) <= count
    else:
        assert len(found) == count
    page = unescape(site.get("/runs?" + urlencode({"q": words})).text)
    assert f"{len(found)} run" in page


def test_a_report_opens_in_place_and_as_a_file(site: Reader, stored: Stored) -> None:
    run = stored[1][3]
    page = site.get(f"/runs/{run}")
    assert page.status == 200
    assert '<section id="answer">' in page.text
    assert 'aria-label="Pages"' in page.text
    assert page.text.count("<main") == 1
    file = site.get(f"/runs/{run}/report.html")
    assert file.headers["content-disposition"] == f'attachment; filename="{run}.html"'
    assert 'http-equiv="Content-Security-Policy"' in file.text
    assert "<script" not in file.text
    assert "/static/" not in file.text
    data = site.get(f"/runs/{run}/report.json").data
    assert data == site.get(f"/api/runs/{run}").data
    opening = data["answer"]["next_commands"][-1]["command"]
    assert opening == f"walproof report {run} --open --out {stored[0]}"
    for missing in ("/runs/none", "/runs/none/report.html", f"/runs/{run}/report.exe", "/runs/none/progress"):
        assert site.get(missing).status == 404, missing
    for missing in ("/api/runs/absent", "/api/absent"):
        told = site.get(missing)
        assert told.status == 404
        assert told.data["error"]["message"] == "there is no such page"


def test_several_runs_are_in_one_plot_with_their_classes(site: Reader, stored: Stored) -> None:
    chosen = urlencode([("run", name) for name in (*stored[1][:2], "none")])
    text = unescape(site.get(f"/compare?{chosen}").text)
    assert "<h1>Several runs in one plot</h1>" in text
    assert text.count('<svg class="chart"') == 1
    description = re.search(r"<desc[^>]*>([^<]*)</desc>", text)
    assert description is not None
    assert "in 2 runs" in description[1]
    assert "fsync=off (may corrupt)" in description[1]
    assert "◆ fsync=off" in text
    assert "Choose two runs or more" in site.get(f"/compare?run={stored[1][0]}").text


def test_a_trend_has_a_mark_a_run(site: Reader, stored: Stored) -> None:
    text = unescape(site.get("/trend?study=durability").text)
    found = re.search(r"throughput / default \(x\) over (\d+) runs", text)
    assert found is not None
    assert int(found[1]) >= 2
    assert "needs two runs" in site.get("/trend?study=none").text


def test_a_run_that_goes_on_is_followed(site: Reader, stored: Stored) -> None:
    run = stored[1][-1]
    before = site.get(f"/runs/{run}/progress.json").data
    assert not before["finished"]
    # A newline more in the page, and the first renewal replaced every element, with the focus on it.
    assert f'/progress.json">{before["html"]}</div>' in site.get(f"/runs/{run}/progress").text
    assert "28 of at most 70 trials" in before["html"]
    assert "How well is each ratio known" in before["html"]
    assert "could not map anonymous shared memory" in before["html"]
    store = Store(stored[0] / "walproof.sqlite")
    last = store.trials(run)[-1]
    from dataclasses import replace

    store.add_trial(run, replace(last, number=last.number + 1, round=3, state=TrialState.FAILED, metrics={},
                                 reason="the disk is full"))  # fmt: skip
    store.close()
    after = site.get(f"/runs/{run}/progress.json").data["html"]
    assert "29 of at most 70 trials" in after
    assert "failed: the disk is full" in after
    assert "29 of at most 70 trials" in unescape(site.get("/runs").text)


def test_names_that_try_to_be_markup_are_text(site: Reader, stored: Stored) -> None:
    run = stored[1][3]
    summed_up(site)
    pages = (
        "/", "/runs", f"/runs/{run}", f"/compare?run={run}&run={stored[1][0]}", "/trend?study=durability",
        f"/runs/{run}/progress", "/runs?" + urlencode({"q": STORABLE}),
        "/trend?" + urlencode({"study": STORABLE}),
    )  # fmt: skip
    for path in pages:
        text = site.get(path).text
        assert "<script>alert" not in text, path
        assert set(re.findall(r"<script[^>]*>", text)) <= {'<script src="/static/web.js" defer>'}, path
    assert STORABLE.split(" | ")[0] in unescape(site.get("/runs").text)
    assert site.get("/" + quote(STORABLE)).status == 404


@pytest.mark.parametrize("number", ["0", "-1", "99", "x", "9" * 30, "²"])
def test_a_page_that_is_not_there_is_the_nearest(site: Reader, number: str) -> None:
    assert site.get(f"/runs?page={quote(number)}").status == 200


def test_recordings_are_listed_with_what_may_be_asked(site: Reader, stored: Stored) -> None:
    text = site.get("/recordings").text
    assert "<b>shop" not in text
    said = unescape(text)
    assert "32.0 MB of WAL, PostgreSQL 18.4, ended by: time" in said
    assert f"walproof wal whatif '{stored[0]}/recordings/<b>shop'" in said
    assert "damaged" in said
    assert said.count("<code>walproof wal stats ") == 1


def test_facts_without_wal_are_listed_with_the_one_command_that_works(site: Reader, stored: Stored) -> None:
    said = unescape(site.get("/recordings").text)
    folder = f"{stored[0]}/recordings/standby"
    assert "facts seen on the server, without its WAL, PostgreSQL 16.14." in said
    assert f"walproof advise {folder}" in said
    assert f"walproof wal stats {folder}" not in said
    assert said.count("<code>walproof advise ") == 2
    assert "other" not in {entry.folder.name for entry in find_recordings(stored[0])}


def test_a_folder_that_may_not_be_entered_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may enter all, so the refusal is made here."""
    closed, shop = tmp_path / "lost+found", tmp_path / "shop"
    closed.mkdir()
    shop.mkdir()
    write_recording(shop, RECORDING)
    stat = os.stat

    def refusing(path: Any, *rest: Any, **named: Any) -> os.stat_result:
        if f"{closed}/" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *rest, **named)

    monkeypatch.setattr(os, "stat", refusing)
    with pytest.raises(PermissionError):
        (closed / "x").stat()
    assert [entry.folder for entry in find_recordings(tmp_path)] == [shop]


def test_an_answer_is_never_older_than_the_run_it_stands_beside(tmp_path: Path) -> None:
    facts = durability()
    with closing(Store(tmp_path / "walproof.sqlite")) as store:
        run = store.add_run(facts.run.plan, (), facts.run.environment, "0.2.0")
        shelf = shelf_of(tmp_path, None, must_exist=True)
        for trials, more in ((1, facts.trials[:1]), (len(facts.trials), facts.trials[1:])):
            for trial in more:
                store.add_trial(run.id, trial)
            if trials > 1:
                store.finish_run(run.id)
            (listed,) = shelf.listed()
            data = run_data(listed)
            assert data["trials"] == trials
            assert (data["answers"], data["how_sure"], data["problem"]) == (None, None, None)
            summarised = shelf.summarised(run.id)
            assert summarised is not None
            (first, *_) = run_data(summarised)["how_sure"]
            assert first.startswith("The run is not finished: 1 trial" if trials == 1 else f"{trials} trials")
        shelf.close()
