"""Which lines stay, and how often that is wrong: simulations with a known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from bench.tune.table import Table, tuned
from tests.analysis.tuning import synthetic
from tests.analysis.tuning.synthetic import FACTORS, flat, plan_of
from walproof.analysis.tuning.ablation import shortest
from walproof.analysis.tuning.lines import (
    LineVerdict,
    TuningOutcome,
    concluding_facts,
    outcome,
    prediction_interval,
)
from walproof.analysis.tuning.search import TuneSearch
from walproof.facts.tuning import DEFAULT, STOPPED, Candidate, Purpose, Step, TrialAnswer, TuningFacts

WINNER = Candidate.of({"commit_delay": "100", "max_wal_size": "16GB", "wal_buffers": "64MB"})


def one_useful(values: Mapping[str, str]) -> float:
    """Of the three lines of WINNER one gives 12 %, one 6 %, one nothing."""
    return 0.12 * (values["max_wal_size"] == "16GB") + 0.06 * (values["commit_delay"] == "100")


def from_winner(table: Table, seed: int, trials: int = 150, own: Candidate | None = None) -> TuningFacts:
    """A tuning whose race is over: from the confirmation of WINNER to the end."""
    plan = plan_of(FACTORS, trials=trials, seed=seed, own=own)
    facts = TuningFacts(plan, trial_s=table.trial_s)
    search = TuneSearch(table.judge)
    for step in (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, seed),
        Step(2, Purpose.CONFIRM, (DEFAULT, WINNER), 4, 1000 + seed),
    ):
        facts = table.carry_out(facts, step)
    while (step := search.ask(facts)) is not None:  # type: ignore[assignment]
        facts = table.carry_out(facts, step)
    return facts


@pytest.fixture(scope="module")
def useful() -> list[TuningOutcome]:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    return [outcome(from_winner(table, seed), table.judge) for seed in range(60)]


def share(outcomes: list[TuningOutcome], setting: str) -> float:
    return sum(setting in result.advised.conf for result in outcomes) / len(outcomes)


def test_lines_that_do_something_stay_and_others_go(useful: list[TuningOutcome]) -> None:
    assert share(useful, "max_wal_size") >= 0.98
    assert share(useful, "commit_delay") >= 0.95
    assert share(useful, "wal_buffers") <= 0.20


def test_a_line_that_all_other_trials_speak_for_stays() -> None:
    """The chain alone says that nothing is lost without it; the guess decides whether that is believed."""
    shorter = Candidate.of({name: value for name, value in WINNER.settings if name != "commit_delay"})
    chain = Step(2, Purpose.LINES, (WINNER, shorter), 4, 1)
    chance = np.random.default_rng(1)
    measured = tuple(
        TrialAnswer(2, number, candidate, 1000 * math.exp(0.01 * chance.standard_normal()))
        for number in range(1, 5)
        for candidate in chain.candidates
    )
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), chain)
    facts = TuningFacts(plan_of(FACTORS, trials=100, seed=1), steps, measured)
    assert shortest(facts, chain, {shorter: -0.01}) == shorter
    assert shortest(facts, chain, {shorter: -0.03}) == WINNER


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_the_trials_of_the_whole_tuning_speak_for_a_line(gain: float) -> None:
    """One chain, which says that nothing is lost without a line, after 20 trials of the race."""
    shorter = Candidate.of({name: value for name, value in WINNER.settings if name != "commit_delay"})
    steps = (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),
        Step(2, Purpose.SEARCH, (DEFAULT, WINNER, shorter), 10, 1),
        Step(3, Purpose.LINES, (DEFAULT, WINNER), 1, 1),
        Step(4, Purpose.LINES, (WINNER, shorter), 4, 1),
    )
    chance = np.random.default_rng(1)
    measured = tuple(
        TrialAnswer(
            step.number,
            number,
            candidate,
            1000
            * math.exp(gain * (step.number == 2) * (candidate == WINNER) + 0.01 * chance.standard_normal()),
        )
        for step in steps[1:]
        for number in range(1, step.rounds + 1)
        for candidate in step.candidates
    )
    facts = TuningFacts(plan_of(FACTORS, trials=100, seed=1), steps, measured)
    search = TuneSearch(synthetic.synthetic(FACTORS, flat, noise=0.01).judge)
    assert search.short(facts) == (WINNER if gain else shorter)


def test_the_interval_of_a_line_holds_its_gain(useful: list[TuningOutcome]) -> None:
    truths = {"max_wal_size": 0.12, "commit_delay": 0.06, "wal_buffers": 0.0}
    held = [
        line.interval.contains(math.exp(truths[line.setting]))
        for result in useful
        for line in result.lines
        if line.interval is not None
    ]
    assert len(held) == 180
    assert sum(held) / len(held) >= 0.91


def test_a_line_that_does_nothing_is_seldom_called_proven(useful: list[TuningOutcome]) -> None:
    """At most 5 % of families: two more than that of 60 is within chance."""
    wrong = sum(
        line.verdict is LineVerdict.KEPT and line.setting == "wal_buffers"
        for result in useful
        for line in result.lines
    )
    assert wrong <= 6


def test_a_line_alone_is_measured_in_the_same_rounds(useful: list[TuningOutcome]) -> None:
    assert sum(len(result.lines) for result in useful) == 180
    for result in useful:
        assert all(line.alone is not None and len(line.rounds) >= 2 for line in result.lines)


def test_what_is_advised_is_as_fast_as_the_winner(useful: list[TuningOutcome]) -> None:
    lost = [result for result in useful if result.to_winner is not None and result.to_winner < 0.97]
    assert len(lost) <= 3


def crowded(values: Mapping[str, str]) -> float:
    """wal_buffers gives 5 % alone, and takes as much from commit_delay, which gives 10 % without it."""
    delayed, larger = values["commit_delay"] == "100", values["wal_buffers"] == "64MB"
    return 0.12 * (values["max_wal_size"] == "16GB") + 0.10 * delayed + 0.05 * (larger and not delayed)


def test_a_line_that_is_advised_has_its_gain_in_what_is_advised() -> None:
    """Within the winner commit_delay gives 5 %, in the short conf 10 %: this is what a user gives up."""
    table = synthetic.synthetic(FACTORS, crowded, noise=0.015)
    all_facts = [from_winner(table, seed, trials=200) for seed in range(40)]
    found = [outcome(facts, table.judge) for facts in all_facts]
    lines = [
        line
        for result in found
        if "wal_buffers" not in result.advised.conf
        for line in result.lines
        if line.setting == "commit_delay" and line.in_conf
    ]
    assert len(lines) >= 30
    assert all("wal_buffers" not in line.reference.conf for line in lines)
    assert all("wal_buffers" in WINNER.conf and line.in_winner is not None for line in lines)
    held = [line.interval.contains(math.exp(0.10)) for line in lines if line.interval is not None]
    assert len(held) == len(lines)
    assert sum(held) >= 0.88 * len(held)
    within = [math.log(line.in_winner) for line in lines if line.in_winner is not None]
    assert abs(sum(within) / len(within) - 0.05) < 0.02
    for result in found:
        for line in result.lines:
            if not line.in_conf:
                assert (line.reference, line.gain) == (result.winner, line.in_winner)


def test_where_the_final_step_has_no_time_for_lines_their_gains_are_those_in_the_winner() -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    facts = from_winner(table, 3)
    step = next(step for step in facts.steps if step.purpose is Purpose.FINAL)
    short, winner = TuneSearch(table.judge).short(facts), TuneSearch(table.judge).winner(facts)
    assert set(step.candidates) > {DEFAULT, short}
    shorter = replace(step, candidates=(DEFAULT, short, winner))
    fewer = replace(
        facts,
        steps=tuple(shorter if taken is step else taken for taken in facts.steps),
        measured=tuple(
            trial
            for trial in facts.measured
            if trial.step != step.number or trial.candidate in shorter.candidates
        ),
    )
    for line in outcome(fewer, table.judge).lines:
        assert (line.reference, line.gain, line.interval) == (winner, line.in_winner, line.in_winner_interval)
    with_lines = [line for line in outcome(facts, table.judge).lines if line.in_conf]
    assert with_lines
    assert all(line.reference == short for line in with_lines)


def test_a_line_that_a_broken_winner_has_is_not_kept_for_safety() -> None:
    """Predictions of a later version may rule the winner out; then no line of it keeps a promise."""
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    facts = from_winner(table, 4)
    strict = replace(table, ruled_out=frozenset({WINNER}))
    assert not any(line.verdict is LineVerdict.SAFETY for line in outcome(facts, strict.judge).lines)
    kept = outcome(facts, replace(table, ruled_out=frozenset(table.truth) - {WINNER}).judge)
    assert any(line.in_conf for line in kept.lines)
    assert all((line.verdict is LineVerdict.SAFETY) == line.in_conf for line in kept.lines)


OWN = Candidate.of({"max_wal_size": "4GB", "commit_delay": "100"})
"""A user's configuration that is 6 % faster than the default, where the answer is 18 %."""


def test_the_answer_is_compared_with_the_users_own_configuration() -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    found = [outcome(from_winner(table, seed, own=OWN), table.judge) for seed in range(40)]
    gains = [(result.to_own, result.to_own_interval) for result in found if not result.defaults_are_best]
    assert len(gains) >= 38
    held = [
        interval.contains(table.truth[result.advised] / table.truth[OWN])
        for result in found
        if (interval := result.to_own_interval) is not None
    ]
    assert len(held) == len(gains)
    assert sum(held) >= 0.88 * len(held)


@pytest.mark.parametrize("trials", [45, 55, 65, 75])
def test_with_an_own_configuration_the_final_step_has_its_room(trials: int) -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    for seed in range(8):
        facts = from_winner(table, seed, trials, own=OWN)
        final = [step for step in facts.steps if step.purpose is Purpose.FINAL]
        assert final, seed
        assert {*final[0].candidates} >= {DEFAULT, OWN}


def test_an_own_configuration_that_breaks_a_promise_is_not_run() -> None:
    table = replace(synthetic.synthetic(FACTORS, one_useful, noise=0.02), ruled_out=frozenset({OWN}))
    facts = from_winner(table, 2, own=OWN)
    assert all(OWN not in step.candidates for step in facts.steps)
    assert outcome(facts, table.judge).to_own is None


def test_where_nothing_differs_the_defaults_are_best() -> None:
    """The final step is not chosen by: in at most 5 % (here 2.5 %, one side) something is advised."""
    table = synthetic.synthetic(FACTORS, flat, noise=0.03)
    found = [outcome(from_winner(table, seed), table.judge) for seed in range(80)]
    advised = [result for result in found if not result.defaults_are_best]
    assert len(advised) <= 6
    for result in found:
        if result.defaults_are_best:
            # There is no conf for a line to be in.
            assert not any(line.in_conf for line in result.lines)
            assert result.advised == DEFAULT
            assert result.expected is None


def test_a_whole_tuning_of_a_flat_machine_says_so() -> None:
    table = synthetic.synthetic(FACTORS, flat, noise=0.03)
    found = []
    for seed in range(6):
        *_, facts = tuned(table, plan_of(FACTORS, trials=60, seed=seed), TuneSearch(table.judge))
        found.append(outcome(facts, table.judge).defaults_are_best)
    assert sum(found) >= 5


def test_a_flat_machine_gets_no_advice_from_a_small_budget() -> None:
    """What the race chose is not advised for the race's reasons. The final step has room even in a budget of
    15 trials; in smaller ones some tunings end without it, and advise nothing."""
    table = synthetic.synthetic(FACTORS, flat, noise=0.03)
    advised, without = 0, dict.fromkeys((8, 10, 12, 15, 25), 0)
    for trials in without:
        for seed in range(20):
            *_, facts = tuned(table, plan_of(FACTORS, trials=trials, seed=seed), TuneSearch(table.judge))
            found = outcome(facts, table.judge)
            without[trials] += found.winner != DEFAULT and not found.is_final
            advised += not found.defaults_are_best
    assert without[15] == without[25] == 0
    assert sum(without.values()) >= 6
    assert advised <= 2


def confirmed(table: Table, seed: int, trials: int) -> TuningFacts:
    """A tuning up to the confirmation of WINNER."""
    facts = TuningFacts(plan_of(FACTORS, trials=trials, seed=seed), trial_s=table.trial_s)
    for step in (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, seed),
        Step(2, Purpose.CONFIRM, (DEFAULT, WINNER), 4, 1000 + seed),
    ):
        facts = table.carry_out(facts, step)
    return facts


def test_a_small_budget_that_confirms_a_clear_gain_advises_it() -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    found = [outcome(confirmed(table, seed, 10), table.judge) for seed in range(20)]
    assert not any(result.is_final for result in found)
    assert sum(result.advised == WINNER for result in found) >= 18


def test_the_best_so_far_is_shown_while_there_is_more_to_come() -> None:
    """The same trials: in the middle of a tuning the best so far, at its end no advice without a proof."""
    table = synthetic.synthetic(FACTORS, flat, noise=0.03)
    shown = 0
    for seed in range(20):
        meanwhile, ended = (outcome(confirmed(table, seed, trials), table.judge) for trials in (150, 10))
        assert (meanwhile.gain, meanwhile.interval) == (ended.gain, ended.interval)
        assert meanwhile.gain is not None
        assert meanwhile.interval is not None
        assert meanwhile.advised == (WINNER if meanwhile.gain > 1 else DEFAULT)
        assert ended.advised == (WINNER if meanwhile.interval.low > 1 else DEFAULT)
        shown += meanwhile.advised != ended.advised
    assert shown >= 5


def test_a_final_step_that_was_stopped_at_once_takes_nothing_back() -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    facts = from_winner(table, 1)
    (final,) = (step for step in facts.steps if step.purpose is Purpose.FINAL)
    steps = tuple(step for step in facts.steps if step.number <= final.number)

    def stopped_after(rounds: int, *notes: str) -> TuningFacts:
        measured = tuple(
            trial
            for trial in facts.measured
            if trial.step < final.number or (trial.step == final.number and trial.round <= rounds)
        )
        return replace(facts, steps=steps, measured=measured, notes=notes)

    note = f"{STOPPED} during step {final.number}: the answer is the best so far."
    before = concluding_facts(stopped_after(2, note))
    assert before.steps == steps[:-1]
    found = outcome(before, table.judge)
    assert (found.is_final, found.defaults_are_best) == (False, False)
    assert found.gain is not None
    assert found.gain > 1.1
    # One that was long enough, or was not stopped by anybody, counts.
    for whole in (stopped_after(3, note), stopped_after(1)):
        assert concluding_facts(whole) == whole


def test_a_line_that_a_promise_needs_stays() -> None:
    """Without the larger size the limit is broken, though the size gives nothing."""
    table = synthetic.synthetic(
        FACTORS,
        lambda values: 0.2 * (values["commit_delay"] == "100"),
        noise=0.02,
        breaks=lambda values: values["commit_delay"] == "100" and values["max_wal_size"] != "16GB",
    )
    facts = from_winner(table, 1)
    found = outcome(facts, table.judge)
    size = next(line for line in found.lines if line.setting == "max_wal_size")
    assert (size.verdict, size.in_conf, size.gain) == (LineVerdict.SAFETY, True, None)
    assert all(table.ruled_out.isdisjoint(step.candidates) for step in facts.steps)


def test_one_more_start_lies_in_the_prediction_interval() -> None:
    """Of 95 %: between 93 and 97 % of 1,500 starts, whatever the number of trials before."""
    chance = np.random.default_rng(5)
    for count in (3, 6, 12):
        draws = chance.standard_normal((1500, count + 1))
        held = 0
        for row in draws.tolist():
            interval = prediction_interval(row[:-1])
            assert interval is not None
            held += interval.contains(row[-1])
        assert 0.93 <= held / len(draws) <= 0.97


def test_the_expected_start_is_of_the_final_step_alone(useful: list[TuningOutcome]) -> None:
    table = synthetic.synthetic(FACTORS, one_useful, noise=0.02)
    inside = inside_ratio = 0
    for seed, result in enumerate(useful):
        assert result.expected is not None
        new = Step(99, Purpose.FINAL, (DEFAULT, result.advised), 1, 10_000 + seed)
        value = table.trial(result.advised, new, 1)
        inside += result.expected.value_interval.contains(value)
        ratio = value / table.trial(DEFAULT, new, 1)
        inside_ratio += result.expected.ratio_interval.contains(ratio)
        assert (
            result.expected.value_interval.low < result.expected.value < result.expected.value_interval.high
        )
    assert inside >= 52
    assert inside_ratio >= 52


def test_before_anything_was_measured_nothing_is_advised() -> None:
    table = synthetic.synthetic(FACTORS, flat)
    found = outcome(TuningFacts(plan_of(FACTORS, trials=10, seed=1)), table.judge)
    assert (found.advised, found.is_final, found.lines) == (DEFAULT, False, ())
