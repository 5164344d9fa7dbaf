"""Spreads: by hand, against an analysis of variance, which rule applies when, and whether coverage holds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr

from tests.analysis.inference.simulated import Scenario, outcome
from walproof.analysis.inference.spread import SCREEN, Pooling, satterthwaite, spreads

PAIRS = [(1, 0), (2, 0), (3, 0)]


def made(rows: int, columns: int, sizes: list[float] | None = None, seed: int = 1) -> NDArray[np.float64]:
    """Noise of each row's size, and rounds that differ by far more."""
    chance = np.random.default_rng(seed)
    noise: NDArray[np.float64] = chance.standard_normal((rows, columns))
    noise *= np.array(sizes or [1.0] * rows)[:, None]
    noise += 5.0 * chance.standard_normal(columns)
    return noise


def test_of_one_comparison_it_is_the_paired_variance() -> None:
    logs = made(2, 5)
    (found,) = spreads(logs, [(1, 0)])
    assert found is not None
    assert found.variance == pytest.approx(np.var(logs[1] - logs[0], ddof=1))
    assert (found.degrees, found.pooling) == (4, Pooling.OWN)


def test_common_variance_is_that_of_a_two_way_analysis_of_variance() -> None:
    """Interaction mean square by hand, twice, with (cells - 1)(rounds - 1) degrees; the same for each."""
    logs = made(4, 6, seed=7)
    rest = logs - logs.mean(0) - logs.mean(1)[:, None] + logs.mean()
    found = spreads(logs, PAIRS)
    assert len(set(found)) == 1
    assert found[0] is not None
    assert found[0].pooling is Pooling.ALL
    assert found[0].variance == pytest.approx(2 * (rest**2).sum() / 15)
    assert (found[0].degrees, found[0].shared) == (15, 0.5)


def test_missing_trials_take_degrees_and_nothing_else() -> None:
    """Against least squares with all its dummy columns."""
    logs = made(4, 6, seed=7)
    logs[2, 1] = logs[0, 4] = np.nan
    found = spreads(logs, PAIRS)
    rows, columns = np.nonzero(np.isfinite(logs))
    design = np.hstack([rows[:, None] == np.arange(4), columns[:, None] == np.arange(1, 6)]).astype(float)
    _, squares, rank, _ = np.linalg.lstsq(design, logs[rows, columns], rcond=None)
    assert found[0] is not None
    assert found[0].pooling is Pooling.ALL
    assert found[0].degrees == len(rows) - rank == 13
    assert found[0].variance == pytest.approx(2 * float(squares[0]) / 13)


def test_a_restless_baseline_is_kept_apart() -> None:
    """The mean of the ratios' variances, with hardly more degrees than the baseline's rounds give."""
    logs = made(7, 5, [5.0] + [1.0] * 6, seed=4)
    pairs = [(row, 0) for row in range(1, 7)]
    found = spreads(logs, pairs)
    assert len(set(found)) == 1
    assert found[0] is not None
    assert found[0].pooling is Pooling.VARIANTS
    assert found[0].variance == pytest.approx(
        np.mean([np.var(logs[row] - logs[0], ddof=1) for row in range(1, 7)])
    )
    assert 4 < found[0].degrees < 5
    assert found[0].shared > 0.8


def test_variants_that_vary_differently_are_judged_alone() -> None:
    logs = made(4, 8, [1.0, 1.0, 1.0, 8.0], seed=5)
    found = spreads(logs, PAIRS)
    for (row, _), spread in zip(PAIRS, found, strict=True):
        assert spread is not None
        assert (spread.pooling, spread.degrees) == (Pooling.OWN, 7)
        assert spread.variance == pytest.approx(np.var(logs[row] - logs[0], ddof=1))


def test_two_variants_that_vary_differently_are_judged_alone() -> None:
    """By the correlation of the sum and the difference of their ratios, over rounds that have both."""
    pairs = [(1, 0), (2, 0)]
    pooled = []
    for seed in range(40):
        logs = made(3, 6, [1.0, 1.0, 2.0], seed=seed)
        logs[1, 4] = np.nan
        one, other = (logs[1:] - logs[0])[:, [0, 1, 2, 3, 5]]
        p = float(pearsonr(one + other, one - other).pvalue)
        found = spreads(logs, pairs)
        assert found[0] is not None
        assert (found[0].pooling is Pooling.OWN) == (p < SCREEN)
        pooled.append(p >= SCREEN)
    assert 0 < sum(pooled) < 40


def test_two_rounds_cannot_show_that_two_variants_vary_differently() -> None:
    logs = made(3, 2, [1.0, 1.0, 50.0], seed=1)
    (one, other) = spreads(logs, [(1, 0), (2, 0)])
    assert one == other
    assert one is not None
    assert one.pooling is not Pooling.OWN


def test_ratios_that_move_as_one_do_not_contradict_each_other() -> None:
    """Two variants whose ratios differ by a factor alone, to the digit."""
    logs = made(3, 5, seed=2)
    logs[2] = logs[1] + 1.0
    (one, other) = spreads(logs, [(1, 0), (2, 0)])
    assert one == other


def test_different_baselines_share_one_variance() -> None:
    """Four variants on two installs: eight rows, four comparisons."""
    logs = made(8, 4, seed=1)
    found = spreads(logs, [(row + 4, row) for row in range(4)])
    assert found[0] is not None
    assert (found[0].pooling, found[0].degrees) == (Pooling.ALL, 21)


def test_too_few_rounds_and_unused_rows() -> None:
    logs = made(5, 3, seed=4)
    logs[3, 1:] = np.nan
    logs[4] = 1e9
    found = spreads(logs, PAIRS)
    assert found[2] is None
    assert found[0] is not None
    assert found[0].degrees == 4
    assert spreads(logs[:, :1], PAIRS) == (None, None, None)
    assert spreads(np.empty((4, 0)), PAIRS) == (None, None, None)


def test_values_that_do_not_vary() -> None:
    """All equal: no variance. One that varies among others that do not: each alone."""
    still = np.repeat([[1.0], [2.0], [3.0], [4.0]], 4, axis=1)
    assert [spread.variance for spread in spreads(still, PAIRS) if spread] == pytest.approx(
        [0.0] * 3, abs=1e-20
    )
    still[3] += [0.1, -0.1, 0.2, 0.0]
    found = spreads(still, PAIRS)
    assert [spread.pooling for spread in found if spread] == [Pooling.OWN] * 3
    assert [spread.variance for spread in found[:2] if spread] == pytest.approx([0.0] * 2, abs=1e-20)


def test_satterthwaite_by_hand() -> None:
    assert satterthwaite([(3.0, 4.0)]) == pytest.approx(4)
    assert satterthwaite([(1.0, 4.0), (1.0, 4.0)]) == pytest.approx(8)
    assert satterthwaite([(9.0, 2.0), (1.0, 100.0)]) == pytest.approx(100 / 40.51)
    assert satterthwaite([(0.0, 4.0), (0.0, 2.0)]) == 6


@pytest.mark.parametrize(
    ("scenario", "coverage", "worst", "family", "width"),
    [
        (Scenario("equal", 7, 3), 0.958, 0.95, 0.96, 0.76),
        (Scenario("heavy", 4, 4, shape="heavy"), 0.96, 0.94, 0.965, 0.85),
        (Scenario("drift and failures", 5, 5, drift=0.05, missing=0.1), 0.955, 0.94, 0.96, 0.87),
        (Scenario("one of two restless", 3, 8, factors=((2, 3.0),)), 0.95, 0.95, 0.955, 1.0),
        (Scenario("restless baseline", 4, 5, factors=((0, 3.0),)), 0.945, 0.93, 0.955, 0.95),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_intervals_hold_what_they_say(
    scenario: Scenario, coverage: float, worst: float, family: float, width: float
) -> None:
    """600 seeded runs each, in which nothing differs. Shares within four standard deviations (3.4 %) of what
    20,000 runs have (bench/sure/coverage.py; ratios of a run are correlated, so theirs count as one)."""
    found = outcome(scenario, 600)
    assert found.coverage == pytest.approx(coverage, abs=0.034)
    assert found.worst >= worst - 0.034
    assert found.family == pytest.approx(family, abs=0.034)
    assert found.width == pytest.approx(width, abs=0.08)
