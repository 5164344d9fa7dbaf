"""Asking rules about made facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.analysis.facts import make_trials
from walproof.advise.finding import Finding, FindingKind
from walproof.advise.verdict import verdicts
from walproof.analysis.summary import analyse
from walproof.facts import Cell, Plan, Trial

Cell = Cell


def make_measured_trials(
    plan: Plan,
    metrics: Callable[[Cell], Mapping[str, float]],
    *,
    rounds: int = 4,
    tps: Callable[[Cell], float] = lambda cell: 500.0,
    noise: float = 0.01,
) -> tuple[Trial, ...]:
    """Trials with throughput and with exactly these other metrics."""
    trials = make_trials(plan, rounds, tps, noise=noise)
    return tuple(
        Trial(
            number=t.number,
            round=t.round,
            install=t.install,
            workload=t.workload,
            variant=t.variant,
            state=t.state,
            started_at=t.started_at,
            ended_at=t.ended_at,
            window_start=t.window_start,
            window_s=t.window_s,
            metrics={**t.metrics, **metrics(t.cell)},
            settings=t.settings,
        )
        for t in trials
    )


def ask(plan: Plan, trials: Sequence[Trial]) -> tuple[Finding, ...]:
    return verdicts(plan, trials, analyse(plan, trials))


def sentences(plan: Plan, trials: Sequence[Trial], kind: FindingKind, variant: str | None) -> list[str]:
    return [f.sentence for f in ask(plan, trials) if f.kind is kind and f.variant == variant]
