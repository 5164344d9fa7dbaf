"""What did each cell reach? Plain figures of a metric per cell, for tables and for people's memory.

Cells are compared by ``walproof.analysis.effect``, never by these figures: they hold the machine's drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from walproof.facts import Cell, Plan, Trial, TrialState


@dataclass(frozen=True, slots=True)
class Absolute:
    """A metric over the trials of one cell, in the metric's unit; None where no trial has it."""

    metric: str
    install: str
    workload: str
    variant: str
    n: int
    """Trials that finished and have the metric."""
    failed: int
    mean: float | None
    median: float | None
    sd: float | None
    """Standard deviation between trials; None for fewer than two."""
    min: float | None
    max: float | None
    cv: float | None
    """sd / mean; None where it means nothing."""


def absolute(plan: Plan, trials: Sequence[Trial], metric: str = "tps") -> tuple[Absolute, ...]:
    """One Absolute per cell of the plan, in its order."""
    return tuple(_absolute(cell, trials, metric) for cell in plan.cells)


def _absolute(cell: Cell, trials: Sequence[Trial], metric: str) -> Absolute:
    of_cell = [trial for trial in trials if trial.cell == cell]
    done = [trial for trial in of_cell if trial.state is TrialState.DONE]
    values = [value for trial in done if math.isfinite(value := trial.metrics.get(metric, math.nan))]
    mean = fmean(values) if values else None
    sd = stdev(values) if len(values) > 1 else None
    return Absolute(
        metric=metric,
        install=cell[0],
        workload=cell[1],
        variant=cell[2],
        n=len(values),
        failed=len(of_cell) - len(done),
        mean=mean,
        median=median(values) if values else None,
        sd=sd,
        min=min(values, default=None),
        max=max(values, default=None),
        cv=sd / mean if sd is not None and mean else None,
    )
