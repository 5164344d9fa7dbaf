"""What the list of runs says of one: question, answer, how sure, and the ratios that plots show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.effect import Effect
from walproof.errors import WalproofError
from walproof.facts import Run, Trial
from walproof.facts.metrics import metric
from walproof.report.answer import Answer
from walproof.report.layout import ReportView
from walproof.report.numbers import percent, ratio
from walproof.report.view import build_view
from walproof.settings.durability import DurabilityClass


@dataclass(frozen=True, slots=True)
class Mark:
    """A variant's ratio to its baseline."""

    install: str
    workload: str
    variant: str
    baseline: str
    ratio: float
    low: float | None
    """Ends of the interval; None for one round."""
    high: float | None
    text: str
    durability: DurabilityClass


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a few lines."""

    heading: str
    """The quantity that its ratios compare, such as ``throughput``."""
    answers: tuple[Answer, ...]
    how_sure: tuple[str, ...]
    resolution: str
    """How well the least certain ratio is known: ``± 3.4 %``; empty without intervals."""
    marks: tuple[Mark, ...]
    problem: str | None = None
    """Why there is no answer."""


def summarise(run: Run, trials: Sequence[Trial]) -> RunSummary:
    """The run in a few lines. If its facts make no report, the summary says why; nothing is raised."""
    try:
        view = build_view(run, trials)
    except WalproofError as error:
        return RunSummary("", (), (), "", (), error.message)
    found = view.analysis.effects
    widths = [effect.half_width for effect in found if effect.half_width is not None]
    return RunSummary(
        heading=metric(view.analysis.metric).heading,
        answers=view.answers,
        how_sure=view.how_sure,
        resolution=f"± {percent(max(widths))}" if widths else "",
        marks=tuple(_mark(view, effect, effect.ratio) for effect in found if effect.ratio is not None),
    )


def _mark(view: ReportView, effect: Effect, value: float) -> Mark:
    return Mark(
        effect.install,
        effect.workload,
        effect.variant,
        effect.baseline.variant,
        value,
        None if effect.interval is None else effect.interval.low,
        None if effect.interval is None else effect.interval.high,
        ratio(value, effect.interval),
        view.run.plan.variant(effect.variant).durability,
    )
