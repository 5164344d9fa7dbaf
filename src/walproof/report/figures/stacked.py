"""Stacked shares, one bar per variant: how the charts of waits and of power cuts are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import names_y
from walproof.report.figures.style import INK, WIDTH, chart_of, configured, label_on

_BAR, _ROW = 16, 22
_MARGIN = 40


@dataclass(frozen=True, slots=True)
class StackedPart:
    """One colour of a bar."""

    kind: str
    share: float
    label: str
    """The label inside it, if there is room."""
    about: str
    """Its description in words."""


@dataclass(frozen=True, slots=True)
class StackedBar:
    """One variant, under the name that the axis shows. Shares sum to 1."""

    name: str
    parts: tuple[StackedPart, ...]


@dataclass(frozen=True, slots=True)
class StackedPanel:
    """Bars under a title."""

    title: str
    bars: tuple[StackedBar, ...]


@dataclass(frozen=True, slots=True)
class StackedStyle:
    """What differs between such charts."""

    axis: str
    legend: str
    legend_columns: int
    colours: Mapping[str, str]
    """Kind -> colour, in the order of the bars. None of them is a name of the page's style sheet."""
    labeled_least: float
    """Smallest share with room for a label."""
    names_width: int
    """Pixels that the names of the bars may take."""


def draw_stacked(panels: Sequence[StackedPanel], style: StackedStyle) -> dict[str, Any]:
    """Vega-Lite specification of the chart."""
    import altair as alt

    kinds = list(style.colours)
    charts = []
    for panel in panels:
        names = [bar.name for bar in panel.bars]
        base = chart_of([value for bar in panel.bars for value in _values(bar, style)])
        y = names_y("variant", names, style.names_width)
        axis = alt.Axis(format="%", title=style.axis if panel is panels[-1] else None, tickCount=6)
        bars = base.mark_bar(stroke="#ffffff", strokeWidth=1, height=_BAR).encode(
            x=alt.X("x:Q", scale=alt.Scale(domain=[0, 1]), axis=axis),
            x2="x2:Q",
            y=y,
            color=alt.Color(
                "kind:N",
                sort=kinds,
                scale=alt.Scale(domain=kinds, range=list(style.colours.values())),
                legend=alt.Legend(
                    title=style.legend, orient="bottom", columns=style.legend_columns, symbolType="square"
                ),
            ),
            description=alt.Description("about:N"),
        )
        texts = base.mark_text(fontSize=10).encode(
            x="middle:Q", y=y, text="label:N", color=alt.Color("ink:N", scale=None)
        )
        charts.append(
            alt.layer(bars, texts).properties(
                width=WIDTH - _MARGIN - style.names_width, height=_ROW * len(names), title=panel.title
            )
        )
    spec = configured(alt.vconcat(*charts, spacing=12))
    spec["config"]["axisY"] = {"labelColor": INK, "grid": False}
    return spec


def _values(bar: StackedBar, style: StackedStyle) -> list[dict[str, Any]]:
    values = []
    start = 0.0
    for part in bar.parts:
        end = start + part.share
        if part.share > 0:
            values.append(
                {
                    "variant": bar.name,
                    "kind": part.kind,
                    "x": start,
                    "x2": end,
                    "middle": start + part.share / 2,
                    "label": part.label if part.share >= style.labeled_least else "",
                    "ink": label_on(style.colours[part.kind]),
                    "about": f"{bar.name}: {part.about}",
                }
            )
        start = end
    return values
