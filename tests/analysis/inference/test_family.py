"""The largest |t| of a family: against scipy's multivariate t, Dunnett's own tables, and its promise."""

from __future__ import annotations

import numpy as np
import pytest

from walproof.analysis.inference.family import Compared, family_p_values
from walproof.analysis.interval import t_p_value


def compared(p: float, degrees: float = 12, group: str = "default", shared: float = 0.5) -> Compared:
    return Compared(p, degrees, group, shared, is_pooled=True)


@pytest.mark.parametrize(
    ("count", "degrees", "table"),
    [(2, 10, 2.57), (3, 12, 2.68), (6, 12, 2.98), (9, 20, 2.95), (4, 60, 2.51), (1, 12, 2.18)],
)
def test_critical_values_are_those_of_dunnetts_table(count: int, degrees: float, table: float) -> None:
    """Dunnett (1964), two-sided, 5 %, equal numbers of observations."""
    largest = compared(t_p_value(table, degrees), degrees)
    (found, *_) = family_p_values([largest, *[compared(1.0, degrees)] * (count - 1)])
    assert found == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize("degrees", [2, 5, 40])
@pytest.mark.parametrize("count", [2, 5])
def test_agrees_with_scipys_multivariate_t(count: int, degrees: int) -> None:
    """The chance that none is larger, by quasi-Monte Carlo over the whole correlation matrix."""
    from scipy.stats import multivariate_t

    matrix = np.full((count, count), 0.5) + 0.5 * np.eye(count)
    for reach in (1.0, 2.5, 6.0):
        p = t_p_value(reach, degrees)
        inside = multivariate_t(shape=matrix, df=degrees, seed=1).cdf(
            [reach] * count, lower_limit=[-reach] * count, maxpts=200_000
        )
        (found, *_) = family_p_values([compared(p, degrees), *[compared(1.0, degrees)] * (count - 1)])
        assert found == pytest.approx(1 - float(inside), abs=3e-4)


def test_agrees_with_scipys_dunnett() -> None:
    from scipy.stats import dunnett

    chance = np.random.default_rng(3)
    control, groups = chance.normal(0, 1, 6), [chance.normal(shift, 1, 6) for shift in (0.2, 0.9, 1.8)]
    theirs = dunnett(*groups, control=control, rng=np.random.default_rng(1)).pvalue
    degrees = 20
    variance = float(np.mean([group.var(ddof=1) for group in (*groups, control)]))
    statistics = [float(group.mean() - control.mean()) / (variance * 2 / 6) ** 0.5 for group in groups]
    ours = family_p_values([compared(t_p_value(statistic, degrees), degrees) for statistic in statistics])
    assert ours == pytest.approx(tuple(theirs), abs=2e-3)


def test_between_its_own_p_value_and_bonferronis_bound() -> None:
    for p in (1e-12, 1e-6, 0.001, 0.04, 0.5, 1.0):
        family = [compared(p), compared(0.3), compared(0.6), compared(0.9, group="other")]
        (found, *rest) = family_p_values(family)
        assert p <= found <= min(1.0, 4 * p)
        assert all(adjusted >= single.p for adjusted, single in zip(rest, family[1:], strict=True))


def test_correlated_comparisons_are_dearer_than_one_and_cheaper_than_independent_ones() -> None:
    independent = family_p_values([compared(0.02, shared=0.0)] * 6)[0]
    correlated = family_p_values([compared(0.02)] * 6)[0]
    identical = family_p_values([compared(0.02, shared=1.0)] * 6)[0]
    assert 0.02 <= identical < correlated < independent <= 0.12
    assert identical == pytest.approx(0.02, abs=0.002)


def test_groups_are_independent_and_an_empty_family_has_no_values() -> None:
    assert family_p_values([]) == ()
    assert family_p_values([compared(0.03)]) == (0.03,)
    two = family_p_values([compared(0.03), compared(0.03, group="other")])
    assert two == pytest.approx((1 - 0.97**2,) * 2)
    family = [Compared(0.03, 2, "default", 0.0, is_pooled=False)] * 2
    assert family_p_values(family) == pytest.approx((1 - 0.97**2,) * 2)
    assert family_p_values([compared(0.0), compared(1.0)]) == (0.0, 1.0)
