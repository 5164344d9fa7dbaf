"""How sure is a mean? Intervals for few values, by Student's t.

Knows numbers only. Log ratios go in, and ``Interval.exp`` brings the result back to ratios.
Quantiles come from scipy.special, which loads in a tenth of the time of scipy.stats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEVEL = 0.95
"""Level of intervals, but for those of a gate's looks and those by which a race drops a candidate."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: in repeated runs a share ``level`` of such intervals holds the truth."""

    low: float
    high: float
    level: float
    method: str
    """``t``: Student's."""

    def contains(self, value: float) -> bool:
        """Whether the value lies in the interval, ends included."""
        return self.low <= value <= self.high

    def exp(self) -> Interval:
        """The interval of a log ratio, as one of the ratio."""
        return Interval(_exp(self.low), _exp(self.high), self.level, self.method)

    def inverse(self) -> Interval:
        """The interval of the inverse ratio."""
        return Interval(1 / self.high, 1 / self.low, self.level, self.method)

    def half_width(self, centre: float) -> float:
        """The farther end's distance from ``centre``, as a share of it (0.03 is 3 %)."""
        return max(self.high - centre, centre - self.low) / abs(centre)


def _exp(log: float) -> float:
    """exp without overflow: intervals of few degrees of freedom and a high level may reach anywhere."""
    try:
        return math.exp(log)
    except OverflowError:
        return math.inf


def t_quantile(level: float, degrees: float) -> float:
    """How many standard errors a two-sided interval of that level spans on each side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def t_p_value(statistic: float, degrees: float) -> float:
    """Two-sided p value of a t statistic."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(statistic)))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """t interval of the mean; None for fewer than two values, which say nothing about their spread."""
    if len(values) < 2:
        return None
    reach = t_quantile(level, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return Interval(mean - reach, mean + reach, level, "t")


def mean_p_value(values: Sequence[float]) -> float | None:
    """p value of "the true mean is 0" (one-sample t test); None for fewer than two values."""
    if len(values) < 2:
        return None
    mean, error = fmean(values), stdev(values) / math.sqrt(len(values))
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return t_p_value(mean / error, len(values) - 1)
