"""A gate's promises: each ratio with the interval that decided, the rounds behind it, and its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walproof.analysis.effect import Effect
from walproof.analysis.gate import Judged, Judgement, compared_effects
from walproof.facts import Cell, Gate, Plan, Trial
from walproof.report.figures.ratios import (
    RatioData,
    RatioPanel,
    RatioRow,
    means_over,
    points_of,
    ratio_data,
    single_of,
)
from walproof.report.numbers import ratio

QUESTION = "Are the promises kept?"


def note(plan: Plan) -> str:
    """What the marks mean."""
    return (
        f"Dashed: the limit. Diamond: geometric mean over {means_over(plan)}; bar: its interval over all "
        f"looks; circle: the ratio of one {single_of(plan)}."
    )


def promise_ratios(plan: Plan, trials: Sequence[Trial], found: Judgement) -> RatioData | None:
    """A panel for each promise, a row for each comparison; None when no ratio is known yet."""
    assert plan.gate is not None
    panels = []
    for promise in plan.gate.promises:
        effects = {
            (effect.cell, effect.baseline): effect
            for effect in compared_effects(plan, plan.gate, trials, promise.metric)
        }
        rows = tuple(
            _row(plan, judged, effects, found.done) for judged in found.judged if judged.promise == promise
        )
        panels.append(RatioPanel(f"fails if {promise.text}", rows, promise.limit))
    return ratio_data(f"relative to {_baseline(plan, plan.gate)} (x)", panels, single_of(plan))


def _row(plan: Plan, judged: Judged, effects: Mapping[tuple[Cell, Cell], Effect], done: int) -> RatioRow:
    known = effects[judged.cell, judged.baseline]
    without = "no ratio" if done else "no look yet"
    said = without if judged.ratio is None else ratio(judged.ratio, judged.interval)
    return RatioRow(
        label=_label(plan, judged),
        durability=None,
        ratio=judged.ratio,
        interval=judged.interval,
        points=tuple(point for point in points_of(known) if point.round <= done),
        text=f"{said}, {judged.outcome.value}",
    )


def _label(plan: Plan, judged: Judged) -> str:
    """What is judged: only what differs is named."""
    if judged.cell.workload != judged.baseline.workload:
        return judged.cell.workload
    is_install = judged.cell.install != judged.baseline.install
    name = f"PostgreSQL {judged.cell.install}" if is_install else judged.cell.variant
    return f"{name}, {judged.cell.workload}" if len(plan.workloads) > 1 else name


def _baseline(plan: Plan, gate: Gate) -> str:
    if gate.against is not None:
        return gate.against
    return plan.baseline if len(plan.installs) == 1 else f"PostgreSQL {plan.installs[0].label}"
