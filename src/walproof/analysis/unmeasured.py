"""What could not be measured, because trials failed or have no such metric: an error, and no answer of any
sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.analysis.gate import Judged, Judgement, Outcome, failed_alone
from walproof.analysis.toggled import by_variant
from walproof.errors import AnalysisError
from walproof.facts import Cell, Plan, Trial, TrialState

MEND = "Mend what made it fail, and repeat the command."
"""Hint of such an error."""


@dataclass(frozen=True, slots=True)
class FailedSide:
    """One side of a comparison, as far as it failed."""

    cell: Cell
    failed: int
    trials: int
    """All of them, failed ones included."""
    reason: str
    """Of the first that failed."""


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A promise for a comparison that has no usable round, or in which the changed side failed alone."""

    judged: Judged
    sides: tuple[FailedSide, ...]
    """Those with failed trials; none where no round has the metric of both."""

    @property
    def reason(self) -> str:
        """The reason of the first that failed, or what is missing."""
        return self.sides[0].reason if self.sides else self.judged.reason or "no reason known"


def unmeasured(plan: Plan, found: Judgement, trials: Sequence[Trial]) -> tuple[Unmeasured, ...]:
    """The undecided promises without a usable round, because trials failed or have no such metric, and those
    of which the changed side failed alone in more rounds than the other, in their order."""
    seen = by_variant(plan, trials)
    lost = []
    for judged in found.judged:
        if judged.outcome is not Outcome.UNDECIDED or (judged.rounds > 0 and not failed_alone(judged, seen)):
            continue
        sides = [_side(cell, seen) for cell in (judged.cell, judged.baseline)]
        failed = tuple(side for side in sides if side is not None)
        # Before the first look there is nothing yet that could lack the metric.
        if failed or found.done > 0:
            lost.append(Unmeasured(judged, failed))
    return tuple(lost)


def require_finished_trial(trials: Sequence[Trial]) -> None:
    """Raise AnalysisError where all trials failed; a run that was stopped before the first has none."""
    if all_failed(trials):
        raise AnalysisError(_all_failed_text(trials), detail=trials[0].reason, hint=MEND)


def all_failed(trials: Sequence[Trial]) -> bool:
    """Whether there are trials, and none of them measured anything."""
    return bool(trials) and not any(trial.state is TrialState.DONE for trial in trials)


def failed_hosts(trials: Mapping[str, Sequence[Trial]]) -> dict[str, str]:
    """Hosts all of whose trials failed, and why the first did."""
    return {
        host: f"{_all_failed_text(of_host)}: {of_host[0].reason}"
        for host, of_host in trials.items()
        if all_failed(of_host)
    }


def _all_failed_text(trials: Sequence[Trial]) -> str:
    return "the only trial failed" if len(trials) == 1 else f"all {len(trials)} trials failed"


def _side(cell: Cell, trials: Sequence[Trial]) -> FailedSide | None:
    own = [trial for trial in trials if trial.cell == cell]
    failed = [trial for trial in own if trial.state is TrialState.FAILED]
    return FailedSide(cell, len(failed), len(own), failed[0].reason or "no reason stored") if failed else None
