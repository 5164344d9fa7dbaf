"""Which values stand apart? Modified z-scores on the median absolute deviation. Flags, never drops.

Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993): 0.6745 is the quartile of a normal
distribution, so that a score means what a z-score would, were there no outliers; 3.5 is their limit.
A flag is a reason to look at a trial, no more: of 5 to 10 values of normal noise, one group in six has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

LIMIT = 3.5
COUNT_MIN = 5
"""With fewer values the deviation of the middle ones is luck: of three, two are close by chance."""


def modified_z_scores(values: Sequence[float]) -> tuple[float, ...]:
    """How far each value is from the median, in robust standard deviations; 0 where nothing varies."""
    if not values:
        return ()
    centre = median(values)
    distances = [abs(value - centre) for value in values]
    # More than half of the values equal: the median deviation is 0, the mean deviation is the fallback
    # of the same authors (1.2533 = sqrt(pi/2), the normal's ratio of the two).
    unit = median(distances) / 0.6745 or fmean(distances) * 1.2533
    return tuple((value - centre) / unit if unit else 0.0 for value in values)


def flag_outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Which values are outliers; none among fewer than COUNT_MIN values."""
    if len(values) < COUNT_MIN:
        return (False,) * len(values)
    return tuple(abs(score) > LIMIT for score in modified_z_scores(values))
