"""When is it precise enough? Rounds still needed for a half-width, and a rule that stops a run there.

Stopping as soon as an interval looks narrow favours runs whose spread is small by luck, so intervals of
runs that stopped by themselves cover less than they say: 91 % instead of 95 % in a simulation whose target
takes ten rounds to reach (in the tests). ROUNDS_MIN limits the loss; a fixed number of rounds has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev

from walproof.analysis.effect import Effect, effects, install_effects
from walproof.analysis.interval import LEVEL, t_quantile
from walproof.facts import Plan, Trial

HALF_WIDTHS = (0.01, 0.02, 0.05, 0.10)
"""What the table of needed rounds is made for."""
ROUNDS_MIN = 3


@dataclass(frozen=True, slots=True)
class RoundsNeeded:
    """How many more rounds one effect needs to be known within +- ``half_width``."""

    half_width: float
    """As a share of the ratio (0.01 is 1 %)."""
    more: int | None
    """0 when it is reached; None when fewer than two rounds say nothing about the spread."""


def rounds_for(effect: Effect, half_width: float) -> int | None:
    """More rounds until the effect's interval reaches no farther than ``half_width`` from its ratio.

    Takes the spread seen so far for the true one, so after few rounds it is a rough figure. None for
    fewer than two rounds.
    """
    if effect.interval is None:
        return None
    spread = stdev([math.log(pair.ratio) for pair in effect.ratios])
    level, reach = effect.interval.level, math.log1p(half_width)
    # A t quantile is wider than the normal one, so the normal answer is a lower bound to start from.
    rounds = max(effect.n, math.ceil((NormalDist().inv_cdf(0.5 + level / 2) * spread / reach) ** 2))
    while t_quantile(level, rounds - 1) * spread / math.sqrt(rounds) > reach * (1 + 1e-9):
        rounds += 1
    return rounds - effect.n


def rounds_table(effect: Effect, half_widths: Sequence[float] = HALF_WIDTHS) -> tuple[RoundsNeeded, ...]:
    """``rounds_for`` at each half-width."""
    return tuple(RoundsNeeded(width, rounds_for(effect, width)) for width in half_widths)


@dataclass(frozen=True, slots=True)
class Precise:
    """A stop rule: true once every effect is known within +- ``half_width``.

    An effect without a single usable round after ROUNDS_MIN rounds (a variant whose server never starts)
    does not hold the run up: more rounds would not help it.
    """

    plan: Plan
    half_width: float
    """As a share of the ratio (0.03 is 3 %)."""
    metric: str = "tps"
    level: float = LEVEL

    def __call__(self, trials: Sequence[Trial]) -> bool:
        """Whether these trials, which make whole rounds, are enough."""
        family = (
            *effects(self.plan, trials, self.metric, self.level),
            *install_effects(self.plan, trials, self.metric, self.level),
        )
        tried = {trial.cell for trial in trials}  # a sweep leaves the rest out
        alive = [
            effect
            for effect in family
            if effect.cell in tried and (effect.n > 0 or effect.left_out < ROUNDS_MIN)
        ]
        return bool(alive) and all(self._is_precise(effect) for effect in alive)

    def _is_precise(self, effect: Effect) -> bool:
        return (
            effect.n >= ROUNDS_MIN and effect.half_width is not None and effect.half_width <= self.half_width
        )
