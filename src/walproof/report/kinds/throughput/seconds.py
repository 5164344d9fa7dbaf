"""Throughput second by second within the windows: dips that an average hides, as during a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from walproof.facts import Cell, Series
from walproof.report.cells import Cells
from walproof.report.figures.multiples import draw_multiples
from walproof.report.figures.style import CLASS_COLOURS, WIDTH, chart_of
from walproof.settings.durability import DurabilityClass

_PANELS_MOST = 32
"""Most panels: a factorial of hundreds of cells would be wallpaper, not a figure."""
_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Second:
    """One second of the window, over the trials that have it."""

    t_s: float
    tps_min: float
    tps_median: float
    tps_max: float


@dataclass(frozen=True, slots=True)
class SecondsPanel:
    """One cell."""

    group: str
    variant: str
    durability: DurabilityClass
    n: int
    seconds: tuple[Second, ...]


@dataclass(frozen=True, slots=True)
class SecondsData:
    """Small multiples, each on its own axis from 0."""

    panels: tuple[SecondsPanel, ...]
    left_out: int
    """Cells for which the figure has no room."""

    def describe(self) -> str:
        """Lowest and highest median second of every panel."""
        parts = []
        for panel in self.panels:
            middles = [second.tps_median for second in panel.seconds]
            parts.append(
                f"{panel.group}, {panel.variant} ({panel.durability.value}): "
                f"{min(middles):.0f} to {max(middles):.0f} transactions/s"
            )
        return "Throughput by second of the window, median over trials. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        return draw_multiples(self.panels, _COLUMNS, lambda panels: [_draw_panel(panel) for panel in panels])


def seconds(cells: Cells, series: Sequence[Series]) -> SecondsData | None:
    """Median and range of tps by second; None when no finished trial has the series."""
    by_trial: Mapping[int, Series] = {
        of_trial.trial: of_trial for of_trial in series if of_trial.name == "tps"
    }
    panels = []
    for install, workload in cells.groups():
        for variant in cells.variants_by_class():
            of_cell = [
                by_trial[t.number]
                for t in cells.finished(Cell(install, workload, variant.name))
                if t.number in by_trial
            ]
            at: dict[int, list[float]] = {}
            for of_trial in of_cell:
                for t_s, value in zip(of_trial.t_s, of_trial.values, strict=True):
                    at.setdefault(round(t_s), []).append(value)
            if at:
                lines = tuple(Second(t, min(v), median(v), max(v)) for t, v in sorted(at.items()))
                panels.append(
                    SecondsPanel(
                        cells.group_title(install, workload),
                        variant.name,
                        variant.durability,
                        len(of_cell),
                        lines,
                    )
                )
    if not panels:
        return None
    return SecondsData(tuple(panels[:_PANELS_MOST]), max(0, len(panels) - _PANELS_MOST))


def _draw_panel(panel: SecondsPanel) -> Any:
    import altair as alt

    width = WIDTH // _COLUMNS - 68
    values = [
        {"t": s.t_s, "low": s.tps_min, "middle": s.tps_median, "high": s.tps_max} for s in panel.seconds
    ]
    colour = CLASS_COLOURS[panel.durability]
    base = chart_of(values)
    top = max(s.tps_max for s in panel.seconds) or 1.0
    x = alt.X("t:Q", title="second of the window", axis=alt.Axis(grid=False, tickCount=4, tickMinStep=1))
    y_scale = alt.Scale(domain=[0, top * 1.05], nice=False)
    y_axis = alt.Axis(tickCount=3, format=",.0f", minExtent=36, maxExtent=36)
    band = base.mark_area(opacity=0.3, color=colour).encode(
        x=x, y=alt.Y("low:Q", scale=y_scale, axis=y_axis, title="transactions/s"), y2="high:Q"
    )
    line = base.mark_line(color=colour, strokeWidth=1.6).encode(x=x, y=alt.Y("middle:Q", scale=y_scale))
    title = alt.TitleParams(
        panel.variant, subtitle=f"{panel.durability.value}, n = {panel.n}", limit=width, fontSize=12
    )
    return alt.layer(band, line).properties(width=width, height=80, title=title)
