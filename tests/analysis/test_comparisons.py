"""Holm's adjustment, against a worked example, statsmodels and its promise."""

from __future__ import annotations

import random

import pytest

from walproof.analysis.comparisons import adjust_p_values


def test_by_hand() -> None:
    """Sorted 0.01 0.02 0.03 0.04 times 4 3 2 1, never falling: 0.04 0.06 0.06 0.06."""
    assert adjust_p_values([0.04, 0.01, None, 0.03, 0.02]) == pytest.approx((0.06, 0.04, None, 0.06, 0.06))
    assert adjust_p_values([]) == ()
    assert adjust_p_values([None]) == (None,)
    assert adjust_p_values([0.9, 0.8]) == (1.0, 1.0)


def test_agrees_with_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    chance = random.Random(4)
    for count in (1, 2, 7, 30):
        p_values = [chance.random() ** 3 for _ in range(count)]
        assert adjust_p_values(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_false_differences_in_the_family_stay_below_their_level() -> None:
    """Six comparisons without any difference: at most 5 % of families show one (plain p: 26 %)."""
    chance = random.Random(9)
    families = [[chance.random() for _ in range(6)] for _ in range(4000)]
    plain = sum(min(family) < 0.05 for family in families) / 4000
    held = sum(min(p for p in adjust_p_values(family) if p is not None) < 0.05 for family in families) / 4000
    assert plain == pytest.approx(1 - 0.95**6, abs=0.03)
    assert held == pytest.approx(0.05, abs=0.014)
