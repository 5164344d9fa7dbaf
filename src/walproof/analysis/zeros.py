"""Finished trials that have 0 of a metric: they are measured, and have no ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.toggled import TOTALS
from walproof.facts import Cell, Trial, TrialState
from walproof.facts.gate import Side

_MAY_LACK = "server_cpu_us_per_txn"
"""A slice whose CPU time is not known counts as 0 in its totals."""


@dataclass(frozen=True, slots=True)
class Zeros:
    """What two sides that are compared have of a metric, where trials of them have 0."""

    trials: int
    """Finished trials of both sides that have the metric."""
    zeros: int
    """Those of them that have 0."""
    rounds: int
    """Rounds in which both sides have it."""
    is_cell_zero: bool
    """Whether every trial of the cell that is judged has 0."""
    is_apart: bool = False
    """Whether every trial of one side has 0, and none of the other."""


def zeros_of(cell: Cell, baseline: Cell, trials: Sequence[Trial], metric: str) -> Zeros | None:
    """None where no trial of either side has 0; of slices, trials as ``by_variant`` has them."""
    of_cell = _values(cell, trials, metric)
    of_baseline = _values(baseline, trials, metric)
    every = [*of_cell.values(), *of_baseline.values()]
    zeros = every.count(0.0)
    if not zeros:
        return None
    return Zeros(
        trials=len(every),
        zeros=zeros,
        rounds=len(of_cell.keys() & of_baseline.keys()),
        is_cell_zero=bool(of_cell) and not any(of_cell.values()),
        is_apart=bool(of_cell and of_baseline)
        and any(of_cell.values()) is not any(of_baseline.values())
        and zeros == len(of_baseline if any(of_cell.values()) else of_cell),
    )


def signs_wanted(rate: float) -> int:
    """Rounds of one sign that chance has in no more than that share of all cases, where either sign is as
    likely (the sign test)."""
    return math.ceil(-math.log2(rate))


def say_apart(side: Side) -> str:
    """That every trial of one side has 0 and none of the other, where that breaks a promise of that side."""
    always, never = "what is judged", "what it is compared with"
    if side is Side.ABOVE:
        always, never = never, always
    return f"every trial of {always} has 0 of it, and none of {never}"


def _values(cell: Cell, trials: Sequence[Trial], metric: str) -> dict[int, float]:
    """By round."""
    done = [trial for trial in trials if trial.cell == cell and trial.state is TrialState.DONE]
    found = {trial.round: trial.metrics.get(metric, _of_slices(trial, metric)) for trial in done}
    return {number: value for number, value in found.items() if value is not None}


def _of_slices(trial: Trial, metric: str) -> float | None:
    """0 where the slices, whose metrics are above 0, sum up to that; else None."""
    if metric not in TOTALS or metric == _MAY_LACK:
        return None
    totals = [TOTALS[metric](slice_) for slice_ in trial.slices]
    above, below = (sum(column) for column in zip(*totals, strict=True)) if totals else (0.0, 0.0)
    return 0.0 if above == 0 and below > 0 else None
