"""Ratios of several runs in one plot: a row per variant, a mark per run, on a log axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import names_y, point_channels
from walproof.report.figures.scale import log_range, log_ticks, log_x
from walproof.report.figures.style import FAINT, WIDTH, chart_of, configured, marked, series_style
from walproof.settings.durability import DurabilityClass

_LABELS = 210
_MARK = 14
"""Pixels of height that a mark of a row has."""
_REACH = 3.0
"""Most by which an interval stretches the axis: one of two rounds may span decades."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """What one run says."""

    run: str
    ratio: float
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A variant, with a mark of each run that has it."""

    label: str
    durability: DurabilityClass
    marks: tuple[RunMark, ...]

    @property
    def shown(self) -> str:
        """The label with the symbol of its class."""
        return marked(self.label, self.durability)


@dataclass(frozen=True, slots=True)
class RunPanel:
    """The variants of a workload."""

    title: str
    rows: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class RunRatioData:
    """Panels that share one axis, and colours and shapes of the runs."""

    axis: str
    runs: tuple[str, ...]
    panels: tuple[RunPanel, ...]

    def describe(self) -> str:
        """Every row in words."""
        parts = [
            f"{panel.title}: "
            + "; ".join(
                f"{row.label} ({row.durability.value}): "
                + ", ".join(f"{mark.run} {mark.text}" for mark in row.marks)
                for row in panel.rows
            )
            for panel in self.panels
        ]
        return f"Chart of {self.axis} in {len(self.runs)} runs. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        marks = [mark for panel in self.panels for row in panel.rows for mark in row.marks]
        low, high = log_range((mark.ratio for mark in marks), always=(1.0,))
        ends = [end for mark in marks for end in (mark.low, mark.high) if end is not None]
        low, high = log_range(
            [low, high, *(min(max(end, low / _REACH), high * _REACH) for end in ends)], always=(1.0,)
        )
        ticks = log_ticks(low, high)
        charts = [self._panel(panel, low, high, ticks) for panel in self.panels]
        return configured(alt.vconcat(*charts, spacing=14))

    def _panel(self, panel: RunPanel, low: float, high: float, ticks: tuple[float, ...]) -> Any:
        import altair as alt

        points, spans = [], []
        for row in panel.rows:
            for mark in row.marks:
                shown = {"row": row.shown, "run": mark.run, "about": f"{row.label}, {mark.run}: {mark.text}"}
                points.append(shown | {"x": mark.ratio})
                if mark.low is not None and mark.high is not None:
                    spans.append(shown | {"x": max(low, mark.low), "x2": min(high, mark.high)})
        colours, shapes = series_style(len(self.runs))
        legend = alt.Legend(title=None, orient="top", columns=1, direction="vertical")
        colour, shape = point_channels("run", self.runs, colours, shapes, legend)
        y = names_y("row", [row.shown for row in panel.rows], _LABELS)
        offset = alt.YOffset("run:N", sort=list(self.runs))
        x = log_x(low, high, ticks, self.axis)
        lines = chart_of(spans).mark_rule(strokeWidth=1.5)
        lines = lines.encode(x=x, x2="x2:Q", y=y, yOffset=offset, color=colour)
        dots = chart_of(points).mark_point(filled=True, size=60, opacity=1)
        about = alt.Description("about:N")
        dots = dots.encode(x=x, y=y, yOffset=offset, color=colour, shape=shape, description=about)
        rule = chart_of([{"x": 1.0}]).mark_rule(color=FAINT, strokeDash=[4, 3]).encode(x="x:Q")
        return alt.layer(rule, lines, dots).properties(
            width=WIDTH - _LABELS - 40, height={"step": _MARK, "for": "offset"}, title=panel.title
        )
