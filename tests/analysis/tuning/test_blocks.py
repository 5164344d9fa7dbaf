"""Ratios of candidates that ran in different rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from walproof.analysis.tuning.blocks import Blocks, Estimate
from walproof.analysis.tuning.values import Values, compare
from walproof.facts.tuning import DEFAULT, Candidate

FIRST, SECOND, THIRD = (Candidate.of({"commit_delay": str(value)}) for value in (10, 20, 30))
EFFECTS = {DEFAULT: 0.0, FIRST: 0.1, SECOND: 0.25, THIRD: -0.05}
ROUNDS = [(DEFAULT, FIRST), (FIRST, SECOND), (SECOND, THIRD), (FIRST, THIRD), (DEFAULT, FIRST, THIRD)] * 2
"""The default and the second are never in one round."""


def values_of(
    rounds: list[tuple[Candidate, ...]], noise: float, seed: int, level_spread: float = 1.0
) -> Values:
    chance = np.random.default_rng(seed)
    return Values(
        {
            ((1, number), candidate): level_spread * level
            + EFFECTS[candidate]
            + noise * chance.standard_normal()
            for number, level in enumerate(chance.standard_normal(len(rounds)))
            for candidate in rounds[number]
        }
    )


def estimate(values: Values, candidate: Candidate, base: Candidate) -> Estimate | None:
    return Blocks(values).estimate(candidate, base)


def test_a_chain_of_rounds_connects_two_candidates() -> None:
    found = estimate(values_of(ROUNDS[:2] * 3, 0.001, 1), SECOND, DEFAULT)
    assert found is not None
    assert found.mean == pytest.approx(0.25, abs=0.01)
    assert found.degrees == 12 - 6 - 2


def test_without_a_candidate_measured_twice_there_is_no_interval() -> None:
    found = estimate(values_of(ROUNDS[:2], 0.03, 1), SECOND, DEFAULT)
    assert found is not None
    assert (found.degrees, found.error, found.interval()) == (0, None, None)


def test_without_a_chain_nothing_is_known() -> None:
    values = values_of([(DEFAULT, FIRST), (SECOND, THIRD)] * 3, 0.01, 1)
    assert estimate(values, SECOND, DEFAULT) is None
    assert estimate(values, Candidate.of({"jit": "off"}), DEFAULT) is None
    assert estimate(values, DEFAULT, DEFAULT) is None
    assert estimate(Values({}), FIRST, DEFAULT) is None


def test_of_complete_rounds_it_says_what_a_comparison_within_rounds_says() -> None:
    values = values_of([(DEFAULT, FIRST)] * 6, 0.03, 2)
    found, (compared,) = estimate(values, FIRST, DEFAULT), compare(values, [(FIRST, DEFAULT)])
    assert found is not None
    assert found.mean == pytest.approx(compared.mean)
    interval, expected = found.interval(), compared.interval()
    assert interval is not None
    assert expected is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_each_trial_says_a_ratio_whose_mean_is_the_estimate() -> None:
    blocks = Blocks(values_of(ROUNDS, 0.03, 3))
    found, ratios = blocks.estimate(SECOND, DEFAULT), blocks.ratios(SECOND, DEFAULT)
    assert found is not None
    assert sorted(ratios) == [(1, at) for at, candidates in enumerate(ROUNDS) if SECOND in candidates]
    assert np.mean(list(ratios.values())) == pytest.approx(found.mean)
    assert np.std(list(ratios.values())) > 0.001
    assert blocks.ratios(Candidate.of({"jit": "off"}), DEFAULT) == {}


@pytest.mark.parametrize("level_spread", [0.0, 0.03, 1.0])
def test_intervals_hold_what_they_promise(level_spread: float) -> None:
    """Of 500 intervals of 95 %, 460 to 490 hold the truth: a binomial's bounds of 99.8 %.

    Where levels vary as little as the trials, or less, more may: the noise is that within rounds alone.
    """
    held = 0
    for seed in range(500):
        found = estimate(values_of(ROUNDS, 0.03, seed, level_spread), SECOND, DEFAULT)
        assert found is not None
        interval = found.interval()
        assert interval is not None
        held += interval.contains(math.exp(EFFECTS[SECOND]))
    assert 460 <= held <= (490 if level_spread == 1.0 else 499)


def test_a_noisy_trial_that_links_two_rounds_does_not_move_all_of_a_round() -> None:
    """Rounds of one level, linked by a single candidate: the error is little above that of two trials.

    By rounds alone it would be that of four: 0.2 with a noise of 0.1.
    """
    rounds = [(DEFAULT, FIRST, THIRD), (FIRST, SECOND)]
    errors = []
    for seed in range(400):
        found = estimate(values_of(rounds, 0.1, seed, 0.0), SECOND, DEFAULT)
        assert found is not None
        errors.append(found.mean - EFFECTS[SECOND])
    assert np.sqrt(np.mean(np.square(errors))) < 0.17
