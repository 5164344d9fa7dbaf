"""How much a power cut loses if it loses the last commits: a point per cut, beside the manual's bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis.power_cut import CutSummary
from walproof.report.cells import Cells
from walproof.report.figures.channels import names_y
from walproof.report.figures.style import FAINT, INK, WIDTH, chart_of, configured, marked
from walproof.report.numbers import number
from walproof.sentences import say_count
from walproof.settings.durability import DurabilityClass

_LEAST_MS = 0.1


@dataclass(frozen=True, slots=True)
class LossRow:
    """One variant. Windows in ms, one per cut."""

    variant: str
    durability: DurabilityClass
    windows_ms: tuple[float, ...]
    median_ms: float
    bound_ms: float | None


@dataclass(frozen=True, slots=True)
class LossPanel:
    """One workload on one install."""

    title: str
    rows: tuple[LossRow, ...]


@dataclass(frozen=True, slots=True)
class LossData:
    """Panels that share an axis."""

    panels: tuple[LossPanel, ...]

    def describe(self) -> str:
        """Every row in words."""
        parts = []
        for panel in self.panels:
            for row in panel.rows:
                bound = "" if row.bound_ms is None else f", bound {number(row.bound_ms)} ms"
                parts.append(
                    f"{panel.title}, {row.variant}: median {number(row.median_ms)} ms, "
                    f"most {number(max(row.windows_ms))} ms in {say_count(len(row.windows_ms), 'cut')}{bound}"
                )
        return ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        windows = [
            w for panel in self.panels for row in panel.rows for w in (*row.windows_ms, row.bound_ms or 0)
        ]
        most = 2 * max(windows)
        charts = []
        for panel in self.panels:
            points, middles, bounds, names = [], [], [], []
            for row in panel.rows:
                name = marked(row.variant, row.durability)
                names.append(name)
                points += [
                    {"variant": name, "ms": max(_LEAST_MS, w), "about": f"{name}: {number(w)} ms"}
                    for w in row.windows_ms
                ]
                middles.append({"variant": name, "ms": max(_LEAST_MS, row.median_ms)})
                if row.bound_ms is not None:
                    about = f"{name}: bound {number(row.bound_ms)} ms"
                    bounds.append({"variant": name, "ms": row.bound_ms, "about": about})
            x = alt.X(
                "ms:Q",
                scale=alt.Scale(type="log", domain=[_LEAST_MS, most]),
                axis=alt.Axis(title="oldest lost commit, ms before the cut (log scale)", tickCount=6),
            )
            y = names_y("variant", names, 330)
            layers = [
                chart_of(points)
                .mark_point(color="#0072B2", opacity=0.6, size=45)
                .encode(x=x, y=y, description=alt.Description("about:N")),
                chart_of(middles)
                .mark_point(shape="diamond", filled=True, color=INK, size=80)
                .encode(x=x, y=y),
            ]
            if bounds:
                layers.append(
                    chart_of(bounds)
                    .mark_tick(color="#D55E00", thickness=3, size=20)
                    .encode(x=x, y=y, description=alt.Description("about:N"))
                )
            charts.append(
                alt.layer(*layers).properties(width=WIDTH - 370, height=28 * len(names), title=panel.title)
            )
        spec = configured(alt.vconcat(*charts, spacing=14))
        spec["config"]["axisY"] = {"labelColor": INK, "grid": True, "gridColor": FAINT, "gridOpacity": 0.2}
        return spec


def losses(cells: Cells, summaries: Sequence[CutSummary]) -> LossData | None:
    """The data of the variants that lost commits; None if none did."""
    panels = []
    for install, workload in cells.groups():
        rows = tuple(
            LossRow(
                summary.variant,
                cells.plan.variant(summary.variant).durability,
                summary.windows_ms,
                summary.window_ms_median or 0.0,
                summary.bound_ms,
            )
            for summary in summaries
            if (summary.install, summary.workload) == (install, workload) and summary.windows_ms
        )
        if rows:
            panels.append(LossPanel(cells.group_title(install, workload), rows))
    return LossData(tuple(panels)) if panels else None
