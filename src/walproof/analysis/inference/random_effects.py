"""Estimates of several hosts put together: what they have in common, and how they differ. Arrays alone.

Each host's estimate has an error of its own and a difference of its own: ``y_i = mu + u_i + e_i``, the
variance of ``e_i`` known from the host's rounds, that of ``u_i`` (``tau^2``) the same for all. ``tau^2`` is
Paule and Mandel's (1982), the interval of ``mu`` that of Hartung and Knapp (2001), never narrower than
without their factor (Roever, Knapp and Friede 2015). The interval for one more host is that of Higgins,
Thompson and Spiegelhalter (2009), which is too narrow for few hosts, or that of one more value of a normal
sample (Hahn and Meeker 1991), whichever is wider. A host stands apart by its deleted residual (Viechtbauer
and Cheung 2010).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import variance

from walproof.analysis.comparisons import adjust_p_values
from walproof.analysis.interval import LEVEL, Interval, t_p_value, t_quantile

_LEAST_VARIANCE = 1e-12
"""Smallest variance: equal values would have none and outweigh everything."""


@dataclass(frozen=True, slots=True)
class RandomEffects:
    """What several estimates say together."""

    mean: float
    error: float
    """Standard error of ``mean``, after Hartung and Knapp."""
    tau: float
    """Standard deviation between hosts."""
    interval: Interval
    """Interval of ``mean``: these hosts stand for all hosts."""
    prediction: Interval | None
    """Interval for the true value of one more host like these; None for fewer than three."""


def combine(values: Sequence[float], variances: Sequence[float]) -> RandomEffects:
    """At least two estimates, with the variances of their errors."""
    assert len(values) == len(variances) >= 2
    known = [max(variance, _LEAST_VARIANCE) for variance in variances]
    tau2 = _between(values, known)
    mean, weights = _weighted(values, known, tau2)
    degrees = len(values) - 1
    factor = max(1.0, sum(w * (y - mean) ** 2 for w, y in zip(weights, values, strict=True)) / degrees)
    error = math.sqrt(factor / sum(weights))
    reach = t_quantile(LEVEL, degrees) * error
    prediction = None
    if degrees >= 2:
        wide = max(
            t_quantile(LEVEL, degrees - 1) * math.sqrt(tau2 + error**2),
            t_quantile(LEVEL, degrees) * math.sqrt(variance(values) * (1 + 1 / len(values))),
        )
        prediction = Interval(mean - wide, mean + wide, LEVEL, "t")
    interval = Interval(mean - reach, mean + reach, LEVEL, "t")
    return RandomEffects(mean, error, math.sqrt(tau2), interval, prediction)


def apart(values: Sequence[float], variances: Sequence[float]) -> tuple[tuple[float, float] | None, ...]:
    """How far each estimate is from what the others predict, and the p value of that.

    The p values are adjusted for all hosts (Holm). None for every host of fewer than four: the others have
    to show how much hosts differ.
    """
    if len(values) < 4:
        return (None,) * len(values)
    distances, p_values = [], []
    for index, (value, spread) in enumerate(zip(values, variances, strict=True)):
        rest = [other for at, other in enumerate(values) if at != index]
        others = combine(rest, [other for at, other in enumerate(variances) if at != index])
        distance = value - others.mean
        error = math.sqrt(max(spread, _LEAST_VARIANCE) + others.tau**2 + others.error**2)
        distances.append(distance)
        p_values.append(t_p_value(distance / error, len(values) - 2))
    adjusted = adjust_p_values(p_values)
    return tuple(
        None if p is None else (distance, p) for distance, p in zip(distances, adjusted, strict=True)
    )


def _weighted(values: Sequence[float], variances: Sequence[float], tau2: float) -> tuple[float, list[float]]:
    weights = [1 / (variance + tau2) for variance in variances]
    return sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights), weights


def _between(values: Sequence[float], variances: Sequence[float]) -> float:
    """The variance between hosts at which the weighted squares are as many as they should be."""
    from scipy.optimize import brentq

    degrees = len(values) - 1

    def excess(tau2: float) -> float:
        mean, weights = _weighted(values, variances, tau2)
        return sum(w * (y - mean) ** 2 for w, y in zip(weights, values, strict=True)) - degrees

    if excess(0.0) <= 0:
        return 0.0
    high = max(values) - min(values)
    # With all weights equal the squares are those of a sample, whose variance is below its range's square.
    return float(brentq(excess, 0.0, high**2 + max(variances), xtol=1e-15))
