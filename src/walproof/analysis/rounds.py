"""Trials by round and cell: what every within-round comparison starts from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from walproof.errors import AnalysisError
from walproof.facts import Cell, Trial, TrialState

"""(install, workload, variant)."""


def index_trials(trials: Sequence[Trial]) -> Mapping[tuple[int, Cell], Trial]:
    """(round, cell) -> trial. Raises AnalysisError when a round holds a cell twice."""
    index: dict[tuple[int, Cell], Trial] = {}
    for trial in trials:
        other = index.setdefault((trial.round, trial.cell), trial)
        if other is not trial:
            raise AnalysisError(
                f'round {trial.round} holds "{trial.variant}" twice',
                detail=f"Trials {other.number} and {trial.number} of {trial.install}, {trial.workload}.",
                hint="Analyse the trials of one run at a time.",
            )
    return index


def positive_metric(trial: Trial | None, metric: str) -> float | None:
    """The metric of a trial that finished, where it can be compared as a ratio; else None."""
    if trial is None or trial.state is not TrialState.DONE:
        return None
    value = trial.metrics.get(metric)
    return value if value is not None and value > 0 and math.isfinite(value) else None


def rounds_of(trials: Sequence[Trial]) -> tuple[int, ...]:
    """The rounds that hold at least one trial, in order."""
    return tuple(sorted({trial.round for trial in trials}))
