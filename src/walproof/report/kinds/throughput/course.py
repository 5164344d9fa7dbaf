"""Trials in run order: did the machine change while the run went on?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Trial
from walproof.facts.metrics import metric
from walproof.report.cells import Cells
from walproof.report.figures.channels import point_channels
from walproof.report.figures.scale import log_range, log_ticks
from walproof.report.figures.style import FAINT, INK, WIDTH, chart_of, configured, series_style
from walproof.report.numbers import number
from walproof.sentences import say_count
from walproof.settings.durability import DurabilityClass

_GAP = 3.0
"""A run that took this many times longer than its trials was interrupted: an axis of minutes would show the
pause."""


@dataclass(frozen=True, slots=True)
class CoursePoint:
    """One trial, or what one start of a server says of a variant."""

    trial: int
    round: int
    variant: str
    x: float
    value: float


@dataclass(frozen=True, slots=True)
class CoursePanel:
    """Points on one y axis."""

    title: str
    y: str
    points: tuple[CoursePoint, ...]
    line: tuple[tuple[float, float], tuple[float, float]] | None = None
    """Ends of the trend, where there is one."""


@dataclass(frozen=True, slots=True)
class CourseData:
    """Panels that share the x axis."""

    x: str
    variants: tuple[tuple[str, DurabilityClass], ...]
    """In the plan's order: the order of colours and shapes."""
    panels: tuple[CoursePanel, ...]

    @property
    def note(self) -> str:
        """What a reader has to know of the last panel, after a space; empty where there is nothing."""
        last = self.panels[-1]
        if not last.y.startswith("relative"):
            return ""
        trend = "; dashed: the trend" if last.line else ""
        return f" The last panel puts all points on one scale{trend}."

    def describe(self) -> str:
        """Panels and their range in words."""
        parts = []
        for panel in self.panels:
            values = [point.value for point in panel.points]
            parts.append(
                f"{panel.title}: {say_count(len(values), 'point')}, {panel.y} {number(min(values))} to "
                f"{number(max(values))}"
            )
        return f"Points against {self.x}. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        labels = {name: f"{name} ({durability.value})" for name, durability in self.variants}
        domain = list(labels.values())
        last = len(self.panels) - 1
        legend = alt.Legend(title="variant (durability class)", orient="right")
        colour, shape = point_channels("variant", domain, *series_style(len(domain)), legend)
        charts = []
        for index, panel in enumerate(self.panels):
            low, high = log_range([p.value for p in panel.points], least=1.05)
            values = [
                {
                    "x": p.x,
                    "y": p.value,
                    "variant": labels[p.variant],
                    "about": f"{labels[p.variant]}, round {p.round}, trial {p.trial}: {number(p.value)}",
                }
                for p in panel.points
            ]
            x = alt.X(
                "x:Q",
                title=self.x if index == last else None,
                scale=alt.Scale(zero=False),
                axis=alt.Axis(grid=False, tickCount=8),
            )
            y = alt.Y(
                "y:Q",
                title=panel.y,
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(values=list(log_ticks(low, high, 5)), format="~g"),
            )
            points = (
                chart_of(values)
                .mark_point(filled=True, size=55, opacity=0.9)
                .encode(
                    x=x,
                    y=y,
                    color=colour,
                    shape=shape,
                    description=alt.Description("about:N"),
                )
            )
            layers = [points]
            if panel.y.startswith("relative"):
                layers.insert(0, chart_of([{"y": 1}]).mark_rule(color=FAINT).encode(y=y))
            if panel.line:
                ends = [{"x": at, "y": value} for at, value in panel.line]
                layers.append(chart_of(ends).mark_line(color=INK, strokeDash=[5, 3]).encode(x=x, y=y))
            charts.append(alt.layer(*layers).properties(width=WIDTH - 310, height=150, title=panel.title))
        return configured(alt.vconcat(*charts, spacing=12))


def course(cells: Cells, trials: Sequence[Trial], analysis: Analysis) -> CourseData | None:
    """What is compared, per workload and install, then trials relative to their cells; None without any."""
    finished = sorted((t for cell in cells.plan.cells for t in cells.finished(cell)), key=lambda t: t.number)
    if not finished:
        return None
    title, place = _clock(trials)
    row = metric(analysis.metric)
    unit = "transactions/s" if analysis.metric == "tps" else f"{row.heading} ({row.unit})"
    panels = []
    for install, workload in cells.groups():
        points = tuple(
            CoursePoint(t.number, t.round, t.variant, place(t), t.metrics[analysis.metric])
            for t in finished
            if (t.install, t.workload) == (install, workload) and t.metrics.get(analysis.metric, 0) > 0
        )
        if points:
            panels.append(CoursePanel(cells.group_title(install, workload), unit, points))
    by_number = {t.number: t for t in finished}
    relative = tuple(
        CoursePoint(p.trial, p.round, p.variant, place(by_number[p.trial]), p.relative)
        for p in analysis.drift.points
    )
    if relative:
        trend = analysis.drift.trend
        ends = None
        if trend is not None:
            # The trend is a ratio over the run; the line passes through 1 in the middle of it.
            first, last = relative[0].x, relative[-1].x
            ends = ((first, 1 / math.sqrt(trend)), (last, math.sqrt(trend)))
        panels.append(
            CoursePanel(
                "all points, relative to the mean of their own variant", "relative (x)", relative, ends
            )
        )
    used = {point.variant for panel in panels for point in panel.points}
    variants = tuple((v.name, v.durability) for v in cells.variants() if v.name in used)
    return CourseData(title, variants, tuple(panels)) if panels else None


def _clock(trials: Sequence[Trial]) -> tuple[str, Any]:
    start = min(t.started_at for t in trials)
    span = max(t.ended_at for t in trials) - start
    busy = sum(t.ended_at - t.started_at for t in trials)
    if span > _GAP * busy:
        return "trial, in run order (the run was interrupted)", lambda trial: float(trial.number)
    return "minutes since the first trial", lambda trial: (trial.started_at - start) / 60
