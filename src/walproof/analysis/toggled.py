"""What slices of one running server say: a variant's ratio to its baseline, with an interval.

Slices of a pass stand beside each other in time, so ratios are formed within passes: whatever moves the
machine from pass to pass cancels. A few passes in a row make a group, whose ratio is that of its totals
(transactions a second of all its slices of the variant, over the same of the baseline): a stalled slice
weighs what it lasted, and a slice without a transaction needs no logarithm. Groups are long enough to be
nearly independent of each other where slices are not, and their log ratios, of all starts together, make a
t interval. The start is the unit instead where starts contradict each other, as a test of the variance
between them says.

Knows slices and numbers; ``walproof.analysis.effect`` puts its results beside those of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median, stdev

from walproof.analysis.components import Components, components, lag1
from walproof.analysis.inference.spread import Pooling, Spread
from walproof.analysis.inference.two_stage import SeenComparison, rounds_within, width_after
from walproof.analysis.interval import LEVEL, Interval, mean_interval, mean_p_value, t_quantile
from walproof.analysis.sliced import levels
from walproof.facts import Cell, Design, Plan, Slice, Trial, TrialState

GROUP_PASSES = 5
"""Passes in a group."""
GROUPS_LEAST = 3
"""Groups in a start: a shorter start has smaller ones."""
CONTRADICTION = 0.01
"""p value below which starts are said to differ by more than their passes explain."""

Totals = Callable[[Slice], tuple[float, float]]

TOTALS: Mapping[str, Totals] = {
    "tps": lambda slice_: (slice_.transactions, slice_.length_s),
    "latency_ms_avg": lambda slice_: (slice_.latency_ms_sum, slice_.transactions),
    "wal_bytes_per_txn": lambda slice_: (slice_.lsn_end - slice_.lsn_begin, slice_.transactions),
    "server_cpu_us_per_txn": lambda slice_: ((slice_.cpu_s or 0.0) * 1e6, slice_.transactions),
}
"""Metric -> the two quantities that are summed over slices and then divided."""


@dataclass(frozen=True, slots=True)
class Toggled:
    """What the slices of one variant and of its baseline say about a metric."""

    starts: int
    passes: int
    """Passes that have a slice of both, in all starts together."""
    groups: int
    """Groups of passes; each has a ratio."""
    log_ratio: float
    """Mean of the groups' logarithms."""
    log_interval: Interval | None
    """Interval; None for fewer than two groups."""
    p: float | None
    group_spread: float | None
    """Standard deviation of the groups' logarithms."""
    pair_spread: float | None
    """The same of the ratio of two slices of a pass."""
    pair_correlation: float | None
    """Correlation of the ratios of neighbouring passes within a start; 0 where passes are independent."""
    start_p: float | None
    """p value of "starts differ no more than their passes explain"; None for one start."""
    contradicting: bool
    """Whether the starts are the units, because they contradict each other."""

    def spread(self, starts: int) -> Spread | None:
        """How much the mean of ``starts`` starts varies, as if each had one ratio; None for too few groups.

        Slices of other variants say nothing about it, so it is not pooled.
        """
        units = self.starts if self.contradicting else self.groups
        if self.log_interval is None or units < 2 or starts < 1:
            return None
        reach = (self.log_interval.high - self.log_interval.low) / 2
        error = reach / t_quantile(self.log_interval.level, units - 1)
        return Spread(error**2 * starts, units - 1.0, Pooling.OWN, 0.0)

    def half_width_after(self, starts: int, level: float = LEVEL) -> float | None:
        """Half-width as a share of the ratio, after that many starts of this length; None as in
        ``starts_for``."""
        if self.contradicting:
            seen = self._seen
            return None if seen is None else width_after(seen, starts, level)
        if not self.group_spread:
            return None
        return math.expm1(self._reach(starts * self.groups / self.starts, level))

    def starts_for(self, half_width: float, level: float = LEVEL) -> int | None:
        """More starts of this length until the interval reaches no farther than ``half_width``.

        None if nothing is known about the spread. Starts that contradict each other are planned for by how
        much they differ, which few of them hardly know: one more at least has to show it.
        """
        if self.contradicting:
            seen = self._seen
            return None if seen is None else max(1, rounds_within(seen, half_width, level) - self.starts)
        if not self.group_spread:
            return None
        each, reach, starts = self.groups / self.starts, math.log1p(half_width), self.starts
        while self._reach(starts * each, level) > reach * (1 + 1e-9):
            starts += 1 if starts < _COUNTED else starts // _COUNTED
        return starts - self.starts

    @property
    def _seen(self) -> SeenComparison | None:
        """The starts, as units."""
        spread = self.spread(self.starts)
        return None if spread is None else SeenComparison(spread, self.starts)

    def _reach(self, groups: float, level: float) -> float:
        assert self.group_spread is not None
        return t_quantile(level, groups - 1) * self.group_spread / math.sqrt(groups)


_COUNTED = 1000


def estimate(
    starts: Sequence[tuple[Sequence[Slice], Sequence[Slice]]],
    metric: str,
    level: float = LEVEL,
    *,
    group_passes: int = GROUP_PASSES,
) -> Toggled | None:
    """From (slices of the variant, slices of the baseline) of each start; None without a usable group.

    Raises KeyError for a metric that is not a quotient of totals.
    """
    totals = TOTALS[metric]
    paired = [_pairs(of_variant, base) for of_variant, base in starts]
    units = [logs for pairs in paired if (logs := _group_logs(pairs, totals, group_passes))]
    every = [log for logs in units for log in logs]
    if not every:
        return None
    singles = [_logs([[pair] for pair in pairs], totals) for pairs in paired]
    start_p = _contradiction(units)
    contradicting = start_p is not None and start_p < CONTRADICTION
    deciding = [fmean(logs) for logs in units] if contradicting else every
    return Toggled(
        starts=len(units),
        passes=sum(len(pairs) for pairs in paired),
        groups=len(every),
        log_ratio=fmean(deciding),
        log_interval=mean_interval(deciding, level),
        p=mean_p_value(deciding),
        group_spread=stdev(every) if len(every) > 1 else None,
        pair_spread=_pooled([logs for logs in singles if len(logs) > 1]),
        pair_correlation=lag1(singles),
        start_p=start_p,
        contradicting=contradicting,
    )


def by_variant(plan: Plan, trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The trials with each start as one trial of every variant that it was toggled to, or whose server was
    part of it; where builds or versions of a load took turns, as one of each.

    Such a trial has its own slices alone, and metrics that are computed from them. Trials that are
    already in this form stay as they are.
    """
    if not plan.has_slices:
        return tuple(trials)
    found: list[Trial] = []
    for trial in trials:
        cells = plan.shared_cells(trial.cell)
        is_whole = len({slice_.variant for slice_ in trial.slices}) > 1
        if not cells or (trial.state is TrialState.DONE and not is_whole):
            found.append(trial)
        elif trial.state is TrialState.DONE:
            takes_turns = plan.variant(trial.variant).design is Design.SLICED
            typical = {
                metric: levels(trial.slices, totals) for metric, totals in TOTALS.items() if takes_turns
            }
            found += [_of_cell(trial, name, cell, typical) for name, cell in cells.items()]
        elif not any(other.number == trial.number and other is not trial for other in trials):
            found += [_in(cell, trial) for cell in cells.values()]
        else:
            found.append(trial)
    return tuple(found)


def _in(cell: Cell, trial: Trial) -> Trial:
    return replace(trial, install=cell.install, workload=cell.workload, variant=cell.variant)


def _of_cell(start: Trial, name: str, cell: Cell, typical: Mapping[str, Mapping[str, float]]) -> Trial:
    """The trial of that cell, whose slices have that name."""
    slices = tuple(slice_ for slice_ in start.slices if slice_.variant == name)
    found = {metric: values[name] for metric, values in typical.items() if name in values}
    return replace(_in(cell, start), slices=slices, metrics=found or _metrics(slices), window_s=None)


def _metrics(slices: Sequence[Slice]) -> dict[str, float]:
    found = {}
    for name, totals in TOTALS.items():
        above, below = map(sum, zip(*map(totals, slices), strict=True)) if slices else (0.0, 0.0)
        if above > 0 and below > 0:
            found[name] = above / below
    for name in ("latency_ms_p50", "latency_ms_p95", "latency_ms_p99"):
        values = [value for slice_ in slices if (value := getattr(slice_, name)) is not None]
        if values:
            found[name] = median(values)
    return found


Pair = tuple[Slice, Slice]


def components_of(
    starts: Sequence[tuple[Sequence[Slice], Sequence[Slice]]], metric: str
) -> Components | None:
    """How much the ratio varies, from (slices of the variant, slices of the baseline) of each start."""
    return components(
        [_logs([[pair] for pair in _pairs(of_variant, base)], TOTALS[metric]) for of_variant, base in starts]
    )


def _pairs(of_variant: Sequence[Slice], base: Sequence[Slice]) -> list[Pair]:
    """The slices of both by pass, in their order."""
    of_pass = {slice_.pass_number: slice_ for slice_ in base}
    return [
        (slice_, of_pass[slice_.pass_number])
        for slice_ in sorted(of_variant, key=lambda slice_: slice_.pass_number)
        if slice_.pass_number in of_pass
    ]


def _group_logs(pairs: Sequence[Pair], totals: Totals, group_passes: int) -> list[float]:
    """Log ratio of each group of consecutive passes, the groups as equal in size as possible."""
    count = min(len(pairs), max(GROUPS_LEAST, len(pairs) // group_passes))
    edges = [round(at * len(pairs) / count) for at in range(count + 1)] if count else []
    return _logs([pairs[low:high] for low, high in pairwise(edges)], totals)


def _logs(groups: Sequence[Sequence[Pair]], totals: Totals) -> list[float]:
    """Log ratio of each group's totals; a group in which nothing ended has none."""
    found = []
    for group in groups:
        of_variant = [totals(slice_) for slice_, _ in group]
        base = [totals(other) for _, other in group]
        sums = [sum(column) for column in (*zip(*of_variant, strict=True), *zip(*base, strict=True))]
        if all(total > 0 for total in sums):
            found.append(math.log(sums[0] / sums[1]) - math.log(sums[2] / sums[3]))
    return found


def _contradiction(units: Sequence[Sequence[float]]) -> float | None:
    """p value of one variance within and between starts (F test of a one-way layout); None for one start, or
    where no start has two groups."""
    from scipy.special import fdtrc

    every = [value for unit in units for value in unit]
    between, within = len(units) - 1, len(every) - len(units)
    if between < 1 or within < 1:
        return None
    mean = fmean(every)
    around = sum(len(unit) * (fmean(unit) - mean) ** 2 for unit in units) / between
    inside = sum((value - fmean(unit)) ** 2 for unit in units for value in unit) / within
    return 1.0 if inside == 0 else float(fdtrc(between, within, around / inside))


def _pooled(samples: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation within samples."""
    degrees = sum(len(sample) - 1 for sample in samples)
    if degrees < 1:
        return None
    return math.sqrt(sum(stdev(sample) ** 2 * (len(sample) - 1) for sample in samples) / degrees)
