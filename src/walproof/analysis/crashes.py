"""Recoveries of a study's variants, predicted from its baseline: its WAL, and what its own recovery took.

    redo        = (redo predicted with the shipped costs) x baseline's measured / baseline's predicted
    checkpoint  = the same of the checkpoint at its end
    away        = redo + checkpoint + what else the baseline's start took

So no calibration is needed, and of the others nothing is known but their settings. Of the baseline itself the
prediction is right by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from walproof.analysis.recovery_costs import SHIPPED, checkpoint_s, redo_terms_s
from walproof.facts import Plan, Trial, TrialState
from walproof.wal.recovery import QUANTITIES

_ENDING = ("resident", "spilled", "runs", "segments")


@dataclass(frozen=True, slots=True)
class PredictedCrash:
    """A variant's crash at the end of the load, warm cache; medians over the baseline's trials."""

    install: str
    workload: str
    variant: str
    wal_bytes: float
    """Bytes of WAL after the redo point."""
    redo_s: float
    checkpoint_s: float
    away_s: float


def predicted_crashes(plan: Plan, trials: Sequence[Trial]) -> tuple[PredictedCrash, ...]:
    """Crashes of every variant whose work was predicted; a group without a measured baseline has none."""
    found = []
    done = [trial for trial in trials if trial.state is TrialState.DONE and trial.variant == plan.baseline]
    for install in plan.installs:
        for workload in plan.workloads:
            of_group = [
                trial for trial in done if (trial.install, trial.workload) == (install.label, workload.name)
            ]
            found += _of_group(plan, install.label, workload.name, of_group)
    return tuple(found)


def _of_group(plan: Plan, install: str, workload: str, baseline: Sequence[Trial]) -> list[PredictedCrash]:
    measured = [
        _median(baseline, name) for name in ("recovery_redo_s", "recovery_checkpoint_s", "recovery_s")
    ]
    base = _shipped(baseline, plan.baseline)
    redo, checkpoint, away = measured
    if base is None or redo is None or checkpoint is None or away is None or not all(base):
        return []
    found = []
    for variant in plan.variants:
        shipped, wal = (
            _shipped(baseline, variant.name),
            _predicted(baseline, "recovery_wal_bytes", variant.name),
        )
        if shipped is None or wal is None:
            continue
        own_redo, own_checkpoint = redo * shipped[0] / base[0], checkpoint * shipped[1] / base[1]
        rest = away - redo - checkpoint
        found.append(
            PredictedCrash(
                install,
                workload,
                variant.name,
                wal,
                own_redo,
                own_checkpoint,
                own_redo + own_checkpoint + rest,
            )
        )
    return found


def _shipped(baseline: Sequence[Trial], variant: str) -> tuple[float, float] | None:
    """Redo and checkpoint of a variant in seconds of the machine of the shipped costs."""
    quantities: dict[str, float] = {}
    for name in (*QUANTITIES, *_ENDING):
        count = _predicted(baseline, name, variant)
        if count is None:
            return None
        quantities[name] = count
    return _seconds(quantities)


def _seconds(quantities: Mapping[str, float]) -> tuple[float, float]:
    return sum(redo_terms_s(quantities, SHIPPED).values()), checkpoint_s(quantities, SHIPPED)


def _predicted(baseline: Sequence[Trial], quantity: str, variant: str) -> float | None:
    return _median(baseline, f"predicted_{quantity}.{variant}")


def _median(trials: Sequence[Trial], metric: str) -> float | None:
    values = [trial.metrics[metric] for trial in trials if metric in trial.metrics]
    return median(values) if values else None
