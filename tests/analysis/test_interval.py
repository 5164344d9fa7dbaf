"""Intervals: known values, and whether the 95 % interval covers 95 % in simulated runs."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from walproof.analysis.interval import (
    Interval,
    mean_interval,
    t_p_value,
    t_quantile,
)

RUNS = 2000


def test_t_quantiles_are_those_of_the_tables() -> None:
    """Student's table: 12.706, 4.303, 2.262 for 1, 2 and 9 degrees of freedom at 95 %; 9.925 at 99 %."""
    assert t_quantile(0.95, 1) == pytest.approx(12.706, abs=1e-3)
    assert t_quantile(0.95, 2) == pytest.approx(4.303, abs=1e-3)
    assert t_quantile(0.95, 9) == pytest.approx(2.262, abs=1e-3)
    assert t_quantile(0.99, 2) == pytest.approx(9.925, abs=1e-3)


def test_p_value_and_interval_agree() -> None:
    """A mean whose 95 % interval just touches 0 has p = 0.05."""
    assert t_p_value(t_quantile(0.95, 4), 4) == pytest.approx(0.05)
    values = [0.01, 0.03, -0.01, 0.02]
    p = t_p_value(fmean(values) / (stdev(values) / 2), 3)
    edge = mean_interval(values, 1 - p)
    assert edge is not None
    assert edge.low == pytest.approx(0, abs=1e-9)


def test_interval_of_the_mean_by_hand() -> None:
    values = [1.0, 2.0, 3.0]
    interval = mean_interval(values)
    assert interval is not None
    reach = 4.302653 * stdev(values) / math.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx((2 - reach, 2 + reach))
    assert interval.method == "t"


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_values_have_no_interval(values: list[float]) -> None:
    assert mean_interval(values) is None


def test_values_that_do_not_vary() -> None:
    assert mean_interval([0.5, 0.5]) == Interval(0.5, 0.5, 0.95, "t")


def test_exp_and_half_width_of_a_log_ratio() -> None:
    ratio = Interval(math.log(0.8), math.log(1.25), 0.95, "t").exp()
    assert (ratio.low, ratio.high) == pytest.approx((0.8, 1.25))
    assert ratio.half_width(1.0) == pytest.approx(0.25)
    assert ratio.contains(0.81)
    assert not ratio.contains(0.79)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
@pytest.mark.parametrize("level", [0.90, 0.95])
def test_t_interval_covers_its_level(count: int, level: float) -> None:
    """Share of simulated runs of ``count`` normal values whose interval holds the true mean."""
    chance = random.Random(f"{count}/{level}")
    held = 0
    for _ in range(RUNS):
        interval = mean_interval([chance.gauss(0.3, 0.05) for _ in range(count)], level)
        assert interval is not None
        held += interval.contains(0.3)
    # Four standard deviations of a share of RUNS: a right interval fails once in 16,000 seeds.
    assert held / RUNS == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / RUNS))


def test_a_bootstrap_of_few_values_would_be_too_narrow() -> None:
    """Why docs/statistics.md has none: BCa (Efron and Tibshirani) holds the mean of four in too few runs."""
    import numpy as np
    from scipy.stats import bootstrap

    values = np.random.default_rng(4).normal(size=(400, 4))
    ends = bootstrap((values,), np.mean, axis=1, n_resamples=500, rng=1).confidence_interval
    held = np.count_nonzero((ends.low <= 0) & (ends.high >= 0)) / len(values)
    assert held < 0.90
