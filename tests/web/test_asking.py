"""A run is asked from the page: the row is stored, the answer is shown, and nothing else is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.facts import make_facts
from tests.web.devtools import Tab
from tests.web.reading import Answer, Reader
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts import RequestKind, Run
from walproof.facts.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "walproof.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def run(store: Store) -> Run:
    facts = make_facts(2, planned=5)
    begun = store.add_run(facts.run.plan, facts.run.command, facts.run.environment, "0.1.0")
    for trial in facts.trials:
        store.add_trial(begun.id, trial)
    return begun


@pytest.fixture
def site(tmp_path: Path, run: Run) -> Iterator[Reader]:
    shelf = shelf_of(tmp_path, None, must_exist=True)
    with Site("127.0.0.1:0", [], shelf, None) as served:
        yield Reader(served.url)
    shelf.close()


def ask(site: Reader, run: Run, body: str) -> Answer:
    from_here = {"Origin": f"http://{site.host}:{site.port}"}
    return site.get(f"/runs/{run.id}/requests", from_here, method="POST", body=body)


def test_a_request_is_a_row_and_is_shown_with_its_answer(site: Reader, store: Store, run: Run) -> None:
    answer = ask(site, run, "kind=rounds&rounds=3")
    assert (answer.status, answer.headers["location"]) == (303, f"/runs/{run.id}/progress")
    (asked,) = store.requests(run.id)
    assert (asked.kind, asked.rounds, asked.answered_at) == (RequestKind.ROUNDS, 3, None)
    assert "3 more rounds: not heard yet" in site.get(f"/runs/{run.id}/progress").text
    store.answer(run.id, asked, "3 more rounds follow after the planned ones", is_granted=True)
    told = site.get(f"/runs/{run.id}/progress.json").data["html"]
    assert "3 more rounds: 3 more rounds follow after the planned ones" in told
    # Other pages have read the run before, and its trials are the same.
    most = store.run(run.id).trials_most
    assert most > run.trials_most
    for said in (told, site.get("/runs").text, site.get("/").text):
        assert f"of at most {most} trials" in said
    assert [flight["trials_most"] for flight in site.get("/api/running").data] == [most]


def test_what_no_run_would_grant_is_refused_with_a_reason(site: Reader, store: Store, run: Run) -> None:
    for body, said in (
        ("kind=rounds&rounds=0", "expected 1 to 1000"),
        ("kind=rounds&rounds=-1", "has no number of rounds"),
        ("kind=rounds&rounds=%D9%A3", "has no number of rounds"),
        ("kind=delete", "does not name anything that a run can do"),
        ("", "does not name anything that a run can do"),
        ("kind=stop" + "&" * 2000, "is longer than any"),
    ):
        answer = ask(site, run, body)
        # What can be read and is out of bounds is for the run to say.
        assert answer.status == (409 if body == "kind=rounds&rounds=0" else 400), body
        assert said in answer.text, body
    for _ in range(2):
        answer = ask(site, run, "kind=stop")
    assert answer.status == 409
    assert "was asked to stop already" in answer.text
    assert len(store.requests(run.id)) == 1
    store.finish_run(run.id)
    answer = ask(site, run, "kind=rounds&rounds=1")
    assert answer.status == 409
    assert "has ended: there is nothing left to add rounds to" in answer.text
    assert "Ask the run" not in site.get(f"/runs/{run.id}/progress").text


def test_the_form_of_a_browser_is_accepted(
    site: Reader, store: Store, run: Run, browser: str, tmp_path: Path
) -> None:
    with Tab(browser, tmp_path) as tab:
        tab.open(f"http://{site.host}:{site.port}/runs/{run.id}/progress?token={site.token}")
        tab.leave("document.querySelector('#asking form button').click()")
        tab.wait_for("document.body && document.body.textContent.includes('stop: not heard yet')")
        assert tab.ask("location.pathname") == f"/runs/{run.id}/progress"
        assert tab.complaints == []
        (asked,) = store.requests(run.id)
        store.answer(run.id, asked, "the run ends here", is_granted=True)
        store.finish_run(run.id)
        # Without a reload: the answer appears, and what can no longer be asked goes.
        tab.wait_for("document.getElementById('progress').textContent.includes('the run ends here')")
        tab.wait_for("document.getElementById('asking') === null")
        assert "stopped on request" in tab.ask("document.getElementById('progress').textContent")
