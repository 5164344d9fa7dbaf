"""What power cuts left: per variant, the shares of its images by state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis.power_cut import CutSummary
from walproof.facts import ImageState
from walproof.report.cells import Cells
from walproof.report.figures.stacked import (
    StackedBar,
    StackedPanel,
    StackedPart,
    StackedStyle,
    draw_stacked,
)
from walproof.report.figures.style import marked
from walproof.settings.durability import DurabilityClass

# From calm to alarming; light and dark alternate, so that grey print tells neighbours apart. None is so dark
# that its bar would not be seen on a dark screen.
_COLOURS = {
    ImageState.CLEAN: "#009E73",
    ImageState.BENIGN: "#A6DBC8",
    ImageState.LOST: "#0072B2",
    ImageState.HOLES: "#F0E442",
    ImageState.CORRUPT: "#D55E00",
    ImageState.NO_START: "#686868",
}
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

    def describe(self) -> str:
        """Every bar in words."""
        parts = []
        for panel in self.panels:
            for bar in panel.bars:
                said = ", ".join(
                    f"{count} {state.value}"
                    for state, count in zip(ImageState, bar.counts, strict=True)
                    if count
                )
                parts.append(f"{panel.title}, {bar.variant}: {said} of {sum(bar.counts)}")
        return ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        panels = [
            StackedPanel(
                panel.title,
                tuple(StackedBar(marked(bar.variant, bar.durability), _parts(bar)) for bar in panel.bars),
            )
            for panel in self.panels
        ]
        style = StackedStyle(
            axis="share of images",
            legend="after the cut",
            legend_columns=6,
            colours={state.value: colour for state, colour in _COLOURS.items()},
            labeled_least=_LABELED_LEAST,
            names_width=330,
        )
        return draw_stacked(panels, style)


def outcomes(cells: Cells, summaries: Sequence[CutSummary]) -> OutcomeData | None:
    """The data of the summaries that have images; None without images."""
    panels = []
    for install, workload in cells.groups():
        bars = tuple(
            OutcomeBar(
                summary.variant,
                cells.plan.variant(summary.variant).durability,
                summary.cuts,
                tuple(summary.counts[state] for state in ImageState),
            )
            for summary in summaries
            if (summary.install, summary.workload) == (install, workload) and summary.images
        )
        if bars:
            panels.append(OutcomePanel(cells.group_title(install, workload), bars))
    return OutcomeData(tuple(panels)) if panels else None


def _parts(bar: OutcomeBar) -> tuple[StackedPart, ...]:
    total = sum(bar.counts)
    return tuple(
        StackedPart(state.value, count / total, str(count), f"{count} of {total} images {state.value}")
        for state, count in zip(ImageState, bar.counts, strict=True)
    )
