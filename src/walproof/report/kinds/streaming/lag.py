"""How far a standby lags, and where the WAL is meanwhile: stages stacked over time, a panel per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from walproof.analysis.replication import Stage
from walproof.facts import Cell, Series, Trial
from walproof.report.cells import Cells
from walproof.report.figures.channels import kind_colour
from walproof.report.figures.multiples import draw_multiples
from walproof.report.figures.style import INK, WIDTH, chart_of, marked
from walproof.report.figures.wal_parts import byte_scale
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

LAG_PREFIX = "lag_bytes."
STAGES = {
    Stage.GENERATION: "not flushed by the primary",
    Stage.NETWORK: "not sent",
    Stage.WRITE: "on its way",
    Stage.FLUSH: "not flushed by the standby",
    Stage.REPLAY: "not replayed",
}
"""Stage -> what the legend calls it, in the order in which WAL passes them."""
LAG_SERIES = tuple(f"{LAG_PREFIX}{stage}" for stage in STAGES)
"""Series that the figure is drawn from."""
_COLOURS = ("#CC79A7", "#E69F00", "#56B4E9", "#009E73", "#0072B2")
_PANELS_MOST = 24
_COLUMNS = 2
_POINTS_MOST = 160
"""Points of a panel: nobody can tell more apart."""


@dataclass(frozen=True, slots=True)
class LagPoint:
    """The largest lag within a short time, by stage in the order of STAGES."""

    t_s: float
    stages_bytes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LagPanel:
    """One cell, by one of its trials."""

    group: str
    variant: str
    durability: DurabilityClass
    trial: int
    n: int
    """Number of trials from which it was chosen."""
    load_s: float
    """When the load ended."""
    points: tuple[LagPoint, ...]

    @property
    def most_bytes(self) -> float:
        """The largest lag."""
        return max(sum(point.stages_bytes) for point in self.points)


@dataclass(frozen=True, slots=True)
class LagData:
    """Small multiples; those of a group share their axes."""

    panels: tuple[LagPanel, ...]
    left_out: int
    """Cells for which the figure has no room."""

    def describe(self) -> str:
        """The largest lag of every panel, where most of it was, and when it had gone."""
        parts = []
        names = list(STAGES.values())
        for panel in self.panels:
            worst = max(panel.points, key=lambda point: sum(point.stages_bytes))
            total = sum(worst.stages_bytes)
            where = names[max(range(len(names)), key=lambda i: worst.stages_bytes[i])]
            parts.append(
                f"{panel.group}, {panel.variant}: {format_bytes(total)} at most, {worst.t_s:.1f} s after the "
                f"load began, most of it {where}; the load ended after {panel.load_s:.1f} s, "
                "all was replayed "
                f"after {panel.points[-1].t_s:.1f} s"
            )
        return "WAL that is not replayed yet, by stage, over time. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        return draw_multiples(self.panels, _COLUMNS, _draw_group)


def lag(cells: Cells, series: Sequence[Series]) -> LagData | None:
    """For each cell, the trial whose largest lag is the median; None if no finished trial has the series."""
    by_trial: dict[int, dict[str, Series]] = {}
    for of_trial in series:
        if of_trial.name in LAG_SERIES and of_trial.t_s:
            by_trial.setdefault(of_trial.trial, {})[of_trial.name] = of_trial
    panels = []
    for install, workload in cells.groups():
        for variant in cells.variants():
            candidates = [
                _panel(
                    cells.group_title(install, workload), variant.durability, trial, by_trial[trial.number]
                )
                for trial in cells.finished(Cell(install, workload, variant.name))
                if len(by_trial.get(trial.number, ())) == len(LAG_SERIES)
            ]
            if candidates:
                middle = median_low([panel.most_bytes for panel in candidates])
                chosen = next(panel for panel in candidates if panel.most_bytes == middle)
                panels.append(
                    LagPanel(
                        chosen.group, variant.name, variant.durability, chosen.trial, len(candidates),
                        chosen.load_s, chosen.points,
                    )
                )  # fmt: skip
    if not panels:
        return None
    return LagData(tuple(panels[:_PANELS_MOST]), max(0, len(panels) - _PANELS_MOST))


def _panel(group: str, durability: DurabilityClass, trial: Trial, by_name: Mapping[str, Series]) -> LagPanel:
    columns = [by_name[name].values for name in LAG_SERIES]
    times = by_name[LAG_SERIES[0]].t_s
    rows = list(zip(times, zip(*columns, strict=True), strict=True))
    together = -(-len(rows) // _POINTS_MOST)
    points = []
    for begin in range(0, len(rows), together):
        t_s, stages = max(rows[begin : begin + together], key=lambda row: sum(row[1]))
        points.append(LagPoint(t_s, tuple(stages)))
    return LagPanel(group, trial.variant, durability, trial.number, 1, trial.window_s or 0.0, tuple(points))


def _draw_group(panels: Sequence[LagPanel]) -> list[Any]:
    import altair as alt

    width = WIDTH // _COLUMNS - 75
    scale, unit = byte_scale(max(panel.most_bytes for panel in panels))
    top = max(panel.most_bytes for panel in panels) / scale or 1.0
    last_s = max(max(panel.load_s, panel.points[-1].t_s) for panel in panels)
    charts = []
    for panel in panels:
        x = alt.X(
            "t:Q", title="seconds since the load began",
            scale=alt.Scale(domain=[0, last_s], nice=False), axis=alt.Axis(grid=False, tickCount=6),
        )  # fmt: skip
        y = alt.Y(
            "low:Q", title=f"not replayed ({unit})", scale=alt.Scale(domain=[0, top * 1.05], nice=False),
            axis=alt.Axis(tickCount=4, minExtent=36, maxExtent=36),
        )  # fmt: skip
        area = (
            chart_of(_bands(panel, scale))
            .mark_area(line={"strokeWidth": 0.6}, opacity=0.85)
            .encode(
                x=x,
                y=y,
                y2="high:Q",
                color=kind_colour("stage", dict(zip(STAGES.values(), _COLOURS, strict=True)), columns=5),
            )
        )
        about = f"the load ended after {panel.load_s:.1f} s"
        end = (
            chart_of([{"t": panel.load_s, "about": about}])
            .mark_rule(color=INK, strokeDash=[3, 3])
            .encode(x=x, description=alt.Description("about:N"))
        )
        title = alt.TitleParams(
            marked(panel.variant, panel.durability),
            subtitle=f"trial {panel.trial}, of {panel.n}: {format_bytes(panel.most_bytes)} at most",
            limit=width, fontSize=12,
        )  # fmt: skip
        charts.append(alt.layer(area, end).properties(width=width, height=110, title=title))
    return charts


def _bands(panel: LagPanel, scale: float) -> list[dict[str, Any]]:
    """Lower and upper edge of each stage: replay, the last stage that WAL waits for, is lowest."""
    names = list(STAGES.values())
    values = []
    for point in panel.points:
        low = 0.0
        for index in reversed(range(len(names))):
            high = low + point.stages_bytes[index] / scale
            values.append({"t": point.t_s, "low": low, "high": high, "stage": names[index]})
            low = high
    return values
