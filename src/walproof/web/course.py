"""The progress of a run: what is done and left, what failed, and how its intervals narrow by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.effect import effects
from walproof.errors import AnalysisError
from walproof.facts import Trial, TrialState
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.narrowing import NarrowingData, NarrowingPoint
from walproof.report.figures.style import marked
from walproof.report.kinds.registry import report_kind
from walproof.report.numbers import percent
from walproof.units import format_utc
from walproof.web.listed import ListedRun

_LINES_MOST = 8
_ROUNDS_MOST = 40
"""The most rounds that are looked at; of more rounds, this many, evenly spaced."""
_FAILURES_MOST = 20
_WAITS_MOST = 6
_WAIT = "wait_share."


@dataclass(frozen=True, slots=True)
class RunCourse:
    """A run so far."""

    listed: ListedRun
    last: Trial | None
    """Its newest trial."""
    failures: tuple[Trial, ...]
    """Newest first."""
    points: tuple[NarrowingPoint, ...]

    @property
    def share(self) -> float:
        """Stored trials as a share of the most that the run can have."""
        return min(1.0, self.listed.extent.trials / max(1, self.listed.run.trials_most))

    @property
    def last_waits(self) -> tuple[tuple[str, str], ...]:
        """What the newest trial's sessions waited for most: (event, share in words)."""
        metrics = {} if self.last is None else self.last.metrics
        waits = [
            (name.removeprefix(_WAIT), share) for name, share in metrics.items() if name.startswith(_WAIT)
        ]
        waits.sort(key=lambda wait: -wait[1])
        return tuple((name, percent(share)) for name, share in waits[:_WAITS_MOST])


def course_of(listed: ListedRun, trials: Sequence[Trial]) -> RunCourse:
    """The progress of a run, from its stored trials, oldest first."""
    failures = [trial for trial in reversed(trials) if trial.state is TrialState.FAILED]
    last = trials[-1] if trials else None
    return RunCourse(listed, last, tuple(failures[:_FAILURES_MOST]), tuple(_points(listed, trials)))


def _points(listed: ListedRun, trials: Sequence[Trial]) -> list[NarrowingPoint]:
    plan = listed.run.plan
    metric = report_kind(plan.kind).metric_of(plan)
    rounds = sorted({trial.round for trial in trials})
    step = max(1, -(-len(rounds) // _ROUNDS_MOST))
    found = []
    for number in sorted({*rounds[1::step], *rounds[1:][-1:]}):
        try:
            known = effects(plan, [trial for trial in trials if trial.round <= number], metric)
        except AnalysisError:
            return []
        for effect in known:
            if effect.half_width is not None:
                label = marked(effect.variant, plan.variant(effect.variant).durability)
                where = f", {effect.workload}" if len(plan.workloads) > 1 else ""
                where += f", PostgreSQL {effect.install}" if len(plan.installs) > 1 else ""
                found.append(NarrowingPoint(number, f"{label}{where}", effect.half_width))
    last = {point.name: point.half_width for point in found}
    widest = sorted(last, key=lambda name: -last[name])[:_LINES_MOST]
    return [point for point in found if point.name in widest]


def narrowing(course: RunCourse) -> list[Block]:
    """The plot of the intervals, and what failed."""
    blocks: list[Block] = []
    if course.points:
        data = NarrowingData(course.points, course.listed.run.plan.half_width)
        blocks.append(
            Figure(
                "narrowing",
                "How well is each ratio known, round by round?",
                f"Half of the 95 % interval, as a share of the ratio, for the {_LINES_MOST} ratios at most "
                "that are known least well.",
                f"run {course.listed.run.id}",
                data.describe(),
                data,
            )
        )
    if course.failures:
        columns = (Column("ended"), Column("trial", numeric=True), Column("of"), Column("reason"))
        rows = tuple(
            (
                TableCell(format_utc(trial.ended_at)),
                *text_cells((str(trial.number), ", ".join(trial.cell), trial.reason or "no reason stored")),
            )
            for trial in course.failures
        )
        note = f"{course.listed.extent.failed} failed so far; no figure uses them."
        blocks.append(Table("Failed trials, newest first", columns, rows, note))
    return blocks
