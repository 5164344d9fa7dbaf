"""What a tuning that advises nothing may say, and what it may not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.tune.recorded import NOTHING, judge
from tests.analysis.tuning.synthetic import plan_of
from tests.report.tuned import FACTORS, asked_of
from tests.schemas import assert_valid
from walproof.advise.tune.answer import answer
from walproof.advise.tune.conclusion import Conclusion, conclude
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.lines import LineVerdict, outcome
from walproof.analysis.tuning.search import TuneSearch
from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Objective,
    Purpose,
    RuledOut,
    Step,
    TrialAnswer,
    TuningFacts,
)
from walproof.platforms.registry import platform
from walproof.report.numbers import ratio
from walproof.report.tune.json import to_json
from walproof.report.tune.names import gained, verdict_words
from walproof.report.tune.page import to_html
from walproof.report.tune.pasted import line_words, unproven_text
from walproof.report.tune.view import tune_view

THROUGHPUT = Objective("tps", True)


def _confirmed(conf: Candidate, values: Sequence[float], objective: Objective = THROUGHPUT) -> TuningFacts:
    """A recording, and a confirmation of four rounds: the defaults have 1000 in each, ``conf`` these."""
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.CONFIRM, (DEFAULT, conf), 4, 2))
    measured = [TrialAnswer(1, 1, DEFAULT, 1000.0, seconds=20.0)]
    for number, value in enumerate(values, 1):
        measured += [
            TrialAnswer(2, number, DEFAULT, 1000.0, seconds=20.0),
            TrialAnswer(2, number, conf, value, seconds=20.0),
        ]
    plan = plan_of(FACTORS, trials=10, seed=1, objective=objective)
    return TuningFacts(plan, steps, tuple(measured), 180.0, 20.0)


@pytest.mark.parametrize(
    ("gain", "noise", "conclusion", "why"),
    [
        (1.02, 0.1, Conclusion.UNDECIDED, "the budget ended before"),
        (0.99, 0.1, Conclusion.DEFAULTS, "on fresh servers the"),
        (0.99, 0.5, Conclusion.UNDECIDED, "the rounds on fresh servers are too few"),
    ],
)
def test_a_budget_that_ends_after_the_confirmation_says_what_is_lacking(
    own_judge: RecordedJudge, gain: float, noise: float, conclusion: Conclusion, why: str
) -> None:
    """Four noisy rounds of a configuration that measured a little better, or worse."""
    conf = Candidate.of({"commit_delay": "100"})
    values = [1000.0 * gain * math.exp(noise * (-1) ** number) for number in range(1, 5)]
    facts = _confirmed(conf, values)
    found = answer(facts, own_judge, lambda _: own_judge)
    assert found.conf == DEFAULT
    assert found.why_default is not None
    assert found.why_default.startswith(why)
    assert found.conclusion is conclusion


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "Not decided: the budget had no room to try anything else; nothing is advised."),
        ({"0": 1000.0, "100": 1850.0}, "Not decided: "),
        ({"0": 1000.0, "100": None}, "Not decided: nothing that was tried could be measured"),
    ],
)
def test_a_screen_does_not_say_that_the_defaults_are_best(
    own_judge: RecordedJudge, values: dict[str, float | None], words: str
) -> None:
    """The budget ends after the recording, or after one round of one other configuration."""
    steps = [Step(1, Purpose.RECORD, (DEFAULT,), 1, 1)]
    measured = [TrialAnswer(1, 1, DEFAULT, 1000.0, seconds=20.0)]
    confs = [DEFAULT if delay == "0" else Candidate.of({"commit_delay": delay}) for delay in values]
    if confs:
        steps.append(Step(2, Purpose.SCREEN, tuple(confs), 1, 2))
        measured += [
            TrialAnswer(2, 1, conf, value, seconds=20.0)
            for conf, value in zip(confs, values.values(), strict=True)
        ]
    facts = TuningFacts(plan_of(FACTORS, trials=3, seed=1), tuple(steps), tuple(measured), 60.0, 20.0)
    found = answer(facts, own_judge, lambda _: own_judge)
    told = tune_view(facts, found, asked_of(facts), platform("conf"))
    assert told.summary[0].startswith(words)
    data = json.loads(to_json(told))
    assert_valid("tune", data)
    assert (data["conclusion"], data["defaults_are_best"]) == ("not decided", False)
    assert told.pasted.lines is None


def test_crashes_that_cannot_show_a_setting_need_no_more_rounds(own_judge: RecordedJudge) -> None:
    conf = Candidate.of({"max_wal_size": "4GB"})
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.SCREEN, (DEFAULT, conf), 1, 2))
    measured = (
        TrialAnswer(1, 1, DEFAULT, 0.4, seconds=20.0),
        TrialAnswer(2, 1, DEFAULT, 0.4, seconds=20.0),
        TrialAnswer(2, 1, conf, 2.1, seconds=20.0),
    )
    plan = plan_of(FACTORS, trials=3, seed=1, objective=Objective("recovery_s", False))
    found = answer(TuningFacts(plan, steps, measured, 60.0, 20.0), own_judge, lambda _: own_judge)
    assert found.conclusion is Conclusion.UNDECIDED
    assert found.why_default is not None
    assert "too soon after a checkpoint to show what max_wal_size gives" in found.why_default


def test_where_not_even_the_defaults_keep_the_promises_nothing_is_run(tmp_path: Path) -> None:
    """The defaults' max_wal_size is 1 GB, and no smaller one may be tried."""
    strict = judge(tmp_path, replace(NOTHING, wal_disk_bytes=20 << 20))
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),)
    measured = (TrialAnswer(1, 1, DEFAULT, 1000.0, seconds=20.0),)
    facts = TuningFacts(plan_of(FACTORS, trials=150, seed=1), steps, measured, 20.0, 20.0)
    assert TuneSearch(strict).ask(facts) is None
    found = answer(facts, strict, lambda _: strict)
    assert found.conclusion is Conclusion.NONE_KEEPS
    told = tune_view(facts, found, asked_of(facts), platform("conf"))
    assert told.summary[0] == (
        "No configuration that was looked at keeps the promises, not even the defaults: "
        "WAL disk 1.00 GB, allowed 13.3 MB."
    )
    assert "defaults are best" not in " ".join(told.summary)
    page = to_html(tune_view(facts, found, replace(asked_of(facts), limits=()), platform("conf")))
    assert "not measured: nothing is advised, and the defaults break a promise." in page
    assert "Not measured: no step ran the defaults under load on fresh starts." in page
    assert json.loads(to_json(told))["defaults_are_best"] is False


def test_the_limit_of_the_second_metric_is_said_with_its_share(tmp_path: Path) -> None:
    """Neither the defaults nor what was measured beside them keep the promise."""
    strict = judge(tmp_path, replace(NOTHING, wal_disk_bytes=20 << 20))
    conf = Candidate.of({"commit_delay": "100"})
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.SCREEN, (DEFAULT, conf), 1, 2))
    measured = (
        TrialAnswer(1, 1, DEFAULT, 1000.0, seconds=20.0),
        TrialAnswer(2, 1, DEFAULT, 1000.0, seconds=20.0),
        TrialAnswer(2, 1, conf, 1500.0, seconds=20.0),
    )
    plan = plan_of(FACTORS, trials=3, seed=1, objective=Objective("tps", True, ("latency_ms_p99", 1.1)))
    found = answer(TuningFacts(plan, steps, measured, 60.0, 20.0), strict, lambda _: strict)
    assert found.why_default is not None
    assert found.why_default.endswith(
        "none was measured within the limit of --no-worse (latency_ms_p99 at most 1.1 of the defaults')"
    )


def test_lines_that_were_not_tried_by_themselves_are_named_first(own_judge: RecordedJudge) -> None:
    """The budget ended before the lines were left out one at a time: two lines confirmed together."""
    conf = Candidate.of({"commit_delay": "100", "wal_compression": "lz4"})
    values = [1300.0 + number for number in range(1, 5)]
    facts = _confirmed(conf, values)
    found = answer(facts, own_judge, lambda _: own_judge)
    told = tune_view(facts, found, asked_of(facts), platform("conf"))
    assert told.summary[0].startswith("2 lines, none of them PROVEN by itself: throughput 1.3")
    assert told.conf_text.splitlines()[2] == "# lines: none of them PROVEN by itself"
    first, second = found.lines
    proven = replace(first, line=replace(first.line, verdict=LineVerdict.KEPT))
    for lines, words in (
        ((proven, second), "2 lines, of which wal_compression is NOT PROVEN by itself: "),
        ((proven, replace(proven, line=replace(second.line, verdict=LineVerdict.SAFETY))), "2 lines: "),
    ):
        told = tune_view(facts, replace(found, lines=lines), asked_of(facts), platform("conf"))
        assert told.summary[0].startswith(words)
    assert "# lines:" not in told.conf_text


def test_a_line_that_gains_but_is_in_no_conf_is_not_called_kept(own_judge: RecordedJudge) -> None:
    facts = _confirmed(Candidate.of({"commit_delay": "100"}), [1300.0 + number for number in range(1, 5)])
    found = answer(facts, own_judge, lambda _: own_judge)
    (costs,) = found.lines
    line = replace(costs.line, verdict=LineVerdict.KEPT, in_conf=True)
    assert verdict_words(line) == "kept"
    assert verdict_words(replace(line, in_conf=False)) == "proven, but out"
    open_ = Interval(0.97, 1.17, 0.95, "t")
    assert verdict_words(replace(line, in_conf=False, interval=open_)) == "not confirmed, out"
    # Of a line that stays the final rounds are said, too, beside what proved it.
    worse = Interval(0.95, 0.99, 0.95, "t")
    for shown, words in ((open_, "kept, not confirmed"), (worse, "kept, but worse in the final rounds")):
        late = replace(line, gain=0.98, interval=shown, p=0.4, in_winner=1.06)
        assert verdict_words(late) == words
        told = replace(costs, line=late)
        said = line_words(told, line.reference)[0]
        assert said.startswith(f"{words}: {ratio(0.98, shown)} with it (1.06x")
        assert "when lines were tested" in said
        text = unproven_text(replace(found, lines=(told,)))
        assert text == f"of which commit_delay is {words.upper()}"


def test_a_second_metric_that_was_not_measured_is_not_taken_for_kept(own_judge: RecordedJudge) -> None:
    facts = _confirmed(Candidate.of({"commit_delay": "100"}), [1300.0 + number for number in range(1, 5)])
    objective = replace(facts.plan.objective, limit=("recovery_s", 1.1))
    facts = replace(facts, plan=replace(facts.plan, objective=objective))
    found = answer(facts, own_judge, lambda _: own_judge)
    said = tune_view(facts, found, asked_of(facts), platform("conf")).summary
    assert (
        "recovery_s was NOT MEASURED with what is advised; allowed is at most 1.1 of the defaults'." in said
    )


def test_a_gain_that_was_not_measured_is_not_written_as_one(own_judge: RecordedJudge) -> None:
    """The tuning was stopped in the race, whose rounds seldom have the defaults in them."""
    facts = _confirmed(Candidate.of({"commit_delay": "100"}), [1300.0 + number for number in range(1, 5)])
    found = answer(facts, own_judge, lambda _: own_judge)
    stopped = replace(found, outcome=replace(found.outcome, gain=None, interval=None, rounds=0))
    told = tune_view(facts, stopped, asked_of(facts), platform("conf"))
    assert "was not compared with that of the defaults in the same rounds (the best so far" in told.summary[0]
    assert "not compared with the defaults in the same rounds (the best so far" in told.conf_text


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.29, 3.49, "1.01x (n = 2: too few to say)"),
        (1.2, 3.49, "1.20x to 3.49x"),
        (0.97, 1.05, "1.01x (0.97 to 1.05)"),
    ],
)
def test_an_interval_that_says_nothing_is_not_written_out(low: float, high: float, words: str) -> None:
    assert gained(1.01, Interval(low, high, 0.95, "t"), 2) == words


@pytest.mark.parametrize(
    ("wal", "conclusion", "words"),
    [
        (620.0, Conclusion.UNDECIDED, "max_wal_size=4GB saves, with which WAL per transaction is 62 % of"),
        (990.0, Conclusion.DEFAULTS, "on fresh servers the best configuration was not better"),
        (None, Conclusion.UNDECIDED, "the recording is shorter than a checkpoint cycle"),
    ],
)
def test_wal_that_windows_do_not_show_is_no_reason_to_call_the_defaults_best(
    wal: float | None, conclusion: Conclusion, words: str
) -> None:
    """They come soon after a checkpoint: only a simulation of whole cycles knows what its distance saves."""

    def saves(candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        had = wal if candidate.conf.get("max_wal_size") == "4GB" else 1000.0
        return CandidatePrediction(had, None, None), ()

    conf = Candidate.of({"commit_delay": "100"})
    values = [1010.0 * math.exp(0.1 * (-1) ** number) for number in range(1, 5)]
    facts = _confirmed(conf, values, Objective("wal_bytes_per_txn", False))
    found, why = conclude(facts, outcome(facts, saves), (), Space(facts.plan), saves)
    assert found is conclusion
    assert why is not None
    assert words in why


def test_what_windows_show_of_wal_stands_beside_what_is_simulated(own_judge: RecordedJudge) -> None:
    conf = Candidate.of({"commit_delay": "100"})
    values = [500.0 + number for number in range(1, 5)]
    for metric in ("wal_bytes_per_txn", "latency_ms_p99"):
        facts = _confirmed(conf, values, Objective(metric, False))
        made = answer(facts, own_judge, lambda _: own_judge)
        assert made.conf == conf
        predicted = replace(made.prediction, wal_bytes_per_txn=830.0)
        default = replace(made.default_prediction, wal_bytes_per_txn=1000.0)
        made = replace(made, prediction=predicted, default_prediction=default)
        told = tune_view(facts, made, asked_of(facts), platform("conf"))
        words = "simulated over whole cycles, the WAL per transaction is 83 % of the defaults'."
        assert (words in " ".join(told.summary)) is (metric == "wal_bytes_per_txn")
