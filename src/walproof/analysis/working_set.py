"""How unevenly rows are chosen, from how many page images their changes made.

After a checkpoint the first change of a page logs it whole. So the images of a table count the pages that
were touched, and of two loads with as many changes, the one that returns to the same rows makes fewer.

With n draws of a row by chance p_j the row is missed with probability exp(-n p_j) (Poisson). Where rows that
are drawn often lie anywhere, a page of m rows is missed with the m-th power of the mean of that over all
rows; where they lie side by side, with the product over its own rows:

    scattered   pages touched = P (1 - phi(n)^m),    phi(n) = mean over rows of exp(-n p_j)
    adjacent    pages touched = sum over pages of 1 - exp(-n q),    q = sum of p_j over the page's rows

as in the theory of occupancy (Johnson, Kotz, "Urn Models and Their Application", 1977). The laws are those
that pgbench can draw: ``random``, ``random_exponential``, ``random_zipfian`` (manual, "pgbench").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from walproof.facts.application import CyclePart

_EXACT = 1000
"""Ranks that are looked at one by one; further ones in bins that grow, each by about a hundredth: pages that
are touched differ by less than a thousandth, for a tenth of the work."""
_BINS = 400
_EVEN = 0.97
"""Share of the images of even draws above which draws count as even."""
_ALIEN = 1.5
"""Times the images of even draws above which it is not the draws that make them."""
_TELLING = 1.2
"""Exponent that has to be told from even draws."""


class Law(Enum):
    """How rows are drawn."""

    EVEN = "even"
    EXPONENTIAL = "exponential"
    ZIPF = "zipf"


RANGE = {Law.ZIPF: (1.001, 3.0), Law.EXPONENTIAL: (0.01, 200.0)}
"""Parameters that are looked at. Of Zipf's law pgbench takes 1.001 and more."""


@dataclass(frozen=True, slots=True)
class Draws:
    """A law and its parameter."""

    law: Law = Law.EVEN
    parameter: float = 0.0
    is_adjacent: bool = False
    """Whether rows that are drawn often lie side by side."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A heap or an index whose pages are touched: by the draw of a row for each change."""

    rows: int
    pages: float
    changes_per_s: float
    share: float = 1.0
    """Share of these changes, and of their images, that is asked about."""
    draws: Draws | None = None
    """Law of its draws, where that is known already."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Images that were counted, in the whole time and in its first half."""

    all: float
    first_half: float


def images(families: Sequence[Pages], parts: Sequence[CyclePart], draws: Draws) -> float:
    """Images that the changes of a table make in these parts of cycles."""
    total = 0.0
    for part in parts:
        for family in families:
            first = family.changes_per_s * part.before_s
            last = first + family.changes_per_s * part.seconds
            law = family.draws or draws
            more = touched(family, last, law) - touched(family, first, law)
            total += part.count * family.share * more
    return total


def touched(family: Pages, changes: float, draws: Draws) -> float:
    """Distinct pages that so many changes touch."""
    rows, pages = family.rows, min(family.pages, family.rows)
    if pages <= 0 or changes <= 0:
        return 0.0
    if draws.law is Law.EVEN:
        return float(pages * -math.expm1(-changes / pages))
    if draws.is_adjacent:
        chances, weights = _chances(draws.law, draws.parameter, round(pages), rows / round(pages))
        return float((-np.expm1(-changes * chances) * weights).sum())
    chances, weights = _chances(draws.law, draws.parameter, rows, 1.0)
    missed = float((np.exp(-changes * chances) * weights).sum()) / rows
    if missed <= 0.0:
        return float(pages)  # as good as no row, less than a float tells
    return float(pages * -math.expm1(rows / pages * math.log(missed)))


def fit(families: Sequence[Pages], parts: Sequence[CyclePart], counted: Counted) -> Draws | None:
    """The law under which a table's changes make as many images as were counted.

    Each law gets the parameter with which it makes as many in the whole time; the law is taken that is
    nearest to what was counted in the first half. None where nothing can be told: nearly every page was
    touched, whatever the law, or far more images were counted than even draws make, so that something else
    makes images, too.
    """
    even = images(families, parts, Draws())
    if even <= 0 or counted.all > _ALIEN * even:
        return None
    if images(families, parts, Draws(Law.ZIPF, _TELLING)) > _EVEN * even:
        return None
    if counted.all >= _EVEN * even:
        return Draws()
    early = [part for part in parts if part.is_first_half]
    found = [
        solved
        for law in RANGE
        for is_adjacent in (False, True)
        if (solved := _solve(families, parts, counted.all, law, is_adjacent=is_adjacent)) is not None
    ]
    if not found:
        return None
    return min(found, key=lambda draws: abs(images(families, early, draws) - counted.first_half))


def nearest(
    families: Sequence[Pages], parts: Sequence[CyclePart], counted: Counted, laws: Sequence[Draws]
) -> Draws:
    """The one of the laws under which a table's changes make as many images as were counted, or nearly."""
    return min(laws, key=lambda draws: abs(images(families, parts, draws) - counted.all))


def _solve(
    families: Sequence[Pages], parts: Sequence[CyclePart], counted: float, law: Law, *, is_adjacent: bool
) -> Draws | None:
    def excess(parameter: float) -> float:
        return images(families, parts, Draws(law, parameter, is_adjacent)) - counted

    low, high = RANGE[law]
    if excess(low) < 0 or excess(high) > 0:
        return None
    return Draws(law, float(brentq(excess, low, high, xtol=1e-3)), is_adjacent)


@lru_cache(maxsize=256)
def _chances(
    law: Law, parameter: float, count: int, width: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(chance of an item, number of items like it); each item holds ``width`` neighbouring ranks."""
    edges = np.arange(min(count, _EXACT) + 1, dtype=float)
    if count > _EXACT:
        edges = np.concatenate([edges, np.unique(np.geomspace(_EXACT, count, _BINS).round())[1:]])
    below = _below(law, parameter, edges * width, count * width)
    weights = np.diff(edges)
    return np.diff(below) / weights, weights


def _below(law: Law, parameter: float, ranks: NDArray[np.float64], count: float) -> NDArray[np.float64]:
    """Chance of a rank up to each of these."""
    if law is Law.EXPONENTIAL:
        share: NDArray[np.float64] = np.expm1(-parameter * ranks / count) / math.expm1(-parameter)
        return share
    total = _zipf_sum(np.array([count]), parameter)[0]
    sums: NDArray[np.float64] = _zipf_sum(ranks, parameter) / total
    return sums


def _zipf_sum(ranks: NDArray[np.float64], s: float) -> NDArray[np.float64]:
    """Sum of j^-s for j up to each rank: the first ones as they are, then Euler and Maclaurin's formula."""
    first = 20.0
    heads = np.concatenate([[0.0], np.cumsum(np.arange(1.0, first + 1) ** -s)])
    beyond = np.maximum(ranks, first)
    tail = (beyond ** (1 - s) - first ** (1 - s)) / (1 - s) + (beyond**-s - first**-s) / 2
    sums: NDArray[np.float64] = np.interp(ranks, np.arange(first + 1), heads) + tail
    return sums
