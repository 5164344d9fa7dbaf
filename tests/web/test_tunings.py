"""Tunings on the page: the race while it goes on, and the whole report when it is over, from facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.tune.table import tuned
from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, SIZE, peaked, plan_of, synthetic
from tests.report.tuned import asked_of
from tests.web.reading import Reader
from tests.web.tuned import NAME, put_tuning
from walproof.advise.tune.answer import answer
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.tuning.race import replay
from walproof.analysis.tuning.search import TuneSearch
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts.tuning import Purpose, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.report.tune.kept import KeptAnswer, keep_answer, kept_answer
from walproof.web.tunings import Tunings

FACTORS = (COMPRESSION, SIZE, DELAY)


@pytest.fixture(scope="module")
def tuning(own_judge: RecordedJudge) -> list[TuningFacts]:
    """After each of its steps."""

    def log(values: object) -> float:
        return peaked({"checkpoint_completion_target": "0.9", **values})  # type: ignore[dict-item]

    return list(
        tuned(synthetic(FACTORS, log, noise=0.03), plan_of(FACTORS, trials=90, seed=4), TuneSearch(own_judge))
    )


@contextmanager
def served(out: Path) -> Iterator[Reader]:
    shelf = shelf_of(out, None, must_exist=True)
    with Site("127.0.0.1:0", [], shelf, None, tunings=out / "tunings") as site:
        yield Reader(site.url)
    shelf.close()


def keep(out: Path, facts: TuningFacts, own_judge: RecordedJudge) -> KeptAnswer:
    kept = KeptAnswer(answer(facts, own_judge, lambda _: own_judge), asked_of(facts), "conf")
    keep_answer(out / "tunings" / NAME, kept)
    return kept


def test_a_kept_answer_is_read_as_it_was(
    tmp_path: Path, tuning: list[TuningFacts], own_judge: RecordedJudge
) -> None:
    assert kept_answer(tmp_path) is None
    (tmp_path / "tunings" / NAME).mkdir(parents=True)
    kept = keep(tmp_path, tuning[-1], own_judge)
    assert kept_answer(tmp_path / "tunings" / NAME) == kept


def test_a_finished_tuning_is_its_report(
    tmp_path: Path, tuning: list[TuningFacts], own_judge: RecordedJudge
) -> None:
    put_tuning(tmp_path, tuning[-1])
    kept = keep(tmp_path, tuning[-1], own_judge)
    with served(tmp_path) as site:
        listed = site.get("/tunings").text
        assert f'href="/tunings/{NAME}"' in listed
        assert "shop &lt;b&gt;" in listed
        said = site.get(f"/tunings/{NAME}").text
        assert site.get(f"/tunings/{NAME}/progress.json").data["finished"] is True
        assert site.get("/tunings/none").status == 404
        assert site.get("/tunings/..%2ftunings").status == 404
    for title in ("Answer", "Lines to paste", "What limits ruled out", "The race", "What limits it now"):
        assert title in said
    for line in kept.answer.lines:
        assert f"{line.line.setting} = {line.line.value}" in said
        assert line.line.verdict.value in said
    assert "<script>alert" not in said
    assert "End the tuning" not in said


def test_a_race_that_goes_on_shows_who_leads_and_who_dropped_out(
    tmp_path: Path, tuning: list[TuningFacts], own_judge: RecordedJudge
) -> None:
    number = max(
        place for place, facts in enumerate(tuning[:-1]) if facts.steps[-1].purpose is Purpose.SEARCH
    )
    facts, pending = tuning[number], tuning[number + 1].steps[-1]
    put_tuning(tmp_path, facts, pending=pending)
    keep(tmp_path, tuning[0], own_judge)
    race = replay(facts)
    raced = {
        candidate for step in facts.steps if step.purpose is Purpose.SEARCH for candidate in step.candidates
    }
    assert race.dropped & raced, "the truth is so plain that some drop out"
    with served(tmp_path) as site:
        said = site.get(f"/tunings/{NAME}/progress.json").data
        assert said["finished"] is False
        html = said["html"]
        # A newline more in the page, and the first renewal replaced every element, with the focus on it.
        assert f'/progress.json">{html}</div>' in site.get(f"/tunings/{NAME}").text
        assert f"Step {pending.number}: {pending.purpose.value}" in html
        assert "incumbent since step" in html
        assert candidate_name(race.incumbent).split(", ")[0].replace("=", " = ") in html.replace("=", " = ")
        assert html.count("dropped after step") == len(race.dropped & raced)
        assert "What limits ruled out" in html
        assert "Lines to paste" not in html, "nothing is advised before the end"
        assert "Best so far" in html
        run = f"{NAME}-{pending.number}"
        assert f'action="/runs/{run}' in html
        # More rounds are the search's to ask for.
        page = site.get(html.split('action="')[1].split('"')[0].replace("/requests", "/progress")).text
    assert "a step of a tuning has the rounds that the search asks for" in page
    assert "More rounds" not in page


def test_what_cannot_be_read_is_said(tmp_path: Path, tuning: list[TuningFacts]) -> None:
    put_tuning(tmp_path, tuning[-1])
    broken = tmp_path / "tunings" / "broken"
    broken.mkdir()
    (broken / "tuning.json").write_text("{")
    (tmp_path / "tunings" / "linked").symlink_to(tmp_path / "tunings" / NAME)
    (tmp_path / "tunings" / "empty").mkdir()
    (tmp_path / "tunings" / NAME / "answer.json").write_text("[]")
    with served(tmp_path) as site:
        listed = site.get("/tunings").text
        assert "stored journal cannot be read" in listed
        assert "linked" not in listed
        assert "/tunings/empty" not in listed
        answer_ = site.get(f"/tunings/{NAME}")
        assert answer_.status == 503
        assert "stored keptanswer cannot be read" in answer_.text.lower()


def test_two_tunings_may_be_asked_for_at_once(tmp_path: Path, tuning: list[TuningFacts]) -> None:
    """Another request keeps another tuning at any moment, here just after it was seen that this one is."""
    put_tuning(tmp_path, tuning[0])
    shelf = shelf_of(tmp_path, None, must_exist=True)
    tunings = Tunings(tmp_path / "tunings", shelf)

    class Replaced(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            tunings._kept = {}
            return super().__contains__(name)

        def get(self, name: str, default: Any = None) -> Any:
            tunings._kept = {}
            return super().get(name, default)

    try:
        first = tunings.course(NAME)
        assert first is not None
        tunings._kept = Replaced(tunings._kept)
        assert tunings.course(NAME) is first
    finally:
        shelf.close()
