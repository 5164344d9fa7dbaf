"""What active backends were doing when they were sampled: stacked shares, one bar per variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.facts import Cell
from walproof.report.cells import Cells
from walproof.report.figures.stacked import (
    StackedBar,
    StackedPanel,
    StackedPart,
    StackedStyle,
    draw_stacked,
)
from walproof.report.figures.style import REST, marked
from walproof.report.numbers import percent
from walproof.settings.durability import DurabilityClass

CPU, OTHER = "CPU", "other waits"
_EVENTS_MOST = 7
"""Most named waits; with CPU and the rest that makes nine colours."""
_COLOURS = ("#D55E00", "#0072B2", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#8C6D31")
_CPU_COLOUR = "#009E73"
_LABELED_LEAST = 0.07


@dataclass(frozen=True, slots=True)
class WaitBar:
    """One variant. Shares are in the order of the data's events and sum to 1."""

    variant: str
    durability: DurabilityClass
    n: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WaitPanel:
    """The variants of one workload and install that were sampled."""

    title: str
    bars: tuple[WaitBar, ...]


@dataclass(frozen=True, slots=True)
class WaitData:
    """Panels that share colours."""

    events: tuple[str, ...]
    """The largest waits of the run, then CPU, then the rest."""
    panels: tuple[WaitPanel, ...]

    def describe(self) -> str:
        """The largest shares of every bar in words."""
        parts = []
        for panel in self.panels:
            for bar in panel.bars:
                top = sorted(zip(bar.shares, self.events, strict=True), reverse=True)[:2]
                said = ", ".join(f"{event} {percent(share)}" for share, event in top)
                parts.append(f"{panel.title}, {bar.variant} ({bar.durability.value}): {said}")
        return "Stacked shares of active-backend samples. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        colours = [*_COLOURS[: len(self.events) - 2], _CPU_COLOUR, REST]
        panels = [
            StackedPanel(
                panel.title,
                tuple(
                    StackedBar(
                        marked(bar.variant, bar.durability),
                        tuple(
                            StackedPart(event, share, f"{100 * share:.0f}", f"{event} {percent(share)}")
                            for event, share in zip(self.events, bar.shares, strict=True)
                        ),
                    )
                    for bar in panel.bars
                ),
            )
            for panel in self.panels
        ]
        style = StackedStyle(
            axis="share of active-backend samples",
            legend="waiting for",
            legend_columns=4,
            colours=dict(zip(self.events, colours, strict=True)),
            labeled_least=_LABELED_LEAST,
            names_width=200,
        )
        return draw_stacked(panels, style)


def wait_shares(cells: Cells) -> WaitData | None:
    """Shares of active-backend samples; None when no trial was sampled."""
    seen = {cell: cells.shares(cell, "wait_share.") for cell in cells.plan.cells}
    totals: dict[str, float] = {}
    for shares in seen.values():
        for event, share in shares.items():
            totals[event] = totals.get(event, 0.0) + share
    if not totals:
        return None
    totals.pop(CPU, None)
    named = sorted((e for e in totals if totals[e] > 0), key=lambda e: (-totals[e], e))[:_EVENTS_MOST]
    events = (*named, CPU, OTHER)
    panels = []
    for install, workload in cells.groups():
        bars = []
        for variant in cells.variants_by_class():
            cell = Cell(install, workload, variant.name)
            total = sum(seen[cell].values())
            if total > 0:
                # The mean of trials that each sum to 1 sums to 1 but for rounding.
                parts = [seen[cell].get(event, 0.0) / total for event in events[:-1]]
                rest = max(0.0, 1.0 - sum(parts))
                n = sum(any(k.startswith("wait_share.") for k in t.metrics) for t in cells.finished(cell))
                bars.append(WaitBar(variant.name, variant.durability, n, (*parts, rest)))
        if bars:
            panels.append(WaitPanel(cells.group_title(install, workload), tuple(bars)))
    return WaitData(events, tuple(panels)) if panels else None
