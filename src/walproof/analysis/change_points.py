"""Where a row of measurements has changed its level, and by how much.

The test is a permutation test of the maximally selected two-sample statistic (Hothorn and Zeileis 2008;
Zeileis and Hothorn 2013): the row is cut where the difference of the two means is largest for its standard
error, and that difference is held against the largest ones of the same values in random order. Where no such
cut stands out, the stretch in the middle of the row that differs most from the rest is tried in the same way
(circular binary segmentation; Olshen, Venkatraman, Lucito and Wigler 2004): a level that came back. What is
found divides the row, and its parts are looked at again.

Where order means nothing, every order is equally likely, so a row without a change is called changed in
``LEVEL`` of the cases at most, whatever the distribution of its values. A slow drift is called a step, too.
The size is the difference of the means on both sides up to the next changes, with Welch's interval. The place
was chosen because the difference is large there, so sizes of small changes are a little too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from walproof.analysis.interval import LEVEL as INTERVAL_LEVEL
from walproof.analysis.interval import Interval, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[Any]
    Scan: TypeAlias = Callable[[Values], tuple[Values, Values]]

LEVEL = 0.01
"""Share of rows without a change that may be called changed."""
LEAST = 12
"""Values of a row: of fewer no order is rare enough to say anything (2 of the 252 ways to halve 10 values
are as extreme as a step in their middle)."""
MOST = 200
"""How many of the newest values are examined."""
_SIDE = 2
"""Fewest values on each side of a change: a single value is not a level."""
_PERMUTATIONS = 1999
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change between two neighbours of a row."""

    place: int
    """Index of the first value after it."""
    difference: float
    """Mean after it less mean before it."""
    interval: Interval
    """95 % interval of ``difference``, as if the place had been known."""
    p: float


def change_points(values: Sequence[float], seed: int = 1) -> list[ChangePoint]:
    """The changes of a row, in order; pass logarithms where ratios matter."""
    import numpy as np

    skipped = max(0, len(values) - MOST)
    row = np.array(values[skipped:], dtype=np.float64)
    found = sorted(_cuts(row, 0, np.random.default_rng(seed)))
    ends = [0, *(place for place, _ in found), len(row)]
    made = []
    for number, (place, p) in enumerate(found, 1):
        before, after = row[ends[number - 1] : place], row[place : ends[number + 1]]
        difference, interval = _size(before, after)
        made.append(ChangePoint(skipped + place, difference, interval, p))
    return made


def _cuts(row: Values, offset: int, chance: np.random.Generator) -> Iterator[tuple[int, float]]:
    """(place, p) of each change of the row."""
    if len(row) < LEAST:
        return
    for scan in (_steps, _stretches):
        p = _p_value(row, scan, chance)
        if p <= LEVEL / 2:  # there are two scans
            break
    else:
        return
    (places,), _ = scan(row[None, :])
    cuts = [int(place) for place in places if 0 < place < len(row)]
    for begin, end in pairwise((0, *cuts, len(row))):
        if begin:
            yield offset + begin, p
        yield from _cuts(row[begin:end], offset + begin, chance)


def _p_value(row: Values, scan: Scan, chance: np.random.Generator) -> float:
    """Share of orders of the row, its own among them, in which the scan finds as large a difference."""
    import numpy as np

    found = scan(row[None, :])[1][0]
    if found <= 0:
        return 1.0
    reached = 1
    for begin in range(0, _PERMUTATIONS, _CHUNK):
        rows = np.tile(row, (min(_CHUNK, _PERMUTATIONS - begin), 1))
        # Equal but for rounding, as many orders of a few values are, counts as reached.
        reached += int((scan(chance.permuted(rows, axis=1))[1] >= found * (1 - 1e-9)).sum())
    return reached / (_PERMUTATIONS + 1)


def _steps(rows: Values) -> tuple[Values, Values]:
    """Of each row (begin, end) of what comes after its best cut, and the share of the variation between both
    sides, which orders cuts as Student's t with a common variance does."""
    import numpy as np

    n = rows.shape[1]
    left = np.arange(_SIDE, n - _SIDE + 1)
    sums = np.cumsum(_centred(rows), axis=1)[:, left - 1]
    between = sums**2 * n / (left * (n - left))
    best = between.argmax(axis=1)
    largest = np.take_along_axis(between, best[:, None], axis=1)[:, 0]
    return np.stack([left[best], np.full(len(rows), n)], axis=1), _shares(rows, largest)


def _stretches(rows: Values) -> tuple[Values, Values]:
    """The same for the stretch that differs most from the rest of its row; before it and after it is nothing,
    or no fewer values than a level has."""
    import numpy as np

    count, n = rows.shape
    sums = np.zeros((count, n + 1))
    np.cumsum(_centred(rows), axis=1, out=sums[:, 1:])
    largest, places = np.zeros(count), np.zeros((count, 2), dtype=np.int64)
    for length in range(_SIDE, n - _SIDE + 1):
        between = (sums[:, length:] - sums[:, :-length]) ** 2 * (n / (length * (n - length)))
        between[:, 1:_SIDE] = 0.0
        between[:, n - length - _SIDE + 1 : n - length] = 0.0
        begin = between.argmax(axis=1)
        found = np.take_along_axis(between, begin[:, None], axis=1)[:, 0]
        is_larger = found > largest
        largest = np.where(is_larger, found, largest)
        places[is_larger] = np.stack([begin, begin + length], axis=1)[is_larger]
    return places, _shares(rows, largest)


def _centred(rows: Values) -> Values:
    centred: Values = rows - rows.mean(axis=1, keepdims=True)
    return centred


def _shares(rows: Values, between: Values) -> Values:
    """Of the whole variation of each row; 0 for a row whose values are all equal."""
    import numpy as np

    total = (_centred(rows) ** 2).sum(axis=1)
    is_varied = total > 1e-24 * np.maximum(1.0, (rows**2).sum(axis=1))
    return np.where(is_varied, between / np.where(is_varied, total, 1.0), 0.0)


def _size(before: Values, after: Values) -> tuple[float, Interval]:
    """Difference of the means, with Welch's interval."""
    difference = float(after.mean() - before.mean())
    parts = [float(side.var(ddof=1)) / len(side) for side in (before, after)]
    variance = sum(parts)
    if variance <= 0:
        return difference, Interval(difference, difference, INTERVAL_LEVEL, "t")
    degrees = variance**2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True)
    )
    width = t_quantile(INTERVAL_LEVEL, degrees) * math.sqrt(variance)
    return difference, Interval(difference - width, difference + width, INTERVAL_LEVEL, "t")
