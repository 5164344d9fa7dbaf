"""Latency percentiles on a log axis: every trial, and the median of them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from walproof.facts import Cell
from walproof.report.cells import Cells
from walproof.report.figures.channels import names_y, point_channels
from walproof.report.figures.scale import log_range, log_ticks, log_x
from walproof.report.figures.style import GRID, INK, WIDTH, chart_of, configured, marked
from walproof.report.numbers import number
from walproof.settings.durability import DurabilityClass

PERCENTILES = ("p50", "p95", "p99")
_COLOURS = ("#56B4E9", "#0072B2", "#D55E00")
_SHAPES = ("circle", "square", "triangle-up")


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One variant: for each percentile, its value in ms in every trial that has it."""

    variant: str
    durability: DurabilityClass
    values_ms: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class LatencyPanel:
    """The variants of one workload and install."""

    title: str
    rows: tuple[LatencyRow, ...]


@dataclass(frozen=True, slots=True)
class LatencyData:
    """Panels that share one log axis."""

    panels: tuple[LatencyPanel, ...]
    low_ms: float
    high_ms: float

    def describe(self) -> str:
        """The medians in words."""
        parts = []
        for panel in self.panels:
            for row in panel.rows:
                said = ", ".join(
                    f"{name} {number(median(values))} ms"
                    for name, values in zip(PERCENTILES, row.values_ms, strict=True)
                    if values
                )
                parts.append(f"{panel.title}, {row.variant} ({row.durability.value}): {said}")
        return "Latency percentiles, median over trials. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        legend = alt.Legend(title="percentile", orient="right")
        colour, shape = point_channels("percentile", PERCENTILES, _COLOURS, _SHAPES, legend)
        last = len(self.panels) - 1
        charts = []
        for index, panel in enumerate(self.panels):
            names = [marked(row.variant, row.durability) for row in panel.rows]
            points, medians = [], []
            for row, label in zip(panel.rows, names, strict=True):
                for name, values in zip(PERCENTILES, row.values_ms, strict=True):
                    points += [
                        {
                            "variant": label,
                            "percentile": name,
                            "x": v,
                            "about": f"{label}, {name}: {number(v)} ms",
                        }
                        for v in values
                    ]
                    if values:
                        middle = median(values)
                        medians.append(
                            {
                                "variant": label,
                                "percentile": name,
                                "x": middle,
                                "about": f"{label}, {name}: median {number(middle)} ms "
                                f"of {len(values)} trials",
                            }
                        )
            title = "latency of a transaction (ms)" if index == last else None
            x = log_x(self.low_ms, self.high_ms, log_ticks(self.low_ms, self.high_ms), title)
            y = names_y("variant", names, 200, grid=True, gridColor=GRID)
            about = alt.Description("about:N")
            trials = (
                chart_of(points)
                .mark_point(filled=False, size=26, opacity=0.55)
                .encode(x=x, y=y, color=colour, shape=shape, description=about)
            )
            middles = (
                chart_of(medians)
                .mark_point(filled=True, size=90, opacity=1, stroke=INK, strokeWidth=0.6)
                .encode(x=x, y=y, color=colour, shape=shape, description=about)
            )
            charts.append(
                alt.layer(trials, middles).properties(
                    width=WIDTH - 290, height=24 * len(names), title=panel.title
                )
            )
        return configured(alt.vconcat(*charts, spacing=12))


def latencies(cells: Cells) -> LatencyData | None:
    """Percentiles of transaction latency; None when no trial has any."""
    panels = []
    for install, workload in cells.groups():
        rows = []
        for variant in cells.variants_by_class():
            cell = Cell(install, workload, variant.name)
            values = tuple(
                tuple(v for v in cells.values(cell, f"latency_ms_{name}") if v > 0) for name in PERCENTILES
            )
            if any(values):
                rows.append(LatencyRow(variant.name, variant.durability, values))
        if rows:
            panels.append(LatencyPanel(cells.group_title(install, workload), tuple(rows)))
    if not panels:
        return None
    everything = [v for panel in panels for row in panel.rows for values in row.values_ms for v in values]
    low, high = log_range(everything)
    return LatencyData(tuple(panels), low, high)
