"""How much of the budget may each phase have spent by its end, and how many trials is that?

What is left by a phase that needed less goes to the later ones. The shares are of the time that is left after
preparing and recording, which cost what they cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from walproof.facts.tuning import Purpose, TuningFacts

ENDS: Mapping[Purpose, float] = {
    Purpose.SCREEN: 0.25,
    Purpose.SEARCH: 0.48,
    Purpose.CONFIRM: 0.54,
    Purpose.LINES: 0.81,
    Purpose.FINAL: 0.89,
    Purpose.CRASH: 0.94,
    Purpose.FLUSH: 0.99,
}
"""Share of the time after recording by which each phase has ended; what is above them all is slack."""
CRASH_TRIALS = 2.0
"""A load, a kill and a recovery, in trials."""
_GUESSED_TRIALS = 60
"""Trials in a budget, where nothing says how long one takes."""


@dataclass(frozen=True, slots=True)
class BudgetClock:
    """The budget as far as it is spent."""

    available_s: float
    """Time after preparing and recording."""
    used_s: float
    """Of that."""
    trial_s: float

    @classmethod
    def of(cls, facts: TuningFacts) -> BudgetClock:
        """Where the facts stand."""
        recording = {step.number for step in facts.steps if step.purpose is Purpose.RECORD}
        crashing = {step.number for step in facts.steps if step.purpose is Purpose.CRASH}
        trial_s = _trial_s(facts, recording, crashing)
        # Hosts work beside each other.
        width = {step.number: max(1, len(facts.hosts(step.number))) for step in facts.steps}
        used = sum(
            (trial.seconds or trial_s) / width[trial.step]
            for trial in facts.measured
            if trial.step not in recording
        )
        used = min(used, facts.spent_s)
        before = facts.spent_s - used
        return cls(max(0.0, facts.plan.budget_s - before), used, trial_s)

    def trials_until(self, purpose: Purpose) -> int:
        """How many trials fit before that phase has to end."""
        return max(0, int((self.available_s * ENDS[purpose] - self.used_s) / self.trial_s))


def _trial_s(facts: TuningFacts, recording: set[int], crashing: set[int]) -> float:
    """The longer of what was said and what was seen, so that a step that is asked for fits."""
    seen = [
        trial.seconds
        for trial in facts.measured
        if trial.step not in recording | crashing and trial.seconds > 0
    ]
    recorded = [trial.seconds for trial in facts.measured if trial.step in recording and trial.seconds > 0]
    known = [fmean(seen)] if seen else []
    if facts.trial_s is not None:
        known.append(facts.trial_s)
    if not known:
        known = recorded or [facts.plan.budget_s / _GUESSED_TRIALS]
    return max(max(known), 1e-3)
