"""Is an offered rate reached? Where it is not, latencies are those of a queue that grows with the window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from walproof.facts import Cell, Plan, Trial, TrialState

LATENCY = "latency_ms_avg"
"""What settings change under a rate that is reached."""
_NOTABLE = 0.03
"""A smaller share is not called missing."""
_ERRORS = 3.0
"""Standard errors of a number of transactions, which come at random (pgbench --rate: a Poisson process)."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """A rate that was offered and not reached."""

    cell: Cell
    rate_tps: float
    """Transactions a second that were offered."""
    reached_tps: float
    """Mean over the finished trials."""


def offers_rates(plan: Plan) -> bool:
    """Whether every workload has an offered rate, so that throughput is the same under all variants."""
    return all(workload.rate_tps is not None for workload in plan.workloads)


def unreached(plan: Plan, trials: Sequence[Trial], cell: Cell) -> Unreached | None:
    """What the trials of a cell lack of its offered rate; None where there is no rate, or it was reached."""
    rate = plan.workload(cell.workload).rate_tps
    if rate is None:
        return None
    done = [
        trial.metrics
        for trial in trials
        if trial.cell == cell and trial.state is TrialState.DONE and "tps" in trial.metrics
    ]
    if not done:
        return None
    reached = fmean(metrics["tps"] for metrics in done)
    count = sum(metrics.get("transactions", 0.0) for metrics in done)
    error = _ERRORS / math.sqrt(count) if count > 0 else 0.0
    return Unreached(cell, rate, reached) if reached < rate * (1 - max(_NOTABLE, error)) else None
