"""What does a variant do to a metric? Its ratio to the baseline of the same round, with an interval.

Ratios are formed within rounds, so whatever slows a whole round (a neighbour, a warm disk cache, heat)
cancels. They are averaged as logarithms: half and double then weigh the same. A ratio whose interval
holds 1 is "no measurable difference", and ``half_width`` says how large a difference could have hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean, median

from walproof.analysis.comparisons import adjust_p_values
from walproof.analysis.interval import LEVEL, Interval, mean_interval, mean_p_value
from walproof.analysis.outlier import flag_outliers
from walproof.analysis.rounds import Cell, index_trials, positive_metric, rounds_of
from walproof.facts import Plan, Trial


class Conclusion(Enum):
    """What an effect's interval allows to say about the metric."""

    HIGHER = "higher"
    """The whole interval is above 1."""
    LOWER = "lower"
    """The whole interval is below 1."""
    NO_DIFFERENCE = "no measurable difference"
    """The interval holds 1."""
    TOO_FEW = "too few rounds"
    """Fewer than two rounds: no interval."""


@dataclass(frozen=True, slots=True)
class RoundRatio:
    """The metric of one trial over the metric of the baseline's trial in the same round."""

    round: int
    ratio: float
    trial: int
    baseline_trial: int
    outlier: bool
    """Stands apart from the other rounds' ratios (flagged, still used)."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one cell does to a metric, compared with another cell of the same rounds."""

    metric: str
    install: str
    workload: str
    variant: str
    baseline: Cell
    """What it is compared with: the baseline variant, or the same variant on the first install."""
    n: int
    """Rounds used."""
    left_out: int
    """Rounds with a trial of the variant but no usable pair: one of the two failed or has no such metric."""
    ratio: float | None
    """Geometric mean of the ratios; None without rounds."""
    median_ratio: float | None
    interval: Interval | None
    """Of ``ratio``; None for fewer than two rounds."""
    half_width: float | None
    """How far the interval reaches from the ratio, as a share of it (0.03 is 3 %): the resolution."""
    conclusion: Conclusion
    p: float | None
    """p value of "the ratio is 1"; None for fewer than two rounds."""
    p_holm: float | None
    """The same, adjusted for all ``comparisons`` of the family."""
    comparisons: int
    """Size of the family: effects computed together that have a p value."""
    ratios: tuple[RoundRatio, ...]

    @property
    def cell(self) -> Cell:
        """(install, workload, variant)."""
        return (self.install, self.workload, self.variant)


def effects(
    plan: Plan, trials: Sequence[Trial], metric: str = "tps", level: float = LEVEL
) -> tuple[Effect, ...]:
    """Every variant against the baseline variant, per install and workload, in the plan's order.

    Raises AnalysisError when a round holds a cell twice.
    """
    pairs = [
        ((install, workload, variant), (install, workload, plan.baseline))
        for install, workload, variant in plan.cells
        if variant != plan.baseline
    ]
    return _family(pairs, trials, metric, level)


def install_effects(
    plan: Plan, trials: Sequence[Trial], metric: str = "tps", level: float = LEVEL
) -> tuple[Effect, ...]:
    """Every variant and workload on the later installs against the same on the first install.

    Empty for a plan with one install. Raises AnalysisError when a round holds a cell twice.
    """
    first = plan.installs[0].label
    pairs = [
        ((install, workload, variant), (first, workload, variant))
        for install, workload, variant in plan.cells
        if install != first
    ]
    return _family(pairs, trials, metric, level)


def _family(
    pairs: Sequence[tuple[Cell, Cell]], trials: Sequence[Trial], metric: str, level: float
) -> tuple[Effect, ...]:
    index, rounds = index_trials(trials), rounds_of(trials)
    family = [_effect(cell, baseline, index, rounds, metric, level) for cell, baseline in pairs]
    adjusted = adjust_p_values([effect.p for effect in family])
    comparisons = sum(p is not None for p in adjusted)
    return tuple(
        replace(effect, p_holm=p, comparisons=comparisons) for effect, p in zip(family, adjusted, strict=True)
    )


def _effect(
    cell: Cell,
    baseline: Cell,
    index: Mapping[tuple[int, Cell], Trial],
    rounds: Sequence[int],
    metric: str,
    level: float,
) -> Effect:
    pairs: list[tuple[int, float, int, int]] = []
    begun = 0
    for number in rounds:
        trial, other = index.get((number, cell)), index.get((number, baseline))
        # A round without a trial of the cell is no loss: it was interrupted and goes on at resume, or it has
        # few cells, as those have that a sweep adds.
        begun += trial is not None
        value, reference = positive_metric(trial, metric), positive_metric(other, metric)
        if trial is not None and other is not None and value is not None and reference is not None:
            pairs.append((number, value / reference, trial.number, other.number))
    logs = [math.log(pair[1]) for pair in pairs]
    log_interval = mean_interval(logs, level)
    interval = log_interval.exp() if log_interval else None
    ratio = math.exp(fmean(logs)) if logs else None
    return Effect(
        metric=metric,
        install=cell[0],
        workload=cell[1],
        variant=cell[2],
        baseline=baseline,
        n=len(pairs),
        left_out=begun - len(pairs),
        ratio=ratio,
        median_ratio=math.exp(median(logs)) if logs else None,
        interval=interval,
        half_width=interval.half_width(ratio) if interval and ratio else None,
        conclusion=conclude(interval),
        p=mean_p_value(logs),
        p_holm=None,
        comparisons=0,
        ratios=tuple(
            RoundRatio(*pair, outlier=outlier)
            for pair, outlier in zip(pairs, flag_outliers(logs), strict=True)
        ),
    )


def conclude(interval: Interval | None) -> Conclusion:
    """What the interval of a ratio allows to say."""
    if interval is None:
        return Conclusion.TOO_FEW
    if interval.contains(1.0):
        return Conclusion.NO_DIFFERENCE
    return Conclusion.HIGHER if interval.low > 1 else Conclusion.LOWER
