"""The parts of the search: the grid, the fraction, the budget, the guess."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.tune.table import table_of
from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, FACTORS, SIZE, plan_of
from walproof.analysis.tuning.ablation import final_candidates
from walproof.analysis.tuning.budget import BudgetClock
from walproof.analysis.tuning.model import Model
from walproof.analysis.tuning.screen import PRIMES, fraction, plackett_burman
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import Values, pooled
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    Factor,
    Purpose,
    Scale,
    Step,
    TrialAnswer,
    TuningFacts,
)

SIBLINGS = Factor(
    "commit_siblings",
    ("5", "20"),
    Scale.LOG,
    "5",
    "toggled",
    (("commit_delay", "100"), ("commit_delay", "1000")),
)


def space_of(*factors: Factor, **others: object) -> Space:
    return Space(plan_of(factors, trials=10, seed=1, **others))


def test_a_line_that_does_nothing_is_not_in_a_candidate() -> None:
    space = space_of(DELAY, SIBLINGS)
    assert space.candidate({"commit_delay": "0", "commit_siblings": "20"}) == DEFAULT
    both = Candidate.of({"commit_delay": "100", "commit_siblings": "20"})
    assert space.candidate(both.conf) == both
    assert space.without(both, "commit_delay") == DEFAULT
    # 3 delays, of which two have 2 numbers of siblings.
    assert len(list(space.everything())) == 5


def test_what_is_kept_serves_what_needs_it() -> None:
    def acts(**keep: str) -> bool:
        plan = replace(plan_of((SIBLINGS,), trials=10, seed=1), keep=keep)
        return Space(plan).candidate({"commit_siblings": "20"}) != DEFAULT

    assert acts(commit_delay="100")
    assert not acts(commit_delay="0")
    # Nobody sets it: who made the space knows that the version's default will do.
    assert acts()


def test_a_start_brings_its_values_into_the_grid() -> None:
    start = Candidate.of({"max_wal_size": "8GB", "jit": "off"})
    space = space_of(SIZE, starts=(start,))
    assert space.factors["max_wal_size"].choices == ("1GB", "4GB", "8GB", "16GB")
    assert space.holds(start)
    # What only a start has is given back, but not proposed.
    assert space.searched == ("max_wal_size",)
    assert Candidate.of({"max_wal_size": "8GB"}) in set(space.neighbours(start))
    assert all("jit" not in neighbour.conf for neighbour in space.neighbours(DEFAULT))


@pytest.mark.parametrize("factors", [2, 3, 5, 7, 11, 17, 23, 40])
def test_the_fraction_tells_factors_apart(factors: int) -> None:
    """With the row of the default, any two columns have each of the four pairs equally often."""
    rows = np.array([*plackett_burman(factors), [False] * factors])
    assert len(rows) == min(number for number in PRIMES if number >= factors) + 1
    signs = np.where(rows, 1, -1)
    assert (signs.T @ signs == len(rows) * np.eye(factors)).all()
    assert (signs.sum(axis=0) == 0).all()


def test_the_fraction_gives_back_what_a_promise_asks_for() -> None:
    space = space_of(*FACTORS)

    def admits(candidate: Candidate) -> bool:
        return candidate.conf.get("max_wal_size") != "16GB"

    rows = list(fraction(space, space.searched, admits))
    assert len(rows) >= 5
    assert all(map(admits, rows))


def test_the_final_step_leaves_out_what_it_has_no_time_for() -> None:
    space = space_of(COMPRESSION, SIZE, DELAY)
    winner = space.candidate({"wal_compression": "lz4", "max_wal_size": "16GB", "commit_delay": "100"})
    short = space.without(winner, "commit_delay")
    compressed, larger = space.without(short, "max_wal_size"), space.without(short, "wal_compression")
    plans = final_candidates(space, winner, short, None, lambda candidate: True)
    assert plans == (
        (DEFAULT, short, winner, compressed, larger),
        (DEFAULT, short, compressed, larger),
        (DEFAULT, short, winner),
        (DEFAULT, short),
    )
    # The default is what a single line is held against; what breaks a promise is not run.
    alone = final_candidates(space, compressed, compressed, None, lambda candidate: True)
    assert alone == ((DEFAULT, compressed),)
    needed = final_candidates(space, short, short, None, lambda candidate: candidate != larger)
    assert needed == ((DEFAULT, short, compressed), (DEFAULT, short))
    # The user's own goes last.
    *with_own, last = final_candidates(space, winner, short, larger, lambda candidate: True)
    assert [plan[:3] for plan in with_own] == [(DEFAULT, short, larger)] * 4
    assert last == (DEFAULT, short)
    assert final_candidates(space, short, short, short, lambda candidate: True)[-1] == (DEFAULT, short)


def test_the_clock_counts_what_was_spent_before_apart() -> None:
    plan = plan_of(FACTORS, trials=50, seed=1)
    steps = (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),
        Step(2, Purpose.SCREEN, (DEFAULT,), 2, 2),
    )
    measured = (
        TrialAnswer(1, 1, DEFAULT, 1.0, seconds=60.0),
        TrialAnswer(2, 1, DEFAULT, 1.0, seconds=20.0),
        TrialAnswer(2, 2, DEFAULT, 1.0, seconds=24.0),
    )
    clock = BudgetClock.of(TuningFacts(plan, steps, measured, spent_s=144.0, trial_s=10.0))
    assert (clock.available_s, clock.used_s, clock.trial_s) == (900.0, 44.0, 22.0)
    assert clock.trials_until(Purpose.SEARCH) == int((0.47 * 900 - 44) / 22)
    answering = replace(TuningFacts(plan, steps, measured, spent_s=144.0, trial_s=10.0), answer_s=40.0)
    assert BudgetClock.of(answering).available_s == 860.0, "the last answer has its time"


def test_the_guess_adds_effects_up() -> None:
    """Each of two settings was seen alone; what they do together was not."""
    space = space_of(COMPRESSION, DELAY)
    chance = np.random.default_rng(1)
    compressed, delayed = Candidate.of({"wal_compression": "lz4"}), Candidate.of({"commit_delay": "1000"})
    effects = {DEFAULT: 0.0, compressed: 0.2, delayed: 0.1}
    logs = {
        ((1, number), candidate): effect + level + 0.01 * chance.standard_normal()
        for number, level in enumerate(chance.standard_normal(6))
        for candidate, effect in effects.items()
    }
    both = Candidate.of({**compressed.conf, **delayed.conf})
    model = Model(space, Values(logs))
    guess = model.guess([DEFAULT, compressed, delayed, both])
    assert guess.means == pytest.approx([0.0, 0.2, 0.1, 0.3], abs=0.03)
    assert guess.sds[3] > guess.sds[1] > guess.sds[0]
    assert model.guess([both], both).sds == pytest.approx([0], abs=1e-3)


def test_noise_is_known_from_all_rounds() -> None:
    chance = np.random.default_rng(2)
    others = [Candidate.of({"commit_delay": value}) for value in ("100", "1000")]
    values = Values(
        {
            ((1, number), candidate): level + 0.03 * chance.standard_normal()
            for number, level in enumerate(chance.standard_normal(40))
            for candidate in (DEFAULT, *others)
        }
    )
    spread = pooled(values, [DEFAULT])
    assert spread is not None
    assert spread.variance == pytest.approx(2 * 0.03**2, rel=0.3)
    assert pooled(values.within(lambda at: at[1] == 1), [DEFAULT]) is None


def test_a_measured_table_is_points_and_what_rounds_share() -> None:
    chance = np.random.default_rng(3)
    points = {Candidate.of({"commit_delay": str(value)}): value / 1000 for value in (0, 100, 200, 300)}
    logs = {
        candidate: {
            number: effect + 0.05 * level + 0.02 * chance.standard_normal()
            for number, level in enumerate(np.random.default_rng(4).standard_normal(30))
        }
        for candidate, effect in points.items()
    }
    table = table_of((DELAY,), logs, frozenset(), 20.0)
    assert float(table.noise.std()) == pytest.approx(0.02, rel=0.2)
    assert float(table.round_noise.std()) == pytest.approx(0.05, rel=0.3)
    assert table.best == max(table.truth.values())
