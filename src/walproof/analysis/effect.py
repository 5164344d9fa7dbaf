"""What does a variant do to a metric? Its ratio to the baseline of the same round, with an interval.

Ratios are formed within rounds, so whatever slows a whole round (a neighbour, a warm disk cache, heat)
cancels. They are averaged as logarithms: half and double then weigh the same. How much they vary is known
from all variants together where those do not contradict it. A ratio whose interval holds 1 is "no measurable
difference", and ``half_width`` says how large a difference could have hidden.

One rule for several comparisons: an interval is that of its ratio alone, and what is concluded ("higher",
"lower") holds for the family: together it is wrong in 5 % of the runs in which nothing differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from walproof.analysis.components import Components
from walproof.analysis.contrast import Contrast, contrasts
from walproof.analysis.inference.family import Compared, family_p_values
from walproof.analysis.inference.spread import Pooling, Spread
from walproof.analysis.interval import LEVEL, Interval
from walproof.analysis.outlier import flag_outliers
from walproof.analysis.rounds import index_trials, rounds_of
from walproof.analysis.toggled import TOTALS, Toggled, by_variant, components_of, estimate
from walproof.facts import Cell, Design, Plan, Trial


class Conclusion(Enum):
    """What an effect's interval allows to say about the metric."""

    HIGHER = "higher"
    """The whole interval is above 1, and so it would be with all comparisons of the family counted."""
    LOWER = "lower"
    """The whole interval is below 1, counted likewise."""
    IN_DOUBT = "in doubt"
    """The interval does not hold 1, but among so many comparisons one such interval is expected by chance."""
    NO_DIFFERENCE = "no measurable difference"
    """The interval holds 1."""
    TOO_FEW = "too few rounds"
    """Fewer than two rounds: no interval."""
    SAME = "chance: nothing that acts differs"
    """Nothing differs but chance, which is known without measuring."""


@dataclass(frozen=True, slots=True)
class RoundRatio:
    """The metric of one trial over the metric of the baseline's trial in the same round."""

    round: int
    ratio: float
    trial: int
    baseline_trial: int
    outlier: bool
    """Whether it stands apart from the ratios of the other rounds (flagged, still used)."""


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
    """Interval of ``ratio``; None for fewer than two rounds."""
    half_width: float | None
    """How far the interval reaches from the ratio, as a share of it (0.03 is 3 %): the resolution."""
    spread: Spread | None
    """What the interval rests on; None for fewer than two rounds."""
    conclusion: Conclusion
    """Verdict over the whole family, whose false differences are kept rare together; the interval is that of
    this ratio alone."""
    p: float | None
    """p value of "the ratio is 1"; None for fewer than two rounds."""
    p_family: float | None
    """The same, adjusted for all ``comparisons`` of the family."""
    comparisons: int
    """Size of the family: effects computed together that have a p value."""
    ratios: tuple[RoundRatio, ...]
    design: Design = Design.FRESH
    toggled: Toggled | None = None
    """What its slices say, if it is toggled and each slice has the metric; then ``interval`` comes from
    them."""
    components: Components | None = None
    """How much its ratio varies from start to start and from slice to slice; None for windows."""

    @property
    def cell(self) -> Cell:
        """(install, workload, variant)."""
        return Cell(self.install, self.workload, self.variant)


def effects(
    plan: Plan, trials: Sequence[Trial], metric: str = "tps", level: float = LEVEL
) -> tuple[Effect, ...]:
    """Every variant against the baseline variant, per install and workload, in the plan's order.

    Raises AnalysisError when a round holds a cell twice.
    """
    groups: dict[Cell, list[tuple[Cell, Cell]]] = {}
    for install, workload, variant in plan.cells:
        # Each design has a baseline of its own, and what is known about its spread.
        if variant != (name := plan.baseline_of(variant)):
            baseline = Cell(install, workload, name)
            groups.setdefault(baseline, []).append((Cell(install, workload, variant), baseline))
    return _family(plan, list(groups.values()), by_variant(plan, trials), metric, level, plan.same)


def install_effects(
    plan: Plan, trials: Sequence[Trial], metric: str = "tps", level: float = LEVEL
) -> tuple[Effect, ...]:
    """Every variant and workload on the later installs against the same on the first install.

    Empty for a plan with one install. Raises AnalysisError when a round holds a cell twice.
    """
    first = plan.installs[0].label
    groups = [
        [
            (Cell(install.label, workload.name, v.name), Cell(first, workload.name, v.name))
            for v in plan.variants
        ]
        for install in plan.installs[1:]
        for workload in plan.workloads
    ]
    return _family(plan, groups, by_variant(plan, trials), metric, level)


def workload_effects(
    plan: Plan, against: str, trials: Sequence[Trial], metric: str = "tps", level: float = LEVEL
) -> tuple[Effect, ...]:
    """Every variant and install under the other workloads against the same under workload ``against``.

    Raises AnalysisError when a round holds a cell twice.
    """
    groups = [
        [(Cell(install.label, workload.name, v.name), Cell(install.label, against, v.name))]
        for install in plan.installs
        for workload in plan.workloads
        for v in plan.variants
        if workload.name != against
    ]
    return _family(plan, groups, by_variant(plan, trials), metric, level)


def _family(
    plan: Plan,
    groups: Sequence[Sequence[tuple[Cell, Cell]]],
    trials: Sequence[Trial],
    metric: str,
    level: float,
    same: Sequence[str] = (),
) -> tuple[Effect, ...]:
    """The effects of all groups as one family; comparisons of a group share one estimate of the spread.
    Variants that are the ``same`` as their baseline are no part of it: there is nothing to find out."""
    index, rounds = index_trials(trials), rounds_of(trials)
    found = [
        _known(plan.variant(contrast.cell.variant).design, contrast, index, rounds, metric, level)
        for group in groups
        for contrast in contrasts(group, trials, metric)
    ]
    adjusted = _adjusted(found, same)
    comparisons = sum(p is not None for p in adjusted)
    return tuple(
        _effect(known, metric, level, p, comparisons, is_same=known.contrast.cell.variant in same)
        for known, p in zip(found, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """A contrast, and what its slices say where its design is toggled."""

    contrast: Contrast
    design: Design
    toggled: Toggled | None
    components: Components | None = None

    @property
    def mean(self) -> float | None:
        return self.contrast.mean if self.toggled is None else self.toggled.log_ratio

    @property
    def p(self) -> float | None:
        return self.contrast.p if self.toggled is None else self.toggled.p

    @property
    def spread(self) -> Spread | None:
        return self.contrast.spread if self.toggled is None else self.toggled.spread(len(self.contrast.pairs))

    def interval(self, level: float) -> Interval | None:
        if self.toggled is None:
            return self.contrast.interval(level)
        return self.toggled.log_interval.exp() if self.toggled.log_interval else None


def _known(
    design: Design,
    contrast: Contrast,
    index: Mapping[tuple[int, Cell], Trial],
    rounds: Sequence[int],
    metric: str,
    level: float,
) -> _Known:
    starts = [
        (trial.slices, other.slices)
        for number in rounds
        if (trial := index.get((number, contrast.cell))) and (other := index.get((number, contrast.baseline)))
        if trial.slices and other.slices
    ]
    if not starts or metric not in TOTALS:
        return _Known(contrast, design, None)
    # Of servers that take turns, a start has one value of each variant, which are compared as rounds are.
    toggled = estimate(starts, metric, level) if design is Design.TOGGLED else None
    return _Known(contrast, design, toggled, components_of(starts, metric))


def _adjusted(found: Sequence[_Known], same: Sequence[str]) -> list[float | None]:
    """p values adjusted for the family; None for those that have none."""
    most: dict[Cell, int] = {}
    for known in found:
        baseline = known.contrast.baseline
        most[baseline] = max(most.get(baseline, 0), len(known.contrast.pairs))
    family = {
        index: Compared(
            p=p,
            degrees=spread.degrees,
            group=known.contrast.baseline,
            # Rounds that one of two comparisons lacks are shared by neither: at least so much is left.
            shared=spread.shared * (len(known.contrast.pairs) / most[known.contrast.baseline]) ** 2,
            is_pooled=spread.pooling is not Pooling.OWN,
        )
        for index, known in enumerate(found)
        if known.contrast.cell.variant not in same
        and (p := known.p) is not None
        and (spread := known.spread) is not None
    }
    adjusted = dict(zip(family, family_p_values(list(family.values())), strict=True))
    return [adjusted.get(index) for index in range(len(found))]


def _effect(
    known: _Known, metric: str, level: float, adjusted: float | None, comparisons: int, *, is_same: bool
) -> Effect:
    contrast = known.contrast
    logs = [pair.log for pair in contrast.pairs]
    interval, mean = known.interval(level), known.mean
    ratio = None if mean is None else math.exp(mean)
    return Effect(
        metric=metric,
        install=contrast.cell.install,
        workload=contrast.cell.workload,
        variant=contrast.cell.variant,
        baseline=contrast.baseline,
        n=len(contrast.pairs),
        left_out=contrast.begun - len(contrast.pairs),
        ratio=ratio,
        median_ratio=math.exp(median(logs)) if logs else None,
        interval=interval,
        half_width=interval.half_width(ratio) if interval and ratio else None,
        spread=known.spread,
        conclusion=Conclusion.SAME if is_same else conclude(interval, adjusted),
        p=known.p,
        p_family=adjusted,
        comparisons=comparisons,
        ratios=tuple(
            RoundRatio(pair.round, pair.ratio, pair.trial, pair.baseline_trial, outlier=outlier)
            for pair, outlier in zip(contrast.pairs, flag_outliers(logs), strict=True)
        ),
        design=known.design,
        toggled=known.toggled,
        components=known.components,
    )


def conclude(interval: Interval | None, p_family: float | None = None) -> Conclusion:
    """What the interval of a ratio allows to say; ``p_family`` where it is one of several comparisons."""
    if interval is None:
        return Conclusion.TOO_FEW
    if interval.contains(1.0):
        return Conclusion.NO_DIFFERENCE
    if p_family is not None and p_family > 1 - interval.level:
        return Conclusion.IN_DOUBT
    return Conclusion.HIGHER if interval.low > 1 else Conclusion.LOWER
