"""Where a running tuning stands: the best configuration so far, its interval, and the time left."""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.advise.wording import is_vague, say_ratio
from walproof.analysis.contrast import Contrast
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.race import replay
from walproof.analysis.tuning.values import compare, mean_log, objective_values, written
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, TuningFacts


@dataclass(frozen=True, slots=True)
class Standing:
    """The best configuration so far."""

    candidate: Candidate
    ratio: float | None
    """Objective over the default's, above 1 is better; None if not measured beside the default."""
    interval: Interval | None
    left_s: float
    """Time left of the budget."""


def standing(facts: TuningFacts) -> Standing:
    """The incumbent of the race, or the configuration that the race ended with, against the default."""
    best = _incumbent(facts)
    left = max(0.0, facts.plan.budget_s - facts.spent_s)
    if best == DEFAULT:
        return Standing(best, None, None, left)
    found = against_default(facts, best)
    mean = None if found is None else found.mean
    return Standing(best, None if mean is None else math.exp(mean), found.interval() if found else None, left)


def _incumbent(facts: TuningFacts) -> Candidate:
    for step in reversed(facts.steps):
        if step.purpose is Purpose.LINES:
            return step.candidates[0]
        if step.purpose is Purpose.CONFIRM:
            return step.candidates[1]
    incumbent = replay(facts).incumbent
    if incumbent != DEFAULT:
        return incumbent
    # Before the race: whatever measured best beside the default.
    values = objective_values(facts)
    logs = {
        candidate: mean_log(values, candidate, DEFAULT)
        for candidate in values.candidates
        if candidate != DEFAULT
    }
    known = {candidate: log for candidate, log in logs.items() if log is not None and log > 0}
    return max(known, key=lambda candidate: known[candidate]) if known else DEFAULT


def against_default(
    facts: TuningFacts, candidate: Candidate, steps: list[int] | None = None
) -> Contrast | None:
    """The candidate compared with the default within all rounds that have both; None if there are none."""
    values = objective_values(facts, steps)
    if not values.ratios(candidate, DEFAULT):
        return None
    (found,) = compare(values, [(candidate, DEFAULT)])
    return found


def say_standing(found: Standing, metric: str) -> str:
    """``best so far: wal_compression=lz4: 1.12x (1.08 to 1.16) the default's tps``."""
    if found.candidate == DEFAULT:
        return "best so far: the defaults"
    if found.ratio is None:
        return f"best so far: {written(found.candidate)} (not yet measured beside the defaults)"
    if found.interval is None or is_vague(found.interval):
        about = say_ratio(found.ratio, None)
        return f"best so far: {written(found.candidate)}: about {about} as good as the defaults, not sure yet"
    ratio = say_ratio(found.ratio, found.interval)
    return f"best so far: {written(found.candidate)}: {ratio} as good as the defaults ({metric})"
