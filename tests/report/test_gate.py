"""A gate in a report, in JUnit XML, in a forge's summary; and the statuses that it leaves with."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer

from tests.analysis.facts import DEFAULT, fail, make_plan, make_trials, make_workload
from tests.analysis.slices import start, taking_turns, toggled_plan
from tests.report.facts import durability
from walproof.advise.gate import not_measured, say_answer, say_help
from walproof.analysis.gate import Outcome, judge
from walproof.cli import gate as gate_cli
from walproof.cli.gate import Undecided, conclude
from walproof.cli.status import ExitStatus
from walproof.errors import AnalysisError, DiskError, ReportError, StudyError
from walproof.facts import Gate, Variant
from walproof.facts.gate import parse_promises
from walproof.report.figures.figure import Figure
from walproof.report.figures.promises import promise_ratios
from walproof.report.figures.ratios import RatioData
from walproof.report.gate import summary
from walproof.report.html import to_html
from walproof.report.junit import to_junit
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view

NASTY = 'a<b & "c" | `d` \x1b[31m\x00'
TRUTH = {Outcome.HOLDS: 1.0, Outcome.BROKEN: 0.5, Outcome.UNDECIDED: 0.97}


@cache
def view(outcome: Outcome, name: str = "other") -> ReportView:
    plan = make_plan((DEFAULT, Variant(name, {})))
    plan = replace(plan, rounds=16, gate=Gate(parse_promises(["tps < 0.97x"])))
    trials = make_trials(
        plan, 16, lambda cell: 100.0 * (1.0 if cell.variant == "default" else TRUTH[outcome]), noise=0.01
    )
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)
    assert found.gate is not None
    assert found.gate.outcome is outcome
    return found


@dataclass(frozen=True)
class Given:
    fail_if: list[str] | None = None
    undecided: Undecided = Undecided.fail
    junit: Path | None = None
    summary: Path | None = None


@pytest.mark.parametrize(
    ("outcome", "undecided", "status"),
    [
        (Outcome.HOLDS, Undecided.fail, ExitStatus.DONE),
        (Outcome.HOLDS, Undecided.ok, ExitStatus.DONE),
        (Outcome.BROKEN, Undecided.fail, ExitStatus.BROKEN),
        (Outcome.BROKEN, Undecided.ok, ExitStatus.BROKEN),
        (Outcome.UNDECIDED, Undecided.fail, ExitStatus.UNDECIDED),
        (Outcome.UNDECIDED, Undecided.ok, ExitStatus.DONE),
    ],
)
def test_three_outcomes_and_their_statuses(
    outcome: Outcome, undecided: Undecided, status: ExitStatus
) -> None:
    left = ExitStatus.DONE
    try:
        conclude(view(outcome), Given(undecided=undecided))
    except typer.Exit as exit_:
        left = ExitStatus(exit_.exit_code)
    assert left is status
    conclude(None, Given())


def failed_view(*promises: str) -> ReportView:
    """All trials of the change failed."""
    plan = make_plan((DEFAULT, Variant("other", {})))
    plan = replace(plan, rounds=2, gate=Gate(parse_promises(promises)))
    trials = make_trials(plan, 2, lambda cell: 100.0)
    trials = fail(trials, lambda trial: trial.variant == "other", "syntax error\nLINE 1")
    return build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)


@pytest.mark.parametrize("undecided", Undecided)
def test_a_gate_whose_trials_failed_is_an_error_whatever_undecided_says(
    undecided: Undecided, tmp_path: Path
) -> None:
    given = Given(undecided=undecided, junit=tmp_path / "gate.xml")
    with pytest.raises(AnalysisError) as caught:
        conclude(failed_view("tps < 0.97x"), given)
    assert caught.value.message == "the gate could not be measured: 2 of 2 trials of other failed"
    assert caught.value.detail == "tps < 0.97x for other: syntax error\nLINE 1"
    assert caught.value.hint == "Mend what made it fail, and repeat the command."
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (root.get("errors"), root.get("skipped")) == ("1", "0")
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert "2 of 2 trials of other failed: syntax error" in (error.get("message") or "")


def test_what_is_shown_to_be_broken_stays_broken_where_other_trials_failed() -> None:
    plan = make_plan((DEFAULT, Variant("slow", {}), Variant("other", {})))
    plan = replace(plan, rounds=4, gate=Gate(parse_promises(["tps < 0.97x"])))
    trials = make_trials(plan, 4, lambda cell: 50.0 if cell.variant == "slow" else 100.0, noise=0.001)
    trials = fail(trials, lambda trial: trial.variant == "other")
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)
    with pytest.raises(typer.Exit) as caught:
        conclude(found, Given())
    assert caught.value.exit_code == ExitStatus.BROKEN
    root = ElementTree.fromstring(to_junit(found, undecided_ok=True))
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("1", "1", "0")


def test_a_change_that_fails_now_and_then_does_not_hold(tmp_path: Path) -> None:
    plan = make_plan((DEFAULT, Variant("other", {})))
    plan = replace(plan, rounds=8, gate=Gate(parse_promises(["tps < 0.5x"])))
    trials = make_trials(plan, 8, lambda cell: 100.0, noise=0.001)
    other = fail(trials, lambda trial: trial.variant == "other" and trial.round == 2, "division by zero")
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), other)
    assert found.gate is not None
    assert found.gate.outcome is Outcome.UNDECIDED
    said = "1 of its 8 trials failed, and none of what it is compared with: division by zero"
    assert found.gate.judged[0].reason == said
    for undecided in Undecided:
        with pytest.raises(AnalysisError) as caught:
            conclude(found, Given(undecided=undecided, junit=tmp_path / "gate.xml"))
        assert caught.value.message.endswith("1 of 8 trials of other failed")
        assert "division by zero" in (tmp_path / "gate.xml").read_text()
    assert said in summary(found)
    # A machine that fails both sides says nothing of the change.
    both = fail(trials, lambda trial: trial.round == 2)
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), both)
    assert found.gate is not None
    assert found.gate.outcome is Outcome.HOLDS


@pytest.mark.parametrize("baseline_rounds", [{1}, {2}, {2, 4, 6}])
def test_failures_of_the_baseline_hide_no_more_failures_of_the_change(baseline_rounds: set[int]) -> None:
    """One failed trial of the baseline let a change hold that had failed in most rounds."""
    plan = make_plan((DEFAULT, Variant("other", {})))
    plan = replace(plan, rounds=16, gate=Gate(parse_promises(["tps < 0.5x"])))
    failing = {"other": set(range(2, 17, 2)), "default": baseline_rounds}
    trials = make_trials(plan, 16, lambda cell: 100.0, noise=0.001)
    trials = fail(trials, lambda trial: trial.round in failing[trial.variant], "division by zero")
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)
    assert found.gate is not None
    assert found.gate.outcome is Outcome.UNDECIDED
    said = (
        f"8 of its 16 trials failed, and {len(baseline_rounds)} of what it is compared with; it failed alone"
    )
    alone = len(failing["other"] - baseline_rounds)
    assert found.gate.judged[0].reason == f"{said} in {alone} rounds: division by zero"
    with pytest.raises(AnalysisError):
        conclude(found, Given())


@pytest.mark.parametrize("undecided", Undecided)
@pytest.mark.parametrize(
    ("having", "why"),
    [
        ((), "no trial has wal_fpi_per_txn"),
        (("default",), "no trial of what is judged has wal_fpi_per_txn"),
        (("other",), "no trial of what it is compared with has wal_fpi_per_txn"),
    ],
)
def test_a_metric_that_nobody_measured_is_an_error_whatever_undecided_says(
    undecided: Undecided, having: tuple[str, ...], why: str
) -> None:
    """As without the probe that measures it, or on a version that does not have it."""
    plan = make_plan((DEFAULT, Variant("other", {})))
    plan = replace(plan, rounds=4, gate=Gate(parse_promises(["wal_fpi_per_txn > 1.05x"])))
    trials = [
        replace(trial, metrics={**trial.metrics, "wal_fpi_per_txn": 2.0})
        if trial.variant in having
        else trial
        for trial in make_trials(plan, 4, lambda cell: 100.0)
    ]
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)
    with pytest.raises(AnalysisError) as caught:
        conclude(found, Given(undecided=undecided))
    assert caught.value.message == (
        "the gate could not be measured: no round has wal_fpi_per_txn on both sides"
    )
    assert caught.value.detail == f"wal_fpi_per_txn > 1.05x for other: no round has both values; {why}"
    assert "docs/metrics.md" in (caught.value.hint or "")
    root = ElementTree.fromstring(to_junit(found, undecided_ok=undecided is Undecided.ok))
    assert (root.get("errors"), root.get("skipped")) == ("1", "0")
    (line,) = [line for line in found.what_would_help if line.startswith("The gate")]
    assert line.startswith("The gate: no round has wal_fpi_per_txn on both sides. docs/metrics.md ")


def test_a_run_that_ended_before_its_first_look_is_undecided() -> None:
    plan = view(Outcome.HOLDS).run.plan
    found = judge(plan, (), is_finished=True)
    assert found is not None
    assert not_measured(plan, found, ()) is None


def test_a_gate_says_that_nothing_but_chance_can_differ() -> None:
    plan = replace(view(Outcome.HOLDS).run.plan, same=("other",))
    trials = make_trials(plan, 16, lambda cell: 100.0, noise=0.01)
    found = judge(plan, trials, is_finished=True)
    assert found is not None
    said = "other and default differ in nothing that acts: a difference is chance."
    assert say_answer(plan, found)[1:] == (said,)


def test_a_start_that_failed_is_of_both_sides() -> None:
    plan = toggled_plan("default", "other")
    plan = replace(plan, gate=Gate(parse_promises(["tps < 0.97x"])))
    starts = fail([start(plan, number, random.Random(1)) for number in (1, 2)], lambda _: True)
    found = judge(plan, starts, is_finished=True)
    assert found is not None
    error = not_measured(plan, found, starts)
    assert error is not None
    assert error.message.endswith("2 of 2 starts of other and 2 of 2 starts of default failed")


@pytest.mark.parametrize("outcome", Outcome)
def test_every_form_of_the_report_has_the_gate_first(outcome: Outcome) -> None:
    found = view(outcome)
    assert found.sections[0].title == "The gate"
    assert found.answers[0].title == "The gate"
    # A page with its figures takes a second; one is enough.
    page = [to_html(found)] if outcome is Outcome.BROKEN else []
    for text in (to_markdown(found), summary(found), *page):
        assert outcome.value in text
        assert "tps &lt; 0.97x" in text or "tps \\< 0.97x" in text
    helps = [line for line in found.what_would_help if line.startswith("The gate")]
    assert len(helps) == (outcome is Outcome.UNDECIDED)


def test_help_is_a_command_that_can_be_typed() -> None:
    """Rounds were the bound, so both bounds are named; of WAL, what makes it vary less."""
    (line,) = [
        sentence for sentence in view(Outcome.UNDECIDED).what_would_help if sentence.startswith("The gate")
    ]
    assert re.search(r"--rounds \d+ --budget \d+min will probably|no number of rounds", line)
    seen = view(Outcome.UNDECIDED)
    plan = replace(seen.run.plan, gate=Gate(parse_promises(["wal_bytes_per_txn > 1.02x"])))
    trials = [
        replace(trial, metrics={"wal_bytes_per_txn": 5000 + 500 * (trial.number % 3)})
        for trial in seen.trials
    ]
    found = judge(plan, trials, is_finished=True)
    assert found is not None
    assert found.outcome is Outcome.UNDECIDED
    assert "--transactions" in " ".join(say_help(plan, found, trials))


@pytest.mark.parametrize("promise", ["tps < 0.97x", "wal_bytes_per_txn > 1.02x"])
def test_help_after_one_round_is_a_budget_with_room_for_more(promise: str) -> None:
    """One round says nothing about the spread: neither that rounds would not do, nor which metric would."""
    plan = make_plan((DEFAULT, Variant("other", {})))
    plan = replace(plan, rounds=200, budget_s=20.0, gate=Gate(parse_promises([promise])))
    trials = make_trials(plan, 1, lambda cell: 100.0, metric=promise.split()[0])
    found = judge(plan, trials, is_finished=True)
    assert found is not None
    help_ = say_help(plan, found, trials)
    assert help_[0] == (
        "The gate: one round says nothing about the spread; --budget 2min has room for 4 rounds."
    )
    assert "vary least" not in " ".join(help_)
    assert say_answer(plan, found)[0] == "It is undecided after 1 round."


def test_help_after_failures_is_what_failed() -> None:
    (line,) = [line for line in failed_view("tps < 0.97x").what_would_help if line.startswith("The gate")]
    assert line.startswith("The gate: first mend what failed. 2 of 2 trials of other failed: syntax error")


def test_bytes_are_not_proposed_where_the_promise_is_of_bytes() -> None:
    for metric, is_proposed in (("tps", True), ("wal_bytes_per_txn", False)):
        plan = make_plan((DEFAULT, Variant("other", {})))
        plan = replace(plan, rounds=4, gate=Gate(parse_promises([f"{metric} < 1x"])))
        trials = make_trials(plan, 4, lambda cell: 100.0, noise=1.0, metric=metric)
        found = judge(plan, trials, is_finished=True)
        assert found is not None
        # The ratio lies at the limit: no number of rounds decides it.
        judged = tuple(replace(item, ratio=item.promise.limit) for item in found.judged)
        said = say_help(plan, replace(found, judged=judged), trials)[0]
        assert "no number of rounds" in said
        assert ("WAL bytes vary least" in said) is is_proposed


def test_a_figure_has_each_ratio_beside_its_limit() -> None:
    found = view(Outcome.BROKEN)
    gate = found.gate
    assert gate is not None
    data = promise_ratios(found.run.plan, found.trials, gate)
    assert data is not None
    (panel,) = data.panels
    assert (panel.title, panel.limit) == ("fails if tps < 0.97x", 0.97)
    (row,) = panel.rows
    assert (row.label, row.interval) == ("other", gate.judged[0].interval)
    assert [point.round for point in row.points] == list(range(1, gate.done + 1))
    assert row.text.endswith(", broken")
    assert data.low < 0.5 < 0.97 < data.high
    assert [block.id for block in found.sections[0].blocks if isinstance(block, Figure)] == ["gate"]
    assert [figure.id for figure in found.overview] == ["ratios"], "of the variants, with their classes"


def test_versions_of_a_load_are_named_in_the_figure_and_it_is_the_first_one() -> None:
    plan = make_plan((DEFAULT,), (make_workload("before"), make_workload("after")))
    plan = replace(plan, gate=Gate(parse_promises(["tps < 0.97x"]), "before"))
    plan, trials = taking_turns(plan, ("before", "after"), -0.5)
    found = build_view(replace(durability().run, plan=plan, finished_at=1.8e9), trials)
    assert found.gate is not None
    assert found.gate.outcome is Outcome.BROKEN
    (figure,) = found.overview
    assert isinstance(figure.data, RatioData)
    assert figure.data.axis == "relative to before (x)"
    assert [row.label for panel in figure.data.panels for row in panel.rows] == ["after"]
    assert len(figure.data.panels[0].rows[0].points) == found.gate.done
    none = promise_ratios(plan, (), replace(found.gate, judged=(), done=0))
    assert none is None


def test_a_report_without_promises_has_no_gate() -> None:
    facts = durability()
    found = build_view(facts.run, facts.trials, facts.series)
    assert found.gate is None
    assert "gate" not in [section.id for section in found.sections]


@pytest.mark.parametrize("undecided_ok", [False, True])
@pytest.mark.parametrize("outcome", Outcome)
def test_junit_has_a_case_for_each_promise_and_counts_that_agree(
    outcome: Outcome, undecided_ok: bool
) -> None:
    root = ElementTree.fromstring(to_junit(view(outcome), undecided_ok=undecided_ok))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["fails if tps < 0.97x"]
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counted = len(suite.findall(f"testcase/{tag}"))
        assert suite.get(attribute) == root.get(attribute) == str(counted)
    expected = {
        Outcome.HOLDS: "system-out",
        Outcome.BROKEN: "failure",
        Outcome.UNDECIDED: "skipped" if undecided_ok else "error",
    }[outcome]
    assert cases[0].find(expected) is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp") or "")


def test_no_name_makes_markup() -> None:
    """Variants are named by their settings' values, which may be anything."""
    found = view(Outcome.UNDECIDED, NASTY)
    root = ElementTree.fromstring(to_junit(found, undecided_ok=False))
    (case,) = root.findall("testsuite/testcase")
    assert 'a<b & "c"' in (case.get("classname") or "")
    assert "\x1b" not in summary(found)
    assert "a\\<b" in summary(found)


def test_files_are_written_and_a_summary_is_added_to(tmp_path: Path) -> None:
    forge = tmp_path / "summary.md"
    forge.write_text("before\n")
    given = Given(["tps < 0.97x"], junit=tmp_path / "gate.xml", summary=forge)
    gate_cli.check(given)
    with pytest.raises(typer.Exit):
        conclude(view(Outcome.BROKEN), given)
    assert forge.read_text().startswith("before\n# walproof: the gate is broken\n")
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == "1"


def test_a_file_that_cannot_be_written_is_refused_before_the_first_trial(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="does not exist"):
        gate_cli.check(Given(["tps < 0.97x"], junit=tmp_path / "absent" / "gate.xml"))
    with pytest.raises(ReportError, match="is a folder"):
        gate_cli.check(Given(["tps < 0.97x"], summary=tmp_path))
    with pytest.raises(StudyError, match="there is none"):
        gate_cli.check(Given(junit=tmp_path / "gate.xml"))


def test_a_file_that_may_not_be_written_is_refused_before_the_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that root has left, or in a folder that nobody else may look into."""
    with pytest.raises(DiskError, match="could not look at"):
        gate_cli.check(Given(["tps < 0.97x"], junit=tmp_path / ("x" * 300)))
    monkeypatch.setattr("walproof.cli.gate.os.access", lambda *_: False)
    for given in (
        Given(["tps < 0.97x"], junit=tmp_path / "a"),
        Given(["tps < 0.97x"], summary=tmp_path / "b"),
    ):
        with pytest.raises(ReportError, match="may not be written"):
            gate_cli.check(given)


def test_one_file_that_could_not_be_written_keeps_no_other_from_it(tmp_path: Path) -> None:
    """Nor the outcome of ten minutes from whoever reads the error."""
    given = Given(["tps < 0.97x"], junit=tmp_path, summary=tmp_path / "summary.md")
    with pytest.raises(ReportError, match="could not write") as caught:
        conclude(view(Outcome.BROKEN), given)
    assert caught.value.detail == "The gate is broken."
    assert (tmp_path / "summary.md").read_text().startswith("# walproof: the gate is broken\n")
