"""What power cuts left: per variant, the shares of its images by state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis import CutSummary
from walproof.facts import ImageState
from walproof.report.cells import Cells
from walproof.report.figures.style import INK, WIDTH, chart_of, configured, marked
from walproof.settings.durability import DurabilityClass

# From calm to alarming; light and dark alternate, so that grey print tells neighbours apart.
_COLOURS = {
    ImageState.CLEAN: "#009E73",
    ImageState.BENIGN: "#A6DBC8",
    ImageState.LOST: "#0072B2",
    ImageState.HOLES: "#F0E442",
    ImageState.CORRUPT: "#D55E00",
    ImageState.NO_START: "#222222",
}
_DARK = {ImageState.CLEAN, ImageState.LOST, ImageState.CORRUPT, ImageState.NO_START}
_LABELED_LEAST = 0.05


@dataclass(frozen=True, slots=True)
class OutcomeBar:
    """One variant: how many images of each state."""

    variant: str
    durability: DurabilityClass
    cuts: int
    counts: tuple[int, ...]
    """In the order of ImageState."""


@dataclass(frozen=True, slots=True)
class OutcomePanel:
    """One workload on one install."""

    title: str
    bars: tuple[OutcomeBar, ...]


@dataclass(frozen=True, slots=True)
class OutcomeData:
    """Panels that share colours."""

    panels: tuple[OutcomePanel, ...]


def outcomes(cells: Cells, summaries: Sequence[CutSummary]) -> OutcomeData | None:
    """From the summaries that have images; None without any."""
    panels = []
    for install, workload in cells.groups():
        bars = tuple(
            OutcomeBar(
                one.variant,
                cells.plan.variant(one.variant).durability,
                one.cuts,
                tuple(one.counts[state] for state in ImageState),
            )
            for one in summaries
            if (one.install, one.workload) == (install, workload) and one.images
        )
        if bars:
            panels.append(OutcomePanel(cells.group_title(install, workload), bars))
    return OutcomeData(tuple(panels)) if panels else None


def describe_outcomes(data: OutcomeData) -> str:
    """Every bar in words."""
    parts = []
    for panel in data.panels:
        for bar in panel.bars:
            said = ", ".join(
                f"{count} {state.value}" for state, count in zip(ImageState, bar.counts, strict=True) if count
            )
            parts.append(f"{panel.title}, {bar.variant}: {said} of {sum(bar.counts)}")
    return ". ".join(parts) + "."


def draw_outcomes(data: OutcomeData) -> dict[str, Any]:
    """Vega-Lite specification of the chart."""
    import altair as alt

    states = [state.value for state in ImageState]
    charts = []
    for panel in data.panels:
        names, values = [], []
        for bar in panel.bars:
            name = marked(bar.variant, bar.durability)
            names.append(name)
            total = sum(bar.counts)
            start = 0.0
            for state, count in zip(ImageState, bar.counts, strict=True):
                share = count / total
                if count:
                    values.append(
                        {
                            "variant": name,
                            "state": state.value,
                            "x": start,
                            "x2": start + share,
                            "middle": start + share / 2,
                            "label": str(count) if share >= _LABELED_LEAST else "",
                            "ink": "#ffffff" if state in _DARK else "#000000",
                            "about": f"{name}: {count} of {total} images {state.value}",
                        }
                    )
                start += share
        y = alt.Y(
            "variant:N", sort=names, title=None, axis=alt.Axis(labelLimit=330, domain=False, ticks=False)
        )
        base = chart_of(values)
        bars = base.mark_bar(stroke="#ffffff", strokeWidth=1, height=17).encode(
            x=alt.X(
                "x:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", title="share of images")
            ),
            x2="x2:Q",
            y=y,
            color=alt.Color(
                "state:N",
                sort=states,
                scale=alt.Scale(domain=states, range=[_COLOURS[state] for state in ImageState]),
                legend=alt.Legend(title="after the cut", orient="bottom", columns=6, symbolType="square"),
            ),
            description=alt.Description("about:N"),
        )
        texts = base.mark_text(fontSize=11).encode(
            x="middle:Q", y=y, text="label:N", color=alt.Color("ink:N", scale=None)
        )
        charts.append(
            alt.layer(bars, texts).properties(width=WIDTH - 370, height=24 * len(names), title=panel.title)
        )
    spec = configured(alt.vconcat(*charts, spacing=14))
    spec["config"]["axisY"] = {"labelColor": INK, "grid": False}
    return spec
