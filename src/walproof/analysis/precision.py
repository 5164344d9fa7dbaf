"""How many more rounds would each effect need for a wanted precision? From the spread seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.effect import Effect
from walproof.analysis.inference.two_stage import SeenComparison, rounds_within

HALF_WIDTHS = (0.01, 0.02, 0.05, 0.10)
"""Half-widths in the table of needed rounds."""


@dataclass(frozen=True, slots=True)
class RoundsNeeded:
    """How many more rounds one effect needs to be known within +- ``half_width``."""

    half_width: float
    """Half-width as a share of the ratio (0.01 is 1 %)."""
    more: int | None
    """Rounds needed; 0 when it is reached; None for fewer than two rounds, which say nothing about the
    spread."""


def rounds_for(effect: Effect, half_width: float) -> int | None:
    """More rounds until the effect's interval reaches no farther than ``half_width`` from its ratio.

    Takes the spread seen so far for the true one, so after few rounds it is a rough figure. None for
    fewer than two rounds. For a toggled variant, more starts; None where they contradict each other.
    """
    if effect.interval is None or effect.spread is None:
        return None
    if effect.toggled is not None and effect.toggled.contradicting:
        return None  # by how much they differ is too rough for a figure
    if effect.toggled is not None:
        return effect.toggled.starts_for(half_width, effect.interval.level)
    seen = SeenComparison(effect.spread, effect.n)
    return rounds_within(seen, half_width, effect.interval.level) - effect.n


def rounds_table(effect: Effect, half_widths: Sequence[float] = HALF_WIDTHS) -> tuple[RoundsNeeded, ...]:
    """``rounds_for`` at each half-width."""
    return tuple(RoundsNeeded(width, rounds_for(effect, width)) for width in half_widths)
