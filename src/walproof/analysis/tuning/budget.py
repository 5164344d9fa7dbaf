"""How much of the budget may each phase have spent by its end, and how many trials is that?

What a phase does not need goes to later ones. Shares are of the time left after preparing, recording and
computing, which take as long as they take, and without the time that making the answer takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from walproof.facts.tuning import Purpose, TuningFacts

ENDS: Mapping[Purpose, float] = {
    Purpose.SCREEN: 0.25,
    Purpose.SEARCH: 0.47,
    Purpose.CONFIRM: 0.52,
    Purpose.LINES: 0.77,
    Purpose.FINAL: 0.89,
    Purpose.CRASH: 0.94,
    Purpose.FLUSH: 0.99,
}
"""Share of the time after recording by which each phase has ended; the rest is slack."""
CRASH_TRIALS = 2.0
"""Cost of a load, a kill and a recovery, in trials."""
_GUESSED_TRIALS = 60
"""Trials that a budget is taken to hold if nothing says how long a trial takes."""


@dataclass(frozen=True, slots=True)
class BudgetClock:
    """How much of the budget there is, and how much is used."""

    available_s: float
    """Time of the budget for trials: without preparing, recording, computing and making the answer."""
    used_s: float
    """Part of ``available_s`` that is used."""
    trial_s: float

    @classmethod
    def of(cls, facts: TuningFacts) -> BudgetClock:
        """The budget as the facts stand."""
        recording = {step.number for step in facts.steps if step.purpose is Purpose.RECORD}
        crashing = {step.number for step in facts.steps if step.purpose is Purpose.CRASH}
        trial_s = _trial_s(facts, recording, crashing)
        # Hosts work in parallel.
        width = {step.number: max(1, len(facts.hosts(step.number))) for step in facts.steps}
        used = sum(
            (trial.seconds or trial_s) / width[trial.step]
            for trial in facts.measured
            if trial.step not in recording
        )
        used = min(used, facts.spent_s)
        before = facts.spent_s - used
        return cls(max(0.0, facts.plan.budget_s - before - facts.answer_s), used, trial_s)

    def trials_until(self, purpose: Purpose) -> int:
        """How many trials fit before that phase has to end."""
        return max(0, int((self.available_s * ENDS[purpose] - self.used_s) / self.trial_s))


def _trial_s(facts: TuningFacts, recording: set[int], crashing: set[int]) -> float:
    """Wall time of a trial: the longer of estimate and measured mean, so that a requested step fits."""
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
