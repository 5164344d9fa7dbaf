"""Did the machine change while the run went on, and how much of that did interleaving remove?

Each trial is taken relative to its own cell's mean (a log ratio), so that trials of all variants show one
machine. Three questions: is there a trend over the run, do neighbours in time resemble each other beyond
it, and how much of a trial's variance is shared by its round and so cancels in within-round ratios.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev

from walproof.analysis.interval import LEVEL, Interval, t_quantile
from walproof.analysis.rounds import positive_metric
from walproof.facts import Cell, Plan, Trial
from walproof.facts.metrics import MetricKind
from walproof.facts.metrics import metric as metric_row

TRIALS_MIN = 6
"""Fewer trials, beyond one per cell, say nothing about a trend."""
_TREND_SEEN = 1.25
"""A machine is called steady when a trend of that factor over the run would have shown."""


class Steadiness(Enum):
    """What the run says about its machine."""

    STEADY = "steady"
    """No trend, and neighbours in time are no more alike than others."""
    SLOWING = "slowing"
    """The machine became slower: a rate fell over the run, or a duration rose."""
    RISING = "rising"
    """It became faster."""
    WANDERING = "wandering"
    """No trend, but neighbours in time are alike: the machine has better and worse spells."""
    UNCLEAR = "unclear"
    """No trend that can be told from none, but trials differ so much that one of a quarter would not show."""
    TOO_FEW = "too few trials"


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """One trial relative to the mean of its cell."""

    trial: int
    round: int
    install: str
    workload: str
    variant: str
    relative: float
    """Value relative to the geometric mean of the trial's cell, which is 1."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How steady the machine was."""

    metric: str
    steadiness: Steadiness
    trend: float | None
    """Ratio of the metric at the last trial to that at the first, along a straight line of the logs."""
    trend_interval: Interval | None
    lag1_correlation: float | None
    """Correlation of a trial with the next one, after the trend is removed; 0 for a steady machine."""
    baseline_spread: float | None
    """Standard deviation of the baseline from round to round, as a share (0.05 is 5 %)."""
    removed_share: float | None
    """Share of a trial's variance that is common to its round: what interleaving removed. 0 to 1."""
    points: tuple[DriftPoint, ...]
    """Trials in run order."""


def measure_drift(plan: Plan, trials: Sequence[Trial], metric: str = "tps") -> Drift:
    """Trend, correlation and shared variance of a metric over the trials, in run order."""
    usable = sorted(
        (
            (trial, math.log(value))
            for trial in trials
            if (value := positive_metric(trial, metric)) is not None
        ),
        key=lambda pair: pair[0].number,
    )
    logs: dict[Cell, list[float]] = {}
    for trial, log in usable:
        logs.setdefault(trial.cell, []).append(log)
    # A cell seen once is its own mean: it says nothing about the machine.
    means = {cell: fmean(values) for cell, values in logs.items() if len(values) > 1}
    kept = [(trial, log - means[trial.cell]) for trial, log in usable if trial.cell in means]
    points = tuple(
        DriftPoint(trial.number, trial.round, *trial.cell, relative=math.exp(log)) for trial, log in kept
    )
    spread = _baseline_spread(plan, logs)
    if len(kept) - len(means) < TRIALS_MIN:
        return Drift(metric, Steadiness.TOO_FEW, None, None, None, spread, None, points)
    trend, interval, lag1 = _trend(kept)
    is_duration = metric_row(metric).kind is MetricKind.DURATION
    return Drift(
        metric=metric,
        steadiness=_steadiness(interval, lag1, len(kept), is_duration=is_duration),
        trend=trend,
        trend_interval=interval,
        lag1_correlation=lag1,
        baseline_spread=spread,
        removed_share=_removed_share(kept, len(means)),
        points=points,
    )


def _steadiness(trend: Interval, lag1: float, count: int, *, is_duration: bool) -> Steadiness:
    if not trend.contains(1.0):
        return Steadiness.SLOWING if (trend.low > 1) is is_duration else Steadiness.RISING
    # 2 / sqrt(n) is the usual 95 % limit of the correlation of independent values.
    if lag1 > 2 / math.sqrt(count):
        return Steadiness.WANDERING
    is_narrow = trend.low > 1 / _TREND_SEEN and trend.high < _TREND_SEEN
    return Steadiness.STEADY if is_narrow else Steadiness.UNCLEAR


def _trend(kept: Sequence[tuple[Trial, float]]) -> tuple[float, Interval, float]:
    """Line through the centred logs over run order; (last/first, its interval, lag-1 correlation)."""
    import numpy as np

    cells = sorted({trial.cell for trial, _ in kept})
    cell = np.array([cells.index(trial.cell) for trial, _ in kept])
    y = np.array([log for _, log in kept])
    order = np.array([trial.number for trial, _ in kept], dtype=float)
    # Centring x within cells as y is: the slope is then that of a regression with one mean per cell.
    x = order - (np.bincount(cell, order) / np.bincount(cell))[cell]
    slope = float(x @ y / (x @ x))
    rest = y - slope * x
    degrees = len(y) - len(cells) - 1
    error = math.sqrt(float(rest @ rest) / degrees / float(x @ x))
    length = float(order[-1] - order[0])
    reach = t_quantile(LEVEL, degrees) * error
    interval = Interval(math.exp((slope - reach) * length), math.exp((slope + reach) * length), LEVEL, "t")
    power = float(rest @ rest)
    lag1 = float(rest[:-1] @ rest[1:]) / power if power > 0 else 0.0
    return math.exp(slope * length), interval, lag1


def _baseline_spread(plan: Plan, logs: dict[Cell, list[float]]) -> float | None:
    """Pooled standard deviation of the baseline's logs between rounds, over installs and workloads."""
    baselines = [values for cell, values in logs.items() if cell[2] == plan.baseline and len(values) > 1]
    if not baselines:
        return None
    squares = sum(stdev(values) ** 2 * (len(values) - 1) for values in baselines)
    return math.sqrt(squares / sum(len(values) - 1 for values in baselines))


def _removed_share(kept: Sequence[tuple[Trial, float]], cells: int) -> float | None:
    """Between-round share of the variance: a two-way layout (cell, round), rounds random.

    Variance components from the mean squares (Searle, "Linear Models", chapter 9); failed trials
    unbalance the layout a little, which the average size of a round stands in for.
    """
    by_round: dict[int, list[float]] = {}
    for trial, log in kept:
        by_round.setdefault(trial.round, []).append(log)
    sizes = [len(values) for values in by_round.values()]
    degrees_within = len(kept) - cells - len(by_round) + 1
    if len(by_round) < 2 or degrees_within < 1 or max(sizes) < 2:
        return None
    between = sum(len(values) * fmean(values) ** 2 for values in by_round.values())
    within = sum((log - fmean(values)) ** 2 for values in by_round.values() for log in values)
    mean_square_within = within / degrees_within
    size = (sum(sizes) - sum(size**2 for size in sizes) / sum(sizes)) / (len(sizes) - 1)
    shared = max(0.0, (between / (len(by_round) - 1) - mean_square_within) / size)
    total = shared + mean_square_within
    return shared / total if total > 0 else 0.0
