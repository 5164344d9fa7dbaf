"""A quantity of each variant: every trial, their median, and what was predicted. On a log axis."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from walproof.report.figures.channels import names_y, point_channels
from walproof.report.figures.scale import log_range, log_ticks, log_x
from walproof.report.figures.style import GRID, INK, WIDTH, chart_of, configured, marked
from walproof.report.numbers import number
from walproof.settings.durability import DurabilityClass

_MEDIAN, _PREDICTED = "median", "predicted"
_SERIES = (
    ("#0072B2", "circle"), ("#56B4E9", "square"), ("#009E73", "triangle-up"), ("#CC79A7", "triangle-down"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One variant; values above 0 in the figure's unit."""

    variant: str
    durability: DurabilityClass
    values: tuple[tuple[float, ...], ...]
    """For each series, one value per trial."""
    predicted: float | None = None
    """Prediction for the first series."""


@dataclass(frozen=True, slots=True)
class MeasuredPanel:
    """The variants of one workload and install."""

    title: str
    rows: tuple[MeasuredRow, ...]


@dataclass(frozen=True, slots=True)
class MeasuredData:
    """Panels that share one log axis."""

    axis: str
    """What it is and its unit: "time away (s)"."""
    unit: str
    series: tuple[str, ...]
    """Four at most: "warm cache", "cold cache"."""
    panels: tuple[MeasuredPanel, ...]

    def describe(self) -> str:
        """Every row in words."""
        parts = []
        for panel in self.panels:
            for row in panel.rows:
                said = ", ".join(
                    f"{name} median {number(median(values))} {self.unit} of {len(values)}"
                    for name, values in zip(self.series, row.values, strict=True)
                    if values
                )
                if row.predicted is not None:
                    said += f", predicted {number(row.predicted)} {self.unit}"
                parts.append(f"{panel.title}, {row.variant} ({row.durability.value}): {said}")
        return f"{self.axis}. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        assert len(self.series) <= len(_SERIES), self.series
        # panel -> row -> marks
        marks = [[_marks(row, self) for row in panel.rows] for panel in self.panels]
        everything = [mark for rows in marks for row in rows for mark in row]
        low, high = log_range([mark["x"] for mark in everything])
        # kind, colour, shape, filled, size
        styles = [
            *((name, *style, False, 36) for name, style in zip(self.series, _SERIES, strict=False)),
            (_MEDIAN, INK, "diamond", True, 80),
            (_PREDICTED, "#D55E00", "cross", True, 90),
        ]
        shown = [style for style in styles if any(mark["kind"] == style[0] for mark in everything)]
        colour, shape = point_channels(
            "kind",
            [style[0] for style in shown],
            [style[1] for style in shown],
            [style[2] for style in shown],
            alt.Legend(title=None, orient="top", columnPadding=30),
        )
        charts = []
        for index, (panel, rows) in enumerate(zip(self.panels, marks, strict=True)):
            names = [marked(row.variant, row.durability) for row in panel.rows]
            title = f"{self.axis} ({self.unit})" if index == len(self.panels) - 1 else None
            x = log_x(low, high, log_ticks(low, high), title)
            y = names_y("variant", names, 370, grid=True, gridColor=GRID)
            layers = []
            for kind, _, _, filled, size in shown:
                of_kind = [mark for row in rows for mark in row if mark["kind"] == kind]
                if of_kind:
                    layers.append(
                        chart_of(of_kind)
                        .mark_point(filled=filled, size=size, opacity=0.9)
                        .encode(x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N"))
                    )
            charts.append(
                alt.layer(*layers).properties(width=WIDTH - 410, height=24 * len(names), title=panel.title)
            )
        return configured(alt.vconcat(*charts, spacing=12))


def measured_data(
    axis: str, unit: str, series: tuple[str, ...], panels: list[MeasuredPanel]
) -> MeasuredData | None:
    """The data without panels and rows that have no value; None when nothing is left."""
    kept = [MeasuredPanel(p.title, tuple(row for row in p.rows if any(row.values))) for p in panels]
    shown = tuple(panel for panel in kept if panel.rows)
    return MeasuredData(axis, unit, series, shown) if shown else None


def _marks(row: MeasuredRow, data: MeasuredData) -> list[dict[str, Any]]:
    name = marked(row.variant, row.durability)
    values = [
        (kind, value) for kind, of_kind in zip(data.series, row.values, strict=True) for value in of_kind
    ]
    values += [(_MEDIAN, median(of_kind)) for of_kind in row.values if of_kind]
    if row.predicted is not None:
        values.append((_PREDICTED, row.predicted))
    return [
        {"variant": name, "kind": kind, "x": value, "about": f"{name}, {kind}: {number(value)} {data.unit}"}
        for kind, value in values
        if value > 0
    ]
