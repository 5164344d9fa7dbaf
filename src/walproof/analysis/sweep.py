"""Batch sizes and numbers of sessions that are raised until more gains nothing.

A sweep is made of the variants of a study of loading that differ in one number alone. Its first FIRST_POINTS
points are tried as any other variant. A larger one is tried only when the last one has LEAST_ROUNDS rounds
(or all of the study's, where it has fewer) and the two steps up to it were not both shown to gain nothing:
the upper end of a step's interval, over rounds that have both of its points, is below GAIN. One such step can
be a dip, two in a row are the end. Points that the study's rounds did not reach get rounds of their own, with
the point below and the baseline, so that no step is judged from different rounds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from walproof.analysis.contrast import contrasts
from walproof.analysis.interval import Interval
from walproof.analysis.loading import GAIN
from walproof.facts import Cell, Load, LoadMethod, Plan, Trial, Variant

FIRST_POINTS = 3
"""Points that are tried in any case: two steps."""
LEAST_ROUNDS = 3
"""Rounds from which on a step is judged."""
METRIC = "rows_per_s"
Swept = Literal["rows a batch", "sessions"]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One variant of a sweep, and its number."""

    at: int
    cell: Cell


@dataclass(frozen=True, slots=True)
class Sweep:
    """Variants that differ in one number alone, ascending."""

    install: str
    workload: str
    swept: Swept
    feed: str
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True, slots=True)
class SweepStep:
    """What the larger of two neighbours gains."""

    below: SweepPoint
    above: SweepPoint
    rounds: int
    """Rounds that have both."""
    ratio: float | None
    interval: Interval | None
    """Interval of the gain; None for fewer than two rounds."""

    @property
    def is_gainless(self) -> bool:
        """Whether it is shown to gain less than GAIN."""
        return self.interval is not None and self.interval.high < 1 + GAIN


@dataclass(frozen=True, slots=True)
class Climb:
    """How far a sweep has come."""

    sweep: Sweep
    steps: tuple[SweepStep, ...]
    """Steps between tried neighbours."""
    reached: int
    """Number of points to try; the others are skipped."""
    is_waiting: bool
    """Whether the last of them has too few rounds to be judged."""
    has_ended: bool
    """Whether two steps in a row gained nothing."""

    @property
    def is_climbing(self) -> bool:
        """Whether a point above the first ones is still to be judged."""
        return self.is_waiting and self.reached > FIRST_POINTS

    @property
    def skipped(self) -> tuple[SweepPoint, ...]:
        """Points above that were not tried because the climb had ended."""
        return self.sweep.points[self.reached :]


def sweeps_of(plan: Plan) -> tuple[Sweep, ...]:
    """The sweeps of two points and more that the variants of a study of loading make; () for others."""
    if not isinstance(plan.kind, Load):
        return ()
    families: dict[tuple[Swept, str, object], dict[int, str]] = {}
    for variant in plan.variants:
        for swept, at, rest in _numbers(variant):
            families.setdefault((swept, variant.conditions_as(LoadMethod).feed, rest), {}).setdefault(
                at, variant.name
            )
    return tuple(
        Sweep(
            install.label,
            workload.name,
            swept,
            feed,
            tuple(SweepPoint(at, Cell(install.label, workload.name, members[at])) for at in sorted(members)),
        )
        for install in plan.installs
        for workload in plan.workloads
        for (swept, feed, _), members in families.items()
        if len(members) >= 2
    )


def climb(sweep: Sweep, trials: Sequence[Trial], rounds: int) -> Climb:
    """How far ``sweep`` gets with these trials of a study of so many rounds."""
    tried: dict[Cell, int] = {}
    for trial in trials:
        tried[trial.cell] = tried.get(trial.cell, 0) + 1
    steps = _steps(sweep, trials)
    least, reached = min(LEAST_ROUNDS, rounds), min(FIRST_POINTS, len(sweep.points))
    while True:
        is_waiting = tried.get(sweep.points[reached - 1].cell, 0) < least
        last = steps[reached - FIRST_POINTS : reached - 1]
        has_ended = len(last) == FIRST_POINTS - 1 and all(step.is_gainless for step in last)
        if is_waiting or has_ended or reached == len(sweep.points):
            shown = tuple(step for step in steps[: reached - 1] if step.rounds)
            return Climb(sweep, shown, reached, is_waiting, has_ended and not is_waiting)
        reached += 1


@dataclass(frozen=True, slots=True)
class ClimbSweeps:
    """The cells of a round, by its number and the trials of earlier rounds; an empty list ends the run."""

    plan: Plan

    def __call__(self, round_number: int, before: Sequence[Trial]) -> Collection[Cell]:
        """All cells except skipped points; after the study's rounds, only points that are still judged."""
        plan = self.plan
        climbs = [climb(sweep, before, plan.rounds) for sweep in sweeps_of(plan)]
        if round_number <= plan.rounds:
            resting = {point.cell for climb in climbs for point in climb.skipped}
            return [cell for cell in plan.round_cells(round_number) if cell not in resting]
        waiting = [climb for climb in climbs if climb.is_climbing]
        due: set[Cell] = set()
        for waiting_climb in waiting:
            due |= {
                point.cell
                for point in waiting_climb.sweep.points[waiting_climb.reached - 2 : waiting_climb.reached]
            }
            due.add(Cell(waiting_climb.sweep.install, waiting_climb.sweep.workload, plan.baseline))
        return [cell for cell in plan.cells if cell in due]

    def is_climbing(self, trials: Sequence[Trial]) -> bool:
        """Whether a point of a sweep is still to be judged."""
        plan = self.plan
        return any(climb(sweep, trials, plan.rounds).is_climbing for sweep in sweeps_of(plan))


def _steps(sweep: Sweep, trials: Sequence[Trial]) -> list[SweepStep]:
    """All steps, including those without a round."""
    neighbours = list(zip(sweep.points, sweep.points[1:], strict=False))
    found = contrasts([(above.cell, below.cell) for below, above in neighbours], trials, METRIC)
    return [
        SweepStep(
            below,
            above,
            len(contrast.pairs),
            None if contrast.mean is None else math.exp(contrast.mean),
            contrast.interval(),
        )
        for (below, above), contrast in zip(neighbours, found, strict=True)
    ]


def _numbers(variant: Variant) -> list[tuple[Swept, int, object]]:
    """What the variant could be a point of: the number, and all else, which its sweep has in common."""
    method = variant.conditions_as(LoadMethod)
    rest = (tuple(sorted(variant.settings.items())), method.steps, variant.waldir)
    found: list[tuple[Swept, int, object]] = [
        ("sessions", method.sessions, (rest, method.batch_rows, method.rows_most))
    ]
    if method.batch_rows is not None:
        found.append(("rows a batch", method.batch_rows, (rest, method.sessions)))
    return found
