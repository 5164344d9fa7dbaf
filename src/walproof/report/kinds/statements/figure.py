"""Bytes of each statement under each variant: every trial a point, on a log scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.facts import Cell
from walproof.report.cells import Cells
from walproof.report.figures.channels import names_y, point_channels
from walproof.report.figures.scale import log_ticks
from walproof.report.figures.style import WIDTH, chart_of, configured, series_style
from walproof.units import format_bytes


@dataclass(frozen=True, slots=True)
class StatementPoint:
    """One statement in one trial."""

    statement: str
    variant: str
    bytes: float


@dataclass(frozen=True, slots=True)
class StatementPanel:
    """One workload on one install."""

    title: str
    statements: tuple[str, ...]
    points: tuple[StatementPoint, ...]


@dataclass(frozen=True, slots=True)
class StatementData:
    """Panels that share an axis and colours."""

    variants: tuple[str, ...]
    panels: tuple[StatementPanel, ...]

    def describe(self) -> str:
        """Range of each statement in words."""
        parts = []
        for panel in self.panels:
            for name in panel.statements:
                sizes = [point.bytes for point in panel.points if point.statement == name]
                if sizes:
                    parts.append(f"{name}: {format_bytes(min(sizes))} to {format_bytes(max(sizes))}")
        return "Bytes of WAL records by statement, over all variants. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        low = min(max(1.0, point.bytes) for panel in self.panels for point in panel.points)
        high = max(point.bytes for panel in self.panels for point in panel.points)
        low, high = low / 1.3, high * 1.3
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        # Vega's own labels of a log axis would overlap where two statements differ by an order of magnitude.
        axis = alt.Axis(values=list(log_ticks(low, high)), format=",.0f")
        domain = list(self.variants)
        legend = alt.Legend(title="variant", orient="bottom")
        colour, shape = point_channels("variant", domain, *series_style(len(domain)), legend)
        charts = []
        for panel in self.panels:
            values = [
                {
                    "statement": point.statement,
                    "variant": point.variant,
                    "bytes": max(1.0, point.bytes),
                    "about": f"{point.statement}, {point.variant}: {point.bytes:,.0f} bytes",
                }
                for point in panel.points
            ]
            points = (
                chart_of(values)
                .mark_point(size=55, filled=True, opacity=0.75)
                .encode(
                    x=alt.X("bytes:Q", scale=scale, axis=axis, title="bytes of WAL records (log scale)"),
                    y=names_y("statement", panel.statements, 240, grid=True),
                    yOffset=alt.YOffset("variant:N", sort=domain),
                    color=colour,
                    shape=shape,
                    description=alt.Description("about:N"),
                )
            )
            charts.append(
                points.properties(width=WIDTH - 290, height=26 * len(panel.statements), title=panel.title)
            )
        return configured(alt.vconcat(*charts, spacing=14))


def statement_data(cells: Cells) -> StatementData | None:
    """From the decoded bytes of finished trials; None without any."""
    panels = []
    for install, workload in cells.groups():
        names = tuple(statement.name for statement in cells.plan.workload(workload).statements)
        points = tuple(
            StatementPoint(name, variant.name, trial.metrics[f"wal_bytes_decoded.{name}"])
            for name in names
            for variant in cells.variants()
            for trial in cells.finished(Cell(install, workload, variant.name))
            if f"wal_bytes_decoded.{name}" in trial.metrics
        )
        if points:
            panels.append(StatementPanel(cells.group_title(install, workload), names, points))
    if not panels:
        return None
    return StatementData(tuple(variant.name for variant in cells.variants()), tuple(panels))
