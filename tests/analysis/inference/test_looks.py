"""Planned looks: against published limits, and whether the error of all together is what was allowed."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from walproof.analysis.inference.looks import PlannedLook, looks, planned_looks, spent
from walproof.analysis.interval import t_p_value


def z(look: PlannedLook) -> float:
    """The limit of a normal statistic, on both sides."""
    return -NormalDist().inv_cdf(look.p / 2)


def test_one_look_is_the_usual_test() -> None:
    (only,) = looks([1.0])
    assert z(only) == pytest.approx(1.959964, abs=1e-5)
    assert (only.spent, only.p) == pytest.approx((0.05, 0.05))


def test_limits_of_five_looks_are_the_published_ones() -> None:
    """O'Brien-Fleming type spending, five equal looks, two-sided 5 %: 4.877, 3.357, 2.680, 2.290, 2.031
    (Jennison and Turnbull 2000, table 7.1 and the program LD98 of Reboussin and others)."""
    found = looks([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [z(look) for look in found] == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.006)
    assert found[-1].spent == pytest.approx(0.05)


def test_limits_of_two_looks_and_of_unequal_ones() -> None:
    assert [z(look) for look in looks([0.5, 1.0])] == pytest.approx([2.963, 1.969], abs=0.004)
    early, late = looks([0.1, 1.0])
    assert z(early) > 6
    assert z(late) == pytest.approx(1.96, abs=0.001)


def test_spending_rises_from_nothing_to_all() -> None:
    shares = [0.0, 0.1, 0.3, 0.5, 0.9, 1.0, 1.5]
    values = [spent(share, 0.05) for share in shares]
    assert values[0] == 0
    assert values[1] < 1e-8
    assert values == sorted(values)
    assert values[-2] == values[-1] == pytest.approx(0.05)


@pytest.mark.parametrize("shares", [[], [0.5, 0.5], [0.5, 0.4], [0.0, 1.0], [0.5, 1.1], [0.1] * 6])
def test_looks_that_cannot_be_planned(shares: list[float]) -> None:
    with pytest.raises(ValueError, match=r"looks|shares"):
        looks(shares)


def test_rounds_to_look_after() -> None:
    assert planned_looks(3, 15) == (3, 6, 9, 12, 15)
    assert planned_looks(3, 4) == (3, 4)
    assert planned_looks(5, 5) == (5,)
    assert planned_looks(3, 30, count=2) == (3, 30)
    with pytest.raises(ValueError, match="before the first look"):
        planned_looks(4, 3)
    with pytest.raises(ValueError, match="6 looks"):
        planned_looks(3, 30, count=6)


@pytest.mark.parametrize("degrees_a_round", [None, 6])
def test_the_error_of_all_looks_together(degrees_a_round: int | None) -> None:
    """4000 runs of 15 rounds without a difference, looked at five times: 5 % end "different" (naive looks:
    14 %). With a known spread, and with one that is estimated from seven variants' rounds as they come."""
    chance = np.random.default_rng(11)
    rounds = planned_looks(3, 15)
    plan = looks([number / 15 for number in rounds])
    wrong = naive = 0
    for _ in range(4000):
        values = chance.standard_normal(15)
        squares = chance.chisquare(degrees_a_round, 15).cumsum() if degrees_a_round else None
        is_wrong = is_naive = False
        for look, count in zip(plan, rounds, strict=True):
            degrees = math.inf if degrees_a_round is None else degrees_a_round * (count - 1)
            scale = 1.0 if squares is None else math.sqrt(squares[count - 2] / degrees)
            p = t_p_value(float(values[:count].mean()) * math.sqrt(count) / scale, min(degrees, 1e6))
            is_wrong |= p <= look.p
            is_naive |= p < 0.05
        wrong += is_wrong
        naive += is_naive
    assert wrong / 4000 == pytest.approx(0.05, abs=0.014)
    assert naive / 4000 > 0.11
