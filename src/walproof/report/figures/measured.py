"""A quantity of each variant: every trial, their median, and what was predicted. On a log axis."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from walproof.report.figures.scale import log_range, log_ticks, tick_label
from walproof.report.figures.style import GRID, INK, WIDTH, chart_of, configured, marked
from walproof.report.numbers import number
from walproof.settings.durability import DurabilityClass

MEASURED, OTHERWISE, MEDIAN, PREDICTED = "measured", "cold cache", "median", "predicted"
_STYLES = (
    # kind, colour, shape, filled, size
    (MEASURED, "#0072B2", "circle", False, 36),
    (OTHERWISE, "#56B4E9", "square", False, 36),
    (MEDIAN, INK, "diamond", True, 80),
    (PREDICTED, "#D55E00", "cross", True, 90),
)


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One variant; values above 0 in the figure's unit."""

    variant: str
    durability: DurabilityClass
    values: tuple[float, ...]
    """One a trial."""
    cold: tuple[float, ...] = ()
    """The same with a cold cache."""
    predicted: float | None = None


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
    panels: tuple[MeasuredPanel, ...]


def measured_data(axis: str, unit: str, panels: list[MeasuredPanel]) -> MeasuredData | None:
    """Without panels and rows that have no value; None when nothing is left."""
    kept = [MeasuredPanel(p.title, tuple(row for row in p.rows if row.values)) for p in panels]
    shown = tuple(panel for panel in kept if panel.rows)
    return MeasuredData(axis, unit, shown) if shown else None


def describe_measured(data: MeasuredData) -> str:
    """Every row in words."""
    parts = []
    for panel in data.panels:
        for row in panel.rows:
            said = f"median {number(median(row.values))} {data.unit} of {len(row.values)}"
            if row.cold:
                said += f", with a cold cache {number(median(row.cold))} {data.unit}"
            if row.predicted is not None:
                said += f", predicted {number(row.predicted)} {data.unit}"
            parts.append(f"{panel.title}, {row.variant} ({row.durability.value}): {said}")
    return f"{data.axis}. " + ". ".join(parts) + "."


def draw_measured(data: MeasuredData) -> dict[str, Any]:
    """Vega-Lite specification of the chart."""
    import altair as alt

    marks = [[_marks(row, data.unit) for row in panel.rows] for panel in data.panels]  # panel -> row -> marks
    everything = [mark for rows in marks for row in rows for mark in row]
    low, high = log_range([mark["x"] for mark in everything])
    ticks = log_ticks(low, high)
    labels = "{" + ",".join(f"'{tick:g}':'{tick_label(tick)}'" for tick in ticks) + "}"
    shown = [style for style in _STYLES if any(mark["kind"] == style[0] for mark in everything)]
    kinds = [style[0] for style in shown]
    legend = alt.Legend(title=None, orient="top")
    charts = []
    for index, (panel, rows) in enumerate(zip(data.panels, marks, strict=True)):
        names = [marked(row.variant, row.durability) for row in panel.rows]
        x = alt.X(
            "x:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(
                values=list(ticks),
                labelExpr=f"({labels})[toString(datum.value)]",
                title=f"{data.axis} ({data.unit})" if index == len(data.panels) - 1 else None,
            ),
        )
        y = alt.Y(
            "variant:N",
            sort=names,
            title=None,
            axis=alt.Axis(labelLimit=370, domain=False, ticks=False, grid=True, gridColor=GRID),
        )
        colour = alt.Color(
            "kind:N", legend=legend, scale=alt.Scale(domain=kinds, range=[style[1] for style in shown])
        )
        shape = alt.Shape(
            "kind:N", legend=legend, scale=alt.Scale(domain=kinds, range=[style[2] for style in shown])
        )
        layers = []
        for kind, _, _, filled, size in shown:
            own = [mark for row in rows for mark in row if mark["kind"] == kind]
            if own:
                layers.append(
                    chart_of(own)
                    .mark_point(filled=filled, size=size, opacity=0.9)
                    .encode(x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N"))
                )
        charts.append(
            alt.layer(*layers).properties(width=WIDTH - 410, height=24 * len(names), title=panel.title)
        )
    return configured(alt.vconcat(*charts, spacing=12))


def _marks(row: MeasuredRow, unit: str) -> list[dict[str, Any]]:
    name = marked(row.variant, row.durability)
    values = [(MEASURED, value) for value in row.values] + [(OTHERWISE, value) for value in row.cold]
    values.append((MEDIAN, median(row.values)))
    if row.cold:
        values.append((MEDIAN, median(row.cold)))
    if row.predicted is not None:
        values.append((PREDICTED, row.predicted))
    return [
        {"variant": name, "kind": kind, "x": value, "about": f"{name}, {kind}: {number(value)} {unit}"}
        for kind, value in values
        if value > 0
    ]
