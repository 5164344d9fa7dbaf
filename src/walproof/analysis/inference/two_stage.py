"""How many rounds does a wanted width take? Decided after a pilot, once, and perhaps a second time.

Looking after every round and stopping when intervals look narrow favours runs whose spread is small by luck:
95 % intervals then hold the truth in 91 %. Stein (1945) fixes the number of rounds from a pilot's spread,
which says nothing about where the mean will be, so the interval at the end is right. The pilot's spread is
itself uncertain; where all rounds together show a larger one, the number is extended, once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from walproof.analysis.inference.spread import Spread
from walproof.analysis.interval import LEVEL, t_quantile

_LARGEST = 700.0
"""Of logarithms; beyond it a float overflows."""


@dataclass(frozen=True, slots=True)
class SeenComparison:
    """A comparison after some rounds."""

    spread: Spread
    rounds: int
    """Degrees of freedom that its spread rests on."""


def width_after(seen: SeenComparison, rounds: int, level: float = LEVEL) -> float:
    """Half-width, as a share of the ratio, after ``rounds`` rounds in all, if the spread stays as seen."""
    degrees = seen.spread.degrees / (seen.rounds - 1) * (rounds - 1)
    reach = t_quantile(level, degrees) * math.sqrt(seen.spread.variance / rounds)
    return math.expm1(reach) if reach < _LARGEST else math.inf


def rounds_within(seen: SeenComparison, half_width: float, level: float = LEVEL) -> int:
    """The fewest rounds in all, no fewer than were seen, after which the half-width is ``half_width``."""
    reach = math.log1p(half_width)
    # A t quantile is wider than the normal one, so the normal answer is a lower bound to start from.
    normal = NormalDist().inv_cdf(0.5 + level / 2)
    rounds = max(seen.rounds, math.ceil(seen.spread.variance * (normal / reach) ** 2))
    while width_after(seen, rounds, level) > half_width * (1 + 1e-9):
        rounds += 1
    return rounds
