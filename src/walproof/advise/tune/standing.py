"""Where a running tuning stands: the best configuration so far, its interval, and the time left."""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.advise.wording import is_vague, say_ratio
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.blocks import Blocks
from walproof.analysis.tuning.race import replay
from walproof.analysis.tuning.values import objective_values, written
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, TuningFacts


@dataclass(frozen=True, slots=True)
class Standing:
    """The best configuration so far."""

    candidate: Candidate
    ratio: float | None
    """Objective over the default's, above 1 is better; None if no chain of rounds connects the two."""
    interval: Interval | None
    left_s: float
    """Time left of the budget."""
    is_ruled_out: bool = False
    """Whether the candidate breaks a promise: the default, before anything else was measured."""


def standing(facts: TuningFacts) -> Standing:
    """The incumbent of the race, or the configuration that the race ended with, against the default."""
    best = _incumbent(facts)
    left = max(0.0, facts.plan.budget_s - facts.spent_s)
    found = Blocks(objective_values(facts)).estimate(best, DEFAULT)
    is_ruled_out = best == DEFAULT and facts.is_default_ruled_out
    if found is None:
        return Standing(best, None, None, left, is_ruled_out)
    return Standing(best, math.exp(found.mean), found.interval(), left, is_ruled_out)


def _incumbent(facts: TuningFacts) -> Candidate:
    for step in reversed(facts.steps):
        if step.purpose is Purpose.LINES:
            return step.candidates[0]
        if step.purpose is Purpose.CONFIRM:
            return step.candidates[1]
    return replay(facts).incumbent


def say_standing(found: Standing, metric: str) -> str:
    """``best so far: wal_compression=lz4: 1.12x (1.08 to 1.16) the default's tps``."""
    if found.is_ruled_out:
        return "nothing that keeps the promises was measured yet"
    if found.candidate == DEFAULT:
        return "best so far: the defaults"
    if found.ratio is None:
        return f"best so far: {written(found.candidate)} (not yet measured beside the defaults)"
    if found.interval is None or is_vague(found.interval):
        about = say_ratio(found.ratio, None)
        return f"best so far: {written(found.candidate)}: about {about} as good as the defaults, not sure yet"
    ratio = say_ratio(found.ratio, found.interval)
    return f"best so far: {written(found.candidate)}: {ratio} as good as the defaults ({metric})"
