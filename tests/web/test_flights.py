"""Who runs what: whether the process of a run lives, and its trial, on the pages and for programs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from tests.report.facts import make_facts
from tests.web.reading import Reader
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts import Run
from walproof.facts.run import BegunTrial
from walproof.facts.store import Store
from walproof.report.blocks import Block
from walproof.web.listed import ListedRun
from walproof.web.several import trends

_HOLDER = """
import sys
import threading
from walproof.facts.store import Store
store = Store(sys.argv[1])
with store.claim(sys.argv[2]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "walproof.sqlite")
    yield opened
    opened.close()


def on_host(store: Store, host: str) -> Run:
    """A run of four trials so far, that one of several hosts carries out."""
    facts = make_facts(2, planned=5)
    environment = replace(facts.run.environment, facts={**facts.run.environment.facts, "host": host})
    run = store.add_run(facts.run.plan, facts.run.command, environment, "0.1.0")
    for trial in facts.trials:
        store.add_trial(run.id, trial)
    return run


@pytest.fixture
def runs(store: Store) -> list[Run]:
    return [on_host(store, host) for host in ("lab-a", "lab-b")]


@pytest.fixture
def site(tmp_path: Path, runs: list[Run]) -> Iterator[Reader]:
    shelf = shelf_of(tmp_path, None, must_exist=True)
    with Site("127.0.0.1:0", [], shelf, None) as served:
        yield Reader(served.url)
    shelf.close()


def test_a_host_and_its_trial_in_flight(site: Reader, store: Store, runs: list[Run]) -> None:
    first, second = runs
    number = store.extents()[first.id].trials + 1
    store.begin_trial(first.id, BegunTrial(number, 3, "18", "tpcb", "fsync=off", time.time() - 65))
    with store.claim(first.id), store.claim(second.id):
        said = unescape(site.get(f"/runs/{first.id}/progress").text)
        assert "A process carries it out" in said
        assert f"trial {number}, round 3, 18, tpcb, fsync=off" in said
        assert "In flight for 1 min" in said
        # Both hosts carry out the same study: each sees the other one.
        rows = said.partition("Who runs what")[2].partition("</table>")[0]
        assert rows.index("lab-a") < rows.index("lab-b")
        assert "between two trials" in rows
        told = {run["host"]: run for run in site.get("/api/running").data}
        assert told["lab-a"]["lives"]
        assert told["lab-a"]["trial"]["variant"] == "fsync=off"
        assert told["lab-b"]["trial"] is None
    listed = unescape(site.get("/runs").text)
    assert listed.count("no process of this machine") == 2
    assert "fsync=off</td>" not in listed
    parts = site.get("/runs/running.json").data
    assert "lab-a" in parts["html"]
    assert not parts["finished"]


def test_a_process_that_is_killed_is_seen_to_be_gone(
    site: Reader, store: Store, runs: list[Run], tmp_path: Path
) -> None:
    run = runs[0].id

    def lives() -> bool:
        return any(told["lives"] for told in site.get("/api/running").data if told["run"] == run)

    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path / "walproof.sqlite"), run],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "claimed\n"
        assert lives()
        holder.kill()
    assert not lives()
    said = unescape(site.get(f"/runs/{run}/progress").text)
    assert "No process of this machine carries it out" in said
    with store.claim(run) as is_ours:
        assert is_ours


def test_a_trend_is_made_once_until_there_is_another_trial(
    site: Reader, store: Store, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def counted(found: Sequence[ListedRun]) -> list[Block]:
        counts.append(len(found))
        return trends(found)

    monkeypatch.setattr("walproof.web.stored.trends", counted)
    pages = [site.get("/trend?study=durability").text for _ in range(3)]
    assert pages[0] == pages[1] == pages[2]
    assert counts == [2]
    store.finish_run(runs[0].id)
    on_host(store, "lab-c")
    assert "3 runs of durability" in site.get("/trend?study=durability").text
    assert counts == [2, 3]


def test_a_trend_that_takes_long_is_on_its_way_at_once_and_comes_by_itself(
    site: Reader, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(found: Sequence[ListedRun]) -> list[Block]:
        assert may_go_on.wait(60)
        return trends(found)

    monkeypatch.setattr("walproof.web.stored.trends", slow)
    with monkeypatch.context() as patch:
        patch.setattr("walproof.web.trend.PATIENCE_S", 0.0)
        first = site.get("/trend?study=durability")
    assert "The runs are being read" in first.text
    assert first.headers["refresh"] == "1"
    may_go_on.set()
    then = site.get("/trend?study=durability")
    assert "being read" not in then.text
    assert "refresh" not in then.headers


def test_a_trend_that_could_not_be_made_is_made_again(
    site: Reader, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("walproof.web.stored.trends", lambda _: 1 / 0)
        assert site.get("/trend?study=durability").status == 500
    assert site.get("/trend?study=durability").status == 200


def test_a_run_that_has_ended_is_not_among_them(site: Reader, store: Store, runs: list[Run]) -> None:
    for run in runs:
        store.finish_run(run.id)
    assert site.get("/api/running").data == []
    assert "Who runs what" not in site.get("/runs").text
    assert "carries it out" not in site.get(f"/runs/{runs[0].id}/progress").text
