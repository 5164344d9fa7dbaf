"""When may a decision be taken early? A few planned looks, each with its part of the allowed error.

Whoever looks five times at the 5 % level finds a difference where there is none in 14 % of the runs. Group
sequential tests (Lan and DeMets 1983) plan the looks instead: a spending function says how much of the error
may be spent by the time that a share of all information is there, and each look's limit follows from that and
from the looks before it. The function here is of O'Brien and Fleming's type: hardly anything early, nearly
all at the end, so that the last look's limit is close to that of a test with one look.

    alpha(share) = 2 (2 - 2 Phi(z(1 - alpha / 4) / sqrt(share)))        alpha / 2 on each side

How a gate is built on it (``walproof.analysis.gate``). Plan at most LOOKS_MOST looks as shares of the rounds
at most (``planned_looks``), compute ``looks(shares, alpha)`` once, and after the rounds of look k take the
interval of the level ``1 - look.p``, which keeps its promise over all looks. A decision is made, early or at
the end, when all of the interval lies on one side of the limit. Against no difference that is the same as a
two-sided p value of the comparison that is at most ``look.p``.

Limits are nominal p values, not z values, so that they serve t statistics of few degrees of freedom, too
(Jennison and Turnbull 2000, the significance level approach; ``tests/analysis/inference/test_looks.py``
measures the error). All here are functions of numbers; a resumed run looks at the same rounds again and
decides the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOOKS_MOST = 5
_STEP = 0.02
"""Step of the grid, in standard deviations of all information."""


@dataclass(frozen=True, slots=True)
class PlannedLook:
    """One planned look."""

    share: float
    """Share of all information (rounds), 0 to 1."""
    spent: float
    """Error that is spent by then, over all looks so far."""
    p: float
    """The limit: the largest two-sided p value of this look alone that decides."""


def planned_looks(first: int, most: int, count: int = LOOKS_MOST) -> tuple[int, ...]:
    """The rounds after which to look: at most ``count``, from ``first`` to ``most``, evenly spaced."""
    if not 1 <= first <= most:
        raise ValueError(f"{first} rounds before the first look, of {most}")
    if not 1 <= count <= LOOKS_MOST:
        raise ValueError(f"{count} looks, expected 1 to {LOOKS_MOST}")
    count = min(count, most - first + 1)
    if count == 1:
        return (most,)
    return tuple(first + round(step * (most - first) / (count - 1)) for step in range(count))


def spent(share: float, alpha: float) -> float:
    """Error that may be spent by the time that ``share`` of all information is there."""
    from scipy.special import ndtr, ndtri

    if share <= 0:
        return 0.0
    return float(4 * ndtr(-float(ndtri(1 - alpha / 4)) / math.sqrt(min(1.0, share))))


def looks(shares: Sequence[float], alpha: float = 0.05) -> tuple[PlannedLook, ...]:
    """The looks at these shares of all information, ascending, with their limits. Two-sided.

    Raises ValueError for shares that do not ascend, exceed 1, or are more than LOOKS_MOST.
    """
    if not shares or len(shares) > LOOKS_MOST:
        raise ValueError(f"{len(shares)} looks, expected 1 to {LOOKS_MOST}")
    if any(after <= before for before, after in zip([0.0, *shares], shares, strict=False)) or shares[-1] > 1:
        raise ValueError(f"shares {list(shares)} do not ascend from above 0 to at most 1")
    from scipy.special import ndtr

    found: list[PlannedLook] = []
    grid, density, before = _point()
    at = 0.0
    for share in shares:
        total = spent(share, alpha)
        scale = math.sqrt(share - at)
        limit = _limit(grid, density, scale, share, max(total - before, 1e-12))
        found.append(PlannedLook(share, total, float(2 * ndtr(-limit))))
        grid, density = _going_on(grid, density, scale, limit * math.sqrt(share))
        at, before = share, total
    return tuple(found)


def _limit(
    grid: NDArray[np.float64], density: NDArray[np.float64], scale: float, share: float, part: float
) -> float:
    """The z value that is exceeded at this look, and not before, with chance ``part``."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(limit: float) -> float:
        reach = limit * math.sqrt(share)
        beyond = ndtr((-reach - grid) / scale) + ndtr((grid - reach) / scale)
        return float((density * beyond).sum()) - part

    return float(brentq(excess, 0.0, 40.0))


def _point() -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Before the first look: the sum of no information is 0."""
    import numpy as np

    return np.zeros(1), np.ones(1), 0.0


def _going_on(
    grid: NDArray[np.float64], density: NDArray[np.float64], scale: float, reach: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the sum is when no limit was crossed: points and their chances (Armitage and others 1969).

    The sum of independent parts is what was there plus a normal part with standard deviation ``scale``.
    """
    import numpy as np
    from scipy.special import ndtr

    # Nothing beyond eight standard deviations is ever reached.
    edge = min(reach, 8.0)
    ends = np.linspace(-edge, edge, max(3, math.ceil(2 * edge / _STEP)) + 1)
    cumulated = density @ ndtr((ends[None, :] - grid[:, None]) / scale)
    return (ends[1:] + ends[:-1]) / 2, np.diff(cumulated)
