"""Bytes by writing process: one stacked bar per trial, so that split and total are seen together."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from walproof.facts import Cell
from walproof.report.cells import Cells
from walproof.report.figures.channels import names_y
from walproof.report.figures.style import INK, WIDTH, chart_of, configured, marked
from walproof.report.figures.wal_parts import byte_scale
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

WRITERS = ("client_backend", "walwriter", "checkpointer", "others")
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#BBBBBB")
_PREFIX = "write_bytes."


@dataclass(frozen=True, slots=True)
class WriterBar:
    """One variant: the bytes of every trial, in the order of ``WRITERS``."""

    variant: str
    durability: DurabilityClass
    trials: tuple[tuple[float, ...], ...]

    @property
    def medians(self) -> tuple[float, ...]:
        """Median of each writer over trials."""
        return tuple(median(column) for column in zip(*self.trials, strict=True))


@dataclass(frozen=True, slots=True)
class WriterPanel:
    """One workload on one install."""

    title: str
    workload: str
    bars: tuple[WriterBar, ...]


@dataclass(frozen=True, slots=True)
class WriterData:
    """Panels, each with its own axis."""

    panels: tuple[WriterPanel, ...]

    @classmethod
    def of(cls, cells: Cells) -> WriterData | None:
        """The data of the trials that counted bytes; None if none did."""
        panels = []
        for install, workload in cells.groups():
            bars = []
            for variant in cells.variants():
                trials = []
                for trial in cells.finished(Cell(install, workload, variant.name)):
                    kinds = {
                        name.removeprefix(_PREFIX): value
                        for name, value in trial.metrics.items()
                        if name.startswith(_PREFIX)
                    }
                    if kinds:
                        named = tuple(kinds.get(kind, 0.0) for kind in WRITERS[:-1])
                        trials.append((*named, sum(kinds.values()) - sum(named)))
                if trials:
                    bars.append(WriterBar(variant.name, variant.durability, tuple(trials)))
            if bars:
                panels.append(WriterPanel(cells.group_title(install, workload), workload, tuple(bars)))
        return cls(tuple(panels)) if panels else None

    def describe(self) -> str:
        """Totals and parts in words."""
        parts = []
        for panel in self.panels:
            for bar in panel.bars:
                middle = bar.medians
                split = ", ".join(
                    f"{kind.replace('_', ' ')} {format_bytes(value)}"
                    for kind, value in zip(WRITERS, middle, strict=True)
                )
                parts.append(f"{panel.title}, {bar.variant}: {format_bytes(sum(middle))} in all ({split})")
        return ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        charts = []
        kinds = [kind.replace("_", " ") for kind in WRITERS]
        for panel in self.panels:
            most = max(sum(trial) for bar in panel.bars for trial in bar.trials)
            scale, unit = byte_scale(most)
            names, values = [], []
            for bar in panel.bars:
                name = marked(bar.variant, bar.durability)
                names.append(name)
                for number, trial in enumerate(bar.trials, start=1):
                    start = 0.0
                    for kind, count in zip(kinds, trial, strict=True):
                        values.append(
                            {
                                "variant": name,
                                "trial": number,
                                "kind": kind,
                                "x": start / scale,
                                "x2": (start + count) / scale,
                                "about": f"{name}, trial {number}: {kind} {format_bytes(count)}",
                            }
                        )
                        start += count
            bars = (
                chart_of(values)
                .mark_bar(stroke="#ffffff", strokeWidth=0.5)
                .encode(
                    x=alt.X("x:Q", title=f"bytes written in the window ({unit})"),
                    x2="x2:Q",
                    y=names_y("variant", names, 200),
                    yOffset=alt.YOffset("trial:O"),
                    color=alt.Color(
                        "kind:N",
                        sort=kinds,
                        scale=alt.Scale(domain=kinds, range=list(_COLOURS)),
                        legend=alt.Legend(
                            title="written by", orient="bottom", columns=4, symbolType="square"
                        ),
                    ),
                    description=alt.Description("about:N"),
                )
            )
            trials = max(len(bar.trials) for bar in panel.bars)
            height = len(names) * max(16, 8 * trials)
            charts.append(bars.properties(width=WIDTH - 240, height=height, title=panel.title))
        spec = configured(alt.vconcat(*charts, spacing=14))
        spec["config"]["axisY"] = {"labelColor": INK, "grid": False}
        return spec
