"""How much does a log ratio vary from round to round? One answer for all variants, unless they contradict it.

Three rounds of one variant leave two degrees of freedom: their interval is 4.3 standard errors to each side,
of which 1.96 are noise and the rest is the price of not knowing the noise. Seven variants that vary alike
know it from twelve degrees of freedom (2.2 standard errors). The model of log values is additive,

    log y = variant + round + e        e independent, with variance s2

whose least squares leave s2 with (cells - 1)(rounds - 1) degrees of freedom, and a log ratio of a round
varies by 2 s2. That ratios to one baseline share its trial, so that they are correlated by a half, is in the
model.

Two ways in which variants contradict it are looked for, each by a test at SCREEN:

- the baseline varies more than the others (F test). Then a ratio varies by what the baseline does, from its
  n - 1 degrees of freedom, and what the variants do, from theirs; the degrees of freedom of such a sum are
  Satterthwaite's (1946).
- the variants vary differently among one another (Bartlett 1937). Then each ratio is judged from its rounds
  alone, as a paired t interval does. Of two variants the fit leaves the same residuals but for the sign,
  which say nothing of that; theirs is the test of correlated variances (Pitman 1939; Morgan 1939).

The screen is far from 0.05 because missing a difference costs coverage and seeing one that is not there costs
only width. ``bench/sure/rules.py`` has this rule beside others, ``bench/sure/coverage.py`` measures it as it
is here; ``docs/records/2026-11-statistics.md`` has what they found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logs: TypeAlias = NDArray[np.float64]

SCREEN = 0.5
"""p value below which spreads count as different."""
_ROUNDING = 1e-24
"""Variance of logarithms below which values are equal except for rounding."""


class Pooling(Enum):
    """The variants whose rounds a spread was taken from."""

    ALL = "all variants and the baseline"
    VARIANTS = "all variants; the baseline apart"
    """The baseline varies more than they do."""
    OWN = "the variant alone"
    """The variants' spreads differ, or there is nothing else to take it from."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How much one comparison varies."""

    variance: float
    """Variance of the log ratio of one round; that of the mean of n rounds is an n-th of it."""
    degrees: float
    """Of freedom."""
    pooling: Pooling
    shared: float
    """Share of ``variance`` that comes from the baseline, by which its comparisons correlate; 0: unknown."""


def satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent estimated variances, each ``(variance, degrees)``.

    Satterthwaite, "An approximate distribution of estimates of variance components", 1946: the chi-square
    distribution whose variance is that of the sum.
    """
    total = sum(variance for variance, _ in parts)
    if total <= 0:
        return sum(degrees for _, degrees in parts)
    return total**2 / sum(variance**2 / degrees for variance, degrees in parts if variance > 0)


def spreads(logs: Logs, pairs: Sequence[tuple[int, int]]) -> tuple[Spread | None, ...]:
    """The spread of each comparison ``(row, row of its baseline)`` of ``logs``.

    ``logs`` has a row a cell and a column a round, NaN where there is no value. Rows that no comparison names
    are not used. None for comparisons of fewer than two rounds.
    """
    import numpy as np

    ratios = np.array([logs[row] - logs[base] for row, base in pairs]).reshape(len(pairs), -1)
    counts = np.isfinite(ratios).sum(axis=1)
    usable = [index for index in range(len(pairs)) if counts[index] >= 2]
    each = [_own(ratios[index]) if index in usable else None for index in range(len(pairs))]
    still = [spread.variance < _ROUNDING for spread in each if spread is not None]
    # What does not vary at all is a count, and says nothing of what varies.
    if len(usable) < 2 or any(still) != all(still):
        return tuple(each)
    rows = sorted({row for index in usable for row in pairs[index]})
    fit = _fit(_in_use(logs[rows]))
    bases = {pairs[index][1] for index in usable}
    if len(bases) == 1:
        common = _of_one_baseline(ratios[usable], fit)
    else:
        common = (
            None if _contradict(fit) else Spread(_rounded(2 * fit.variance), fit.degrees, Pooling.ALL, 0.5)
        )
    if common is None:
        return tuple(each)
    return tuple(common if index in usable else None for index in range(len(pairs)))


@dataclass(frozen=True, slots=True)
class _Fit:
    """Least squares of row + column."""

    squares: Logs
    """Sum of the squared residuals of each row."""
    freedoms: Logs
    """Degrees of freedom that are left in each row; together ``degrees``."""
    counts: Logs
    """Values of each row."""
    degrees: float

    @property
    def variance(self) -> float:
        return float(self.squares.sum()) / self.degrees


def _own(ratios: Logs) -> Spread:
    import numpy as np

    values = ratios[np.isfinite(ratios)]
    return Spread(_rounded(float(values.var(ddof=1))), float(len(values) - 1), Pooling.OWN, 0.0)


def _of_one_baseline(ratios: Logs, fit: _Fit) -> Spread | None:
    """The common spread of ratios to one baseline; None where the variants contradict it."""
    import numpy as np

    among = _fit(_in_use(ratios))
    if among.degrees <= 0 or (_differ(ratios) if len(ratios) == 2 else _contradict(among)):
        return None
    # The mean of the ratios' variances holds the baseline's: what is left of it without the variants' part
    # is the mean ratio's, which has the degrees of freedom of one row.
    counts = np.isfinite(ratios).sum(axis=1)
    variances = np.nanvar(ratios, axis=1, ddof=1)
    total = float(((counts - 1) * variances).sum() / (counts - 1).sum())
    together = float(np.isfinite(ratios).sum() / np.isfinite(ratios).any(axis=0).sum())
    inner = (1 - 1 / together) * among.variance
    outer = max(0.0, total - inner)
    rows = float(counts.max() - 1)
    expected = (1 + 1 / together) * among.variance
    if _exceeds(outer, rows, expected, among.degrees):
        shared = min(1.0, max(0.0, 1 - among.variance / total)) if total > 0 else 0.0
        degrees = satterthwaite([(outer, rows), (inner, among.degrees)])
        return Spread(total, degrees, Pooling.VARIANTS, shared)
    return Spread(_rounded(2 * fit.variance), fit.degrees, Pooling.ALL, 0.5)


def _rounded(variance: float) -> float:
    """Zero where it comes from rounding errors alone."""
    return variance if variance >= _ROUNDING else 0.0


def _in_use(logs: Logs) -> Logs:
    """Without columns that have fewer than two values, which say nothing of differences."""
    import numpy as np

    return logs[:, np.isfinite(logs).sum(axis=0) >= 2]


def _fit(logs: Logs) -> _Fit:
    import numpy as np

    rows, columns = logs.shape
    at_row, at_column = np.nonzero(np.isfinite(logs))
    values = logs[at_row, at_column]
    values = values - values.mean() if len(values) else values
    # The normal equations are small: a row each for rows and columns, not for values.
    system = np.zeros((rows + columns, rows + columns))
    np.add.at(system, (at_row, at_row), 1.0)
    np.add.at(system, (rows + at_column, rows + at_column), 1.0)
    np.add.at(system, (at_row, rows + at_column), 1.0)
    np.add.at(system, (rows + at_column, at_row), 1.0)
    inverse = np.linalg.pinv(system, rcond=1e-10, hermitian=True)
    totals = np.concatenate([np.bincount(at_row, values, rows), np.bincount(at_column, values, columns)])
    effects = inverse @ totals
    residuals = values - effects[at_row] - effects[rows + at_column]
    leverage = (
        inverse[at_row, at_row]
        + inverse[rows + at_column, rows + at_column]
        + 2 * inverse[at_row, rows + at_column]
    )
    freedoms = np.bincount(at_row, 1 - leverage, rows).astype(np.float64)
    return _Fit(
        squares=np.bincount(at_row, residuals**2, rows).astype(np.float64),
        freedoms=freedoms,
        counts=np.bincount(at_row, minlength=rows).astype(float),
        degrees=float(round(float(freedoms.sum()))),
    )


def _contradict(fit: _Fit) -> bool:
    """Whether the rows vary differently, by Bartlett's test of their mean squares."""
    import numpy as np
    from scipy.special import chdtrc

    if fit.degrees <= 0:
        return True
    if fit.variance < _ROUNDING:
        return False
    used = fit.freedoms > 1e-6
    squares = fit.squares[used] / fit.freedoms[used]
    if (squares < _ROUNDING).any():
        return True
    # Each row's sum of squares is a chi-square of its own n - 1 degrees; the fit spreads the loss of the
    # columns' degrees over the rows.
    degrees = np.maximum(fit.counts[used] - 1, 1.0)
    total, count = float(degrees.sum()), int(used.sum())
    if count < 2:
        return False
    mean = float((degrees * squares).sum()) / total
    statistic = total * math.log(mean) - float((degrees * np.log(squares)).sum())
    statistic /= 1 + (float((1 / degrees).sum()) - 1 / total) / (3 * (count - 1))
    return bool(chdtrc(count - 1, statistic) < SCREEN)


def _differ(ratios: Logs) -> bool:
    """Whether two rows vary differently, by the test of Pitman and Morgan.

    Their sum and their difference are correlated exactly where their variances differ, whatever the rows have
    in common. Two rounds leave the test no degree of freedom: nothing can contradict there.
    """
    import numpy as np
    from scipy.special import betainc

    both = ratios[:, np.isfinite(ratios).all(axis=0)]
    degrees = both.shape[1] - 2
    if degrees < 1:
        return False
    one, other = both - both.mean(axis=1, keepdims=True)
    total, apart = one + other, one - other
    squares = float((total**2).sum()), float((apart**2).sum())
    if min(squares) < _ROUNDING:
        return False
    share = min(1.0, float((total * apart).sum()) ** 2 / (squares[0] * squares[1]))
    # The p value of a correlation whose square that is.
    return bool(betainc(degrees / 2, 0.5, 1 - share) < SCREEN)


def _exceeds(variance: float, degrees: float, expected: float, others: float) -> bool:
    """Whether a variance is larger than expected, by an F test against an estimate of ``others`` degrees."""
    from scipy.special import fdtrc

    if expected < _ROUNDING:
        return variance >= _ROUNDING
    return bool(fdtrc(degrees, others, variance / expected) < SCREEN)
