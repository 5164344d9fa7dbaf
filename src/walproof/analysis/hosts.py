"""One plan on several hosts: each compares its variants by itself, and hosts are put together as blocks.

A ratio is never one of a host to another. Two questions are kept apart: is a host slower or faster than the
others (the baseline's own metric), and does a setting do something else there (its ratio)?
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from walproof.analysis.effect import effects, install_effects
from walproof.analysis.inference.random_effects import apart, combine
from walproof.analysis.interval import LEVEL, Interval, t_quantile
from walproof.analysis.rounds import positive_metric
from walproof.analysis.toggled import by_variant
from walproof.facts import Cell, ImageState, Plan, Trial

_ODD_P = 1 - LEVEL
_SUSPECT_P = 0.2
"""In one study of five, the farthest of four hosts that are alike has a smaller p value."""


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """What one host says about one quantity."""

    host: str
    value: float
    """A ratio, or the metric itself."""
    interval: Interval
    rounds: int
    against_others: float | None
    """Its value relative to the other hosts; None if they are too few to tell (fewer than three)."""
    odd_p: float | None
    """p value of "it is a host like the others", adjusted for all hosts."""

    @property
    def is_odd(self) -> bool:
        """Whether it stands apart from the others."""
        return self.odd_p is not None and self.odd_p < _ODD_P

    @property
    def is_suspect(self) -> bool:
        """Whether it may stand apart, and too few hosts are there to be sure."""
        return self.odd_p is not None and _ODD_P <= self.odd_p < _SUSPECT_P


@dataclass(frozen=True, slots=True)
class Across:
    """One quantity over all hosts."""

    cell: Cell
    baseline: Cell | None
    """The baseline; None if the quantity is the cell's metric and not a ratio."""
    hosts: tuple[HostEstimate, ...]
    silent: tuple[str, ...]
    """Hosts with fewer than two rounds of it."""
    mean: float | None
    """Geometric mean over hosts; None for fewer than two."""
    interval: Interval | None
    between: float | None
    """How much hosts differ: the standard deviation of the logarithms."""
    prediction: Interval | None
    """Interval for one more host like these; None for fewer than three."""

    @property
    def odd(self) -> tuple[HostEstimate, ...]:
        """Hosts that stand apart."""
        return tuple(host for host in self.hosts if host.is_odd)

    @property
    def suspect(self) -> tuple[HostEstimate, ...]:
        """Hosts that may stand apart."""
        return tuple(host for host in self.hosts if host.is_suspect)


@dataclass(frozen=True, slots=True)
class HostLoss:
    """What power cuts or failovers of a cell left on one host."""

    cell: Cell
    host: str
    count: int
    """Power cuts or failovers."""
    losing: int
    """Those after which acknowledged commits were gone, or worse."""
    commits_most: int
    """Most commits that one of them lost."""
    images: Mapping[str, int]
    """State -> number of images of power cuts that were left in it, from the best to the worst."""


@dataclass(frozen=True, slots=True)
class HostStudy:
    """A plan's results over hosts."""

    metric: str
    levels: tuple[Across, ...]
    """The metric of the baselines: which host is slow."""
    effects: tuple[Across, ...]
    """Ratios of variants to their baseline: what a setting does; and of installs to the first one."""
    losses: tuple[HostLoss, ...] = ()
    """What power cuts and failovers left; empty where there were none."""


def over_hosts(plan: Plan, trials: Mapping[str, Sequence[Trial]], metric: str) -> HostStudy:
    """``trials``: those of each host's run, by the host's name. Raises AnalysisError."""
    # A start of slices is stored as one trial, whose own metrics are those of all variants together.
    apart_by_variant = {host: by_variant(plan, of_host) for host, of_host in trials.items()}
    found = {
        host: {
            (effect.cell, effect.baseline): effect
            for effect in (*effects(plan, of_host, metric), *install_effects(plan, of_host, metric))
        }
        for host, of_host in apart_by_variant.items()
    }
    ratios = []
    for cell, baseline in dict.fromkeys(pair for of_host in found.values() for pair in of_host):
        known: dict[str, _Known] = {}
        for host, of_host in found.items():
            effect = of_host[cell, baseline]
            if effect.ratio and effect.interval and effect.spread and effect.interval.low > 0:
                width = math.log(effect.interval.high) - math.log(effect.interval.low)
                error = width / 2 / t_quantile(effect.interval.level, effect.spread.degrees)
                known[host] = _Known(math.log(effect.ratio), error**2, effect.interval, effect.n)
        ratios.append(_across(cell, baseline, known, tuple(trials)))
    # A variant on the first install is what the same on the others is compared with, and no baseline itself.
    baselines = dict.fromkeys(
        ratio.baseline
        for ratio in ratios
        if ratio.baseline is not None and plan.baseline_of(ratio.baseline.variant) == ratio.baseline.variant
    )
    levels = [
        _across(
            cell,
            None,
            {
                host: at_host
                for host, of_host in apart_by_variant.items()
                if (at_host := _level(of_host, cell, metric)) is not None
            },
            tuple(trials),
        )
        for cell in baselines
    ]
    return HostStudy(metric, tuple(levels), tuple(ratios), tuple(_losses(plan, trials)))


def _losses(plan: Plan, trials: Mapping[str, Sequence[Trial]]) -> Iterator[HostLoss]:
    """Of each cell whose power was cut, or whose standby was promoted, on each host."""
    for cell in plan.cells:
        for host, of_host in trials.items():
            of_cell = [trial for trial in of_host if trial.cell == cell]
            cuts = [trial.cut for trial in of_cell if trial.cut is not None]
            failovers = [
                int(lost) for trial in of_cell if (lost := trial.metrics.get("commits_lost")) is not None
            ]
            images = [image for cut in cuts for image in cut.images]
            if not cuts and not failovers:
                continue
            counts = {state.value: sum(image.state is state for image in images) for state in ImageState}
            yield HostLoss(
                cell,
                host,
                count=len(cuts) + len(failovers),
                losing=sum(any(not image.state.is_sound for image in cut.images) for cut in cuts)
                + sum(lost > 0 for lost in failovers),
                commits_most=max([*failovers, *(image.lost_commits for image in images)], default=0),
                images={state: count for state, count in counts.items() if count},
            )


@dataclass(frozen=True, slots=True)
class _Known:
    log: float
    variance: float
    interval: Interval
    rounds: int


def _level(trials: Sequence[Trial], cell: Cell, metric: str) -> _Known | None:
    logs = [
        math.log(value)
        for trial in trials
        if trial.cell == cell and (value := positive_metric(trial, metric)) is not None
    ]
    if len(logs) < 2:
        return None
    mean, error2 = fmean(logs), variance(logs) / len(logs)
    reach = t_quantile(LEVEL, len(logs) - 1) * math.sqrt(error2)
    return _Known(mean, error2, Interval(mean - reach, mean + reach, LEVEL, "t").exp(), len(logs))


def _across(cell: Cell, baseline: Cell | None, known: Mapping[str, _Known], hosts: Sequence[str]) -> Across:
    logs = [known_here.log for known_here in known.values()]
    variances = [known_here.variance for known_here in known.values()]
    estimates = tuple(
        HostEstimate(
            host,
            math.exp(estimate.log),
            estimate.interval,
            estimate.rounds,
            None if distance is None else math.exp(distance[0]),
            None if distance is None else distance[1],
        )
        for (host, estimate), distance in zip(known.items(), apart(logs, variances), strict=True)
    )
    silent = tuple(host for host in hosts if host not in known)
    if len(known) < 2:
        return Across(cell, baseline, estimates, silent, None, None, None, None)
    both = combine(logs, variances)
    return Across(
        cell, baseline, estimates, silent, math.exp(both.mean), both.interval.exp(), both.tau,
        both.prediction.exp() if both.prediction else None,
    )  # fmt: skip
