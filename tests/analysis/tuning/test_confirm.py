"""A winner that does not lead when it is compared with the default anew: what is still open is measured."""

from __future__ import annotations

import pytest

from bench.tune.table import Table, tuned
from tests.analysis.tuning import synthetic
from tests.analysis.tuning.synthetic import FACTORS, flat, plan_of
from tests.analysis.tuning.test_lines import WINNER, confirmed
from walproof.advise.tune.conclusion import Conclusion, conclude
from walproof.analysis.tuning.lines import outcome
from walproof.analysis.tuning.search import CONFIRM_ROUNDS, TuneSearch
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import mean_log, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningFacts


@pytest.fixture(scope="module")
def noisy() -> Table:
    return synthetic.synthetic(FACTORS, flat, noise=0.1)


def leads(facts: TuningFacts) -> bool:
    """Whether the winner was ahead in the last step."""
    log = mean_log(objective_values(facts, [facts.steps[-1].number]), WINNER, DEFAULT)
    assert log is not None
    return log > 0


def is_open(table: Table, facts: TuningFacts) -> bool:
    """Whether the last step leaves a gain beyond the margin open."""
    interval = outcome(facts, table.judge).interval
    assert interval is not None
    return interval.high > 1 + facts.plan.margin


def asked(table: Table, facts: TuningFacts) -> Step | None:
    return TuneSearch(table.judge).ask(facts)


def test_what_four_rounds_leave_open_is_asked_again(noisy: Table) -> None:
    again = 0
    for seed in range(20):
        facts = confirmed(noisy, seed, 60)
        step = asked(noisy, facts)
        assert step is not None
        if leads(facts) or not is_open(noisy, facts):
            assert step.purpose is (Purpose.LINES if leads(facts) else Purpose.FLUSH)
            continue
        again += 1
        assert (step.purpose, step.candidates) == (Purpose.CONFIRM, (DEFAULT, WINNER))
        assert CONFIRM_ROUNDS[0] < step.rounds <= CONFIRM_ROUNDS[1]
        facts = noisy.carry_out(facts, step)
        later = asked(noisy, facts)
        assert later is not None
        # Lines if there is time for them; the final step in any case.
        assert later.purpose in (
            (Purpose.LINES, Purpose.FINAL) if leads(facts) else (Purpose.FINAL, Purpose.FLUSH)
        )
        if not leads(facts) and later.purpose is Purpose.FINAL:
            assert later.candidates == (DEFAULT, WINNER)
    assert again >= 5


def test_without_time_for_it_the_final_step_tells(noisy: Table) -> None:
    final = 0
    for seed in range(20):
        facts = confirmed(noisy, seed, 18)
        step = asked(noisy, facts)
        if not leads(facts) and is_open(noisy, facts):
            assert step is not None
            assert (step.purpose, step.candidates) == (Purpose.FINAL, (DEFAULT, WINNER))
            final += 1
    assert final >= 5


def test_what_is_known_to_gain_nothing_is_not_asked_again() -> None:
    table = synthetic.synthetic(FACTORS, lambda values: -0.1 * (values["commit_delay"] != "0"), noise=0.01)
    for seed in range(5):
        step = asked(table, confirmed(table, seed, 60))
        assert step is None or step.purpose is Purpose.FLUSH


def test_a_short_tuning_uses_its_time_and_keeps_its_budget(noisy: Table) -> None:
    used = []
    for seed in range(20):
        *_, facts = tuned(noisy, plan_of(FACTORS, trials=25, seed=seed), TuneSearch(noisy.judge))
        assert facts.spent_s <= facts.plan.budget_s
        used.append(facts.spent_s / facts.plan.budget_s)
    assert sum(used) / len(used) > 0.8


@pytest.mark.parametrize(("noise", "rounds", "wanted"), [(0.01, 5, Conclusion.DEFAULTS), (0.8, 2, None)])
def test_when_all_lines_are_dropped_the_defaults_are_best(
    noise: float, rounds: int, wanted: Conclusion | None
) -> None:
    """A winner of one line needs no final step for that; with few rounds that vary much it is not known."""
    table = synthetic.synthetic(FACTORS, flat, noise=noise)
    winner, dropped = Candidate.of({"max_wal_size": "16GB"}), 0
    for seed in range(20):
        facts = TuningFacts(plan_of(FACTORS, trials=25, seed=seed), trial_s=table.trial_s)
        facts = table.carry_out(facts, Step(1, Purpose.RECORD, (DEFAULT,), 1, seed))
        for number in (2, 3):
            facts = table.carry_out(
                facts, Step(number, Purpose.LINES, (winner, DEFAULT), rounds, 100 * number + seed)
            )
        found = outcome(facts, table.judge)
        if found.short == DEFAULT:
            dropped += 1
            said, why = conclude(facts, found, [], Space(facts.plan), table.judge)
            assert said is (wanted or Conclusion.UNDECIDED)
            assert why is not None
    assert dropped >= 3
