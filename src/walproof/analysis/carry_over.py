"""What a toggled variant leaves to the slice after it, and where after a checkpoint slices lie.

A least-squares line per pass, variant and predecessor through the logarithms of the slices (the model of
cross-over trials with first-order carry-over: Jones and Kenward, "Design and Analysis of Cross-Over Trials",
chapter 5). Orders are balanced, so a predecessor's effect hardly moves the ratios; a large one says that the
variant does not belong on one server with the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from walproof.analysis.comparisons import adjust_p_values
from walproof.analysis.interval import LEVEL, Interval, t_p_value, t_quantile
from walproof.analysis.toggled import TOTALS
from walproof.facts import Cell, Design, Plan, Slice, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NOTABLE = 0.01
"""A carry-over beyond 1 % that can be told from none makes a variant unfit for one server with others."""
LASTING_MOST = 0.1
"""Share of a slice for which transactions that began before it may go on."""


@dataclass(frozen=True, slots=True)
class CarryOver:
    """The ratio of slices after one variant to slices after the baseline."""

    metric: str
    install: str
    workload: str
    variant: str
    slices: int
    """Number of slices that follow a slice of the variant."""
    ratio: float
    interval: Interval
    """Of this ratio alone."""
    p_family: float | None = None
    """p value of "nothing is left", adjusted for all carry-overs of the run (Holm)."""

    @property
    def is_small(self) -> bool:
        """Whether it is 1 % at most."""
        return abs(math.log(self.ratio)) <= NOTABLE

    @property
    def is_notable(self) -> bool:
        """Whether it is beyond 1 % and not chance, with all carry-overs of the run counted."""
        if self.is_small or self.interval.contains(1.0):
            return False
        return self.p_family is None or self.p_family <= 1 - self.interval.level


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """Where the slices or windows of a design lie."""

    design: Design
    after_checkpoint_s: tuple[float, float] | None
    """Seconds of load from the CHECKPOINT before it to the first slice, or the window, and to the end.

    None where no CHECKPOINT was asked for."""
    checkpoints: int
    """Checkpoints that began meanwhile, in all starts together."""
    starts: int
    """Or windows."""
    wal_change: float | None = None
    """WAL bytes of a transaction in the last third of the baseline's slices, over those in the first third: 1
    where the place is steady. None of windows."""


def carry_overs(plan: Plan, trials: Sequence[Trial], metric: str = "tps") -> tuple[CarryOver, ...]:
    """The carry-over of each toggled variant except the baseline, in the plan's order, from stored trials.

    Empty where a start is too short.
    """
    if plan.toggling is None or metric not in TOTALS:
        return ()
    others = [variant.name for variant in plan.toggled if variant.name != plan.toggling.baseline]
    found = []
    for install in plan.installs:
        for workload in plan.workloads:
            of_group = [
                trial.slices
                for trial in trials
                if (trial.install, trial.workload) == (install.label, workload.name)
                and plan.variant(trial.variant).design is Design.TOGGLED
            ]
            fitted = fit_carry_over(of_group, plan.toggling.baseline, others, metric)
            found += [
                CarryOver(metric, install.label, workload.name, name, *fitted[name])
                for name in others
                if name in fitted
            ]
    adjusted = adjust_p_values([over.p_family for over in found])
    return tuple(replace(over, p_family=p) for over, p in zip(found, adjusted, strict=True))


def say_left(plan: Plan, trials: Sequence[Trial], cell: Cell, metric: str) -> str | None:
    """That a variant leaves something notable of the metric to the slice after it; None where it does not.
    ``trials`` as stored."""
    for over in carry_overs(plan, trials, metric):
        if over.is_notable and (over.install, over.workload, over.variant) == cell:
            return (
                f"though {over.variant} leaves something to the slice after it ({over.ratio:.3g}x): --design "
                "fresh judges it on servers of its own"
            )
    return None


def lasting_ms(plan: Plan, trials: Sequence[Trial], install: str, workload: str) -> float | None:
    """How long 95 % of the transactions take at most in the usual toggled slice, in milliseconds, where that
    is too long for slices; None where it is not, or is not known, as at an offered rate, whose latencies hold
    the wait for a free client.

    A statement goes on with the settings that it began with, and is counted in the slice in which its
    transaction ends. Beyond the guard time it began under the settings of a slice before, and the ratio comes
    out too near 1. Where the rest reaches no farther than a tenth of a slice, so does a tenth of the effect.
    """
    cut = plan.toggling
    if cut is None or plan.workload(workload).rate_tps is not None:
        return None
    found = [
        slice_.latency_ms_p95
        for trial in trials
        if (trial.install, trial.workload) == (install, workload)
        and plan.variant(trial.variant).design is Design.TOGGLED
        for slice_ in trial.slices
        if slice_.latency_ms_p95 is not None
    ]
    usual = median(found) if found else 0.0
    return usual if usual / 1000 > cut.guard_s + LASTING_MOST * cut.slice_s else None


def say_lasting(plan: Plan, trials: Sequence[Trial], install: str, workload: str) -> str | None:
    """What it means that transactions last so long; None where they do not."""
    latency_ms = lasting_ms(plan, trials, install, workload)
    if latency_ms is None or plan.toggling is None:
        return None
    return (
        f"5 % of its transactions take {latency_ms:.3g} ms or more, too long for toggled slices of "
        f"{plan.toggling.slice_s * 1000:.3g} ms: what ends in a slice began under other settings, so that "
        "differences come out too small"
    )


def places_of(plan: Plan, trials: Sequence[Trial]) -> tuple[WindowPlace, ...]:
    """One place for each design, from stored trials; for windows only where it was noted."""
    found = []
    for design in Design:
        of_group = [
            trial
            for trial in trials
            if plan.variant(trial.variant).design is design
            and (trial.slices or (design is Design.FRESH and "since_checkpoint_s" in trial.metrics))
        ]
        if of_group:
            found.append(_place(plan, design, of_group))
    return tuple(found)


def _place(plan: Plan, design: Design, starts: Sequence[Trial]) -> WindowPlace:
    ages = [t.metrics["since_checkpoint_s"] for t in starts if "since_checkpoint_s" in t.metrics]
    kinds = ("checkpoints_timed", "checkpoints_requested", "checkpoints_immediate")
    own = plan.turn_baseline if design is Design.SLICED else plan.baseline_of(starts[0].variant)
    return WindowPlace(
        design,
        (min(ages), max(ages) + max(_load_s(design, trial, own) for trial in starts))
        if len(ages) == len(starts)
        else None,
        round(sum(trial.metrics.get(kind, 0.0) for trial in starts for kind in kinds)),
        len(starts),
        None if design is Design.FRESH else _wal_change(own, starts),
    )


def _load_s(design: Design, trial: Trial, own: str | None) -> float:
    """How long a server was loaded from its first slice to the end of its last, or in its window."""
    if design is Design.FRESH:
        return trial.window_s or 0.0
    if design is Design.TOGGLED:
        return trial.slices[-1].ended_at - trial.slices[0].began_at
    return sum(slice_.length_s for slice_ in trial.slices if slice_.variant == own)


def _wal_change(baseline: str | None, starts: Sequence[Trial]) -> float | None:
    sums = {0: [0, 0], 2: [0, 0]}
    for trial in starts:
        of_baseline = [slice_ for slice_ in trial.slices if slice_.variant == baseline]
        for at, slice_ in enumerate(of_baseline):
            if (third := 3 * at // len(of_baseline)) in sums:
                sums[third][0] += slice_.lsn_end - slice_.lsn_begin
                sums[third][1] += slice_.transactions
    (first, of_first), (last, of_last) = sums[0], sums[2]
    return (last / of_last) / (first / of_first) if first and of_first and of_last else None


def fit_carry_over(
    starts: Sequence[Sequence[Slice]],
    baseline: str,
    others: Sequence[str],
    metric: str,
) -> Mapping[str, tuple[int, float, Interval, float]]:
    """Variant -> (slices after it, ratio to slices after the baseline, interval, p value of the ratio 1).

    Empty where there are too few slices.
    """
    import numpy as np

    rows, logs = [], []
    for number, slices in enumerate(starts):
        for slice_ in slices:
            above, below = TOTALS[metric](slice_)
            if slice_.predecessor is not None and above > 0 and below > 0:
                rows.append(((number, slice_.pass_number), slice_.variant, slice_.predecessor))
                logs.append(math.log(above / below))
    passes = list(dict.fromkeys(key for key, _, _ in rows))
    count = 2 * len(others)
    degrees = len(rows) - len(passes) - count
    if degrees < len(others) or not others:
        return {}
    # Without the mean of its pass, a line through the rest is the line with one mean per pass.
    place = np.array([passes.index(key) for key, _, _ in rows])
    columns = [[float(variant == name) for _, variant, _ in rows] for name in others]
    columns += [[float(before == name) for _, _, before in rows] for name in others]
    design, values = _within(np.array(columns).T, place), _within(np.array([logs]).T, place)[:, 0]
    if np.linalg.matrix_rank(design) < count:
        return {}
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ values
    rest = values - design @ fitted
    variance = float(rest @ rest) / degrees
    reach = t_quantile(LEVEL, degrees)
    found = {}
    for at, name in enumerate(others, len(others)):
        middle, error = float(fitted[at]), math.sqrt(variance * float(inverse[at, at]))
        interval = Interval(math.exp(middle - reach * error), math.exp(middle + reach * error), LEVEL, "t")
        after = sum(predecessor == name for _, _, predecessor in rows)
        p = t_p_value(middle / error, degrees) if error > 0 else float(middle == 0)
        found[name] = (after, math.exp(middle), interval, p)
    return found


def _within(columns: Floats, place: NDArray[np.int64]) -> Floats:
    """Each column less its mean over the rows of the same pass."""
    import numpy as np

    sums = np.zeros((int(place.max()) + 1, columns.shape[1]))
    np.add.at(sums, place, columns)
    centred: Floats = columns - (sums / np.bincount(place)[:, None])[place]
    return centred
