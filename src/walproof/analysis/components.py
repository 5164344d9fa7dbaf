"""How much of what a ratio varies by comes from a start of the server, and how much from its slices?

The random effects model of a one-way layout, for starts of several passes each:

    log ratio of a pass = truth + start + pass

estimated by the method of moments. Passes in a row may be alike; a start's mean then varies by more than its
passes would if they were independent, by (1 + r) / (1 - r) with the correlation r of neighbours. How many
passes a start should have follows from the two components and from what each costs: Kalibera and Jones,
"Rigorous Benchmarking in Reasonable Time", ISMM 2013, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

_CORRELATION_MOST = 0.8
"""Correlation above which a start has too few passes to tell how alike they are."""


@dataclass(frozen=True, slots=True)
class Components:
    """What the ratio of a variant varies by."""

    starts: int
    passes: int
    """Number of passes in all starts together."""
    start: float
    """Standard deviation of the log ratio between starts, minus what its passes explain."""
    slice: float
    """Standard deviation within a start of the log ratio of two slices of a pass."""
    correlation: float
    """Correlation of the log ratios of neighbouring passes; 0 for independent ones."""

    @property
    def start_share(self) -> float:
        """Share of the variance of a start's ratio that more passes would not remove. 0 to 1."""
        within = self.slice**2 * inflation(self.correlation) * self.starts / self.passes
        total = self.start**2 + within
        return self.start**2 / total if total > 0 else 0.0

    def passes_best(self, start_s: float, pass_s: float) -> int | None:
        """Passes of a start that make the interval narrowest in a given time.

        A start takes ``start_s`` seconds in addition to its passes, a pass ``pass_s``. At least 2; None where
        starts do not differ, so that more passes are always better.
        """
        if self.start <= 0:
            return None
        within = self.slice * math.sqrt(inflation(self.correlation))
        return max(2, round(math.sqrt(start_s / pass_s) * within / self.start))


def components(starts: Sequence[Sequence[float]]) -> Components | None:
    """From the log ratios of the passes of each start, in their order; None for fewer than two starts, or
    where no start has two passes."""
    usable = [start for start in starts if start]
    count = sum(len(start) for start in usable)
    degrees = count - len(usable)
    if len(usable) < 2 or degrees < 1:
        return None
    within = sum((len(start) - 1) * stdev(start) ** 2 for start in usable if len(start) > 1) / degrees
    correlation = lag1(usable) or 0.0
    means = [fmean(start) for start in usable]
    # The mean of 1/n: what a start of its own length varies by.
    inverse = fmean(1 / len(start) for start in usable)
    between = stdev(means) ** 2 - within * inflation(correlation) * inverse
    return Components(
        starts=len(usable),
        passes=count,
        start=math.sqrt(max(0.0, between)),
        slice=math.sqrt(within),
        correlation=correlation,
    )


def inflation(correlation: float) -> float:
    """What the variance of a mean is multiplied by where neighbours correlate by so much (an autoregressive
    walk); never below 1."""
    kept = min(max(correlation, 0.0), _CORRELATION_MOST)
    return (1 + kept) / (1 - kept)


def lag1(starts: Sequence[Sequence[float]]) -> float | None:
    """Correlation of neighbours, about each start's mean, with the bias of short starts taken off (an
    independent walk of n values has a correlation of -1/n); None where no start of three values varies."""
    power = product = 0.0
    lengths = []
    for start in starts:
        if len(start) < 3:
            continue
        mean = fmean(start)
        rest = [value - mean for value in start]
        power += sum(value**2 for value in rest)
        product += sum(value * other for value, other in pairwise(rest))
        lengths.append(len(start))
    return product / power + 1 / fmean(lengths) if power > 0 else None
