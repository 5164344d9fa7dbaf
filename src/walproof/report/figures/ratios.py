"""Ratios with their intervals, each trial's ratio behind them: a forest plot on a log axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis.effect import Effect
from walproof.analysis.factors import FactorModel
from walproof.analysis.interval import Interval
from walproof.analysis.summary import Analysis
from walproof.facts import Plan
from walproof.facts.metrics import metric
from walproof.report.cells import Cells
from walproof.report.figures.names import factors_of, levels_of
from walproof.report.figures.scale import log_range, log_ticks, log_x
from walproof.report.figures.style import CLASS_COLOURS, FAINT, GRID, INK, WIDTH, chart_of, configured
from walproof.report.numbers import ratio
from walproof.settings.durability import DurabilityClass

_REACH = 3.0
"""Most by which an interval stretches the axis: one of two or three rounds may span decades."""
_ROW = 22
_LABELS, _FIGURES = 210, 170
_NEUTRAL = "#0072B2"


@dataclass(frozen=True, slots=True)
class RatioPoint:
    """The ratio of one round."""

    round: int
    trial: int
    ratio: float
    outlier: bool


@dataclass(frozen=True, slots=True)
class RatioRow:
    """One variant (or factor level) in a panel."""

    label: str
    durability: DurabilityClass | None
    ratio: float | None
    interval: Interval | None
    points: tuple[RatioPoint, ...]
    text: str
    """The figures, or why there are none."""


@dataclass(frozen=True, slots=True)
class RatioPanel:
    """The rows of one workload and install, the safer durability class first."""

    title: str
    rows: tuple[RatioRow, ...]
    limit: float | None = None
    """A ratio that the rows are judged by; None without one."""


@dataclass(frozen=True, slots=True)
class RatioData:
    """Panels that share one log axis."""

    axis: str
    panels: tuple[RatioPanel, ...]
    low: float
    """Ends of the axis."""
    high: float
    ticks: tuple[float, ...]
    single: str = "round"
    """What has a ratio of its own."""

    def describe(self) -> str:
        """Every row in words."""
        parts = [
            f"{panel.title}: "
            + "; ".join(f"{row.label} {row.text}{_class_in_words(row)}" for row in panel.rows)
            for panel in self.panels
        ]
        return f"Chart of {self.axis}. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        last = len(self.panels) - 1
        charts = [_draw_panel(self, panel, index == last) for index, panel in enumerate(self.panels)]
        return configured(alt.vconcat(*charts, spacing=14))


def variant_ratios(cells: Cells, analysis: Analysis) -> RatioData | None:
    """Every variant against the baseline; None when there is nothing to compare yet."""
    baseline = cells.plan.variant(cells.plan.baseline)
    factors = factors_of(variant.name for variant in cells.plan.variants)
    panels = []
    for install, workload in cells.groups():
        found = (analysis.effect(install, workload, v.name) for v in cells.variants_by_class())
        rows = tuple(
            _effect_row(cells.plan, e, levels_of(e.variant) if factors else e.variant)
            for e in found
            if e is not None
        )
        if rows:
            title = cells.group_title(install, workload)
            panels.append(RatioPanel(f"{title}: {', '.join(factors)}" if factors else title, rows))
    axis = f"{metric(analysis.metric).heading} relative to {baseline.name} (x)"
    return ratio_data(axis, panels, single_of(cells.plan))


def install_ratios(cells: Cells, analysis: Analysis) -> RatioData | None:
    """Later installs against the first; None when the plan has one install."""
    first = cells.plan.installs[0].label
    panels = []
    for install in cells.plan.installs[1:]:
        for workload in cells.plan.workloads:
            rows = tuple(
                _effect_row(cells.plan, effect, effect.variant)
                for variant in cells.variants_by_class()
                for effect in analysis.install_effects
                if effect.cell == (install.label, workload.name, variant.name)
            )
            panels.append(RatioPanel(f"{workload.name}, PostgreSQL {install.label} against {first}", rows))
    axis = f"{metric(analysis.metric).heading} relative to PostgreSQL {first} (x)"
    return ratio_data(axis, panels, single_of(cells.plan))


def factor_ratios(cells: Cells, models: Sequence[FactorModel]) -> RatioData | None:
    """Terms of the factorial model; None without factors."""
    panels = [
        RatioPanel(
            cells.group_title(model.install, model.workload),
            tuple(
                RatioRow(
                    label=" * ".join(
                        f"{factor}={level}" for factor, level in zip(term.factors, term.levels, strict=True)
                    ),
                    durability=None,
                    ratio=term.ratio,
                    interval=term.interval,
                    points=(),
                    text=ratio(term.ratio, term.interval),
                )
                for term in model.terms
            ),
        )
        for model in models
        if model.terms
    ]
    noun = metric(models[0].metric).heading if models else "throughput"
    return ratio_data(f"effect on {noun} (x)", panels)


def _effect_row(plan: Plan, effect: Effect, label: str) -> RatioRow:
    if effect.ratio is None:
        text = "no finished pair of trials"
    else:
        text = f"{ratio(effect.ratio, effect.interval)}, n = {_count(effect)}"
    return RatioRow(
        label=label,
        durability=plan.variant(effect.variant).durability,
        ratio=effect.ratio,
        interval=effect.interval,
        points=points_of(effect),
        text=text,
    )


def _count(effect: Effect) -> str:
    """What the ratio is the mean of: of slices on one server it is not the starts, whose ratios are drawn."""
    if effect.toggled is None:
        return str(effect.n)
    if effect.toggled.contradicting:
        return f"{effect.toggled.starts} starts"
    return f"{effect.toggled.groups} groups"


def means_over(plan: Plan) -> str:
    """What a ratio is the geometric mean over, in words."""
    if plan.toggling is None:
        return "rounds"
    return "groups of passes" if plan.toggles_all else "rounds, or of design toggled over groups of passes"


def single_of(plan: Plan) -> str:
    """What has a ratio of its own in a chart."""
    return "start" if plan.slices_all else "round"


def points_of(effect: Effect) -> tuple[RatioPoint, ...]:
    """The ratios of all rounds."""
    return tuple(RatioPoint(p.round, p.trial, p.ratio, p.outlier) for p in effect.ratios)


def ratio_data(axis: str, panels: Sequence[RatioPanel], single: str = "round") -> RatioData | None:
    """Panels on one axis that has room for them; None where no row has a ratio. ``single``: what has a ratio
    of its own."""
    rows = [row for panel in panels for row in panel.rows]
    if not any(row.ratio for row in rows):
        return None
    shown = [p.ratio for row in rows for p in row.points] + [row.ratio for row in rows if row.ratio]
    least, most = min(shown, default=1.0), max(shown, default=1.0)
    ends = [
        end
        for row in rows
        if row.interval
        for end in (max(row.interval.low, least / _REACH), min(row.interval.high, most * _REACH))
    ]
    limits = [panel.limit for panel in panels if panel.limit is not None]
    low, high = log_range([*shown, *ends], always=[1.0, *limits])
    return RatioData(axis, tuple(panels), low, high, log_ticks(low, high), single)


def _class_in_words(row: RatioRow) -> str:
    return f", durability class {row.durability.value}" if row.durability else ""


def _draw_panel(data: RatioData, panel: RatioPanel, with_axis_title: bool) -> Any:
    import altair as alt

    heads, rows = _place(panel)
    count = len(heads) + len(rows)
    width = WIDTH - _LABELS - _FIGURES
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[count - 0.5, -0.5], nice=False, zero=False))
    x = log_x(data.low, data.high, data.ticks, data.axis if with_axis_title else None, "x", tickSize=4)
    colour = alt.Color("colour:N", scale=None)

    names = [{"y": at, "label": row.label, "text": row.text} for at, row in rows]
    points = [
        {
            "y": at + 0.11 * ((point.round - 1) % 5 - 2),
            "x": point.ratio,
            "colour": _colour(row),
            "about": f"{row.label}, round {point.round}, trial {point.trial}: {point.ratio:.3g}x"
            + (", an outlier" if point.outlier else ""),
            "outlier": point.outlier,
        }
        for at, row in rows
        for point in row.points
    ]
    bars = [
        {
            "y": at,
            "x": max(row.interval.low, data.low),
            "x2": min(row.interval.high, data.high),
            "colour": _colour(row),
            "about": f"{row.label}: {row.text}",
        }
        for at, row in rows
        if row.interval
    ]
    means = [
        {"y": at, "x": row.ratio, "colour": _colour(row), "about": f"{row.label}: {row.text}"}
        for at, row in rows
        if row.ratio
    ]
    about = alt.Description("about:N")
    layers = [
        chart_of([{"x": 1}]).mark_rule(color=INK, strokeWidth=1).encode(x=x),
        chart_of([{"x": limit} for limit in (panel.limit,) if limit is not None])
        .mark_rule(color=INK, strokeWidth=1.5, strokeDash=[5, 4])
        .encode(x=x),
        *(
            chart_of([{"y": at, "title": title, "colour": colour_of}])
            .mark_text(align="left", fontWeight="bold", fontSize=11, color=INK)
            .encode(x=alt.value(-_LABELS), y=y, text="title:N")
            for at, title, colour_of in heads
        ),
        chart_of([{"y": at - 0.5} for at, _, _ in heads[1:]]).mark_rule(color=GRID).encode(y=y),
        chart_of([p for p in points if not p["outlier"]])
        .mark_point(filled=True, size=28, opacity=0.45, clip=True)
        .encode(x=x, y=y, color=colour, description=about),
        chart_of([p for p in points if p["outlier"]])
        .mark_point(filled=False, size=40, strokeWidth=1.3, clip=True)
        .encode(x=x, y=y, color=colour, description=about),
        chart_of(bars)
        .mark_rule(strokeWidth=3, opacity=0.9)
        .encode(x=x, x2="x2:Q", y=y, color=colour, description=about),
        chart_of(means)
        .mark_point(shape="diamond", filled=True, size=110, opacity=1, stroke="#ffffff", strokeWidth=0.8)
        .encode(x=x, y=y, color=colour, description=about),
        chart_of(names)
        .mark_text(align="right", color=INK, fontSize=12, limit=_LABELS - 14)
        .encode(x=alt.value(-10), y=y, text="label:N"),
        chart_of(names)
        # No limit: figures are never cut, a chart with longer ones is wider.
        .mark_text(align="left", color=FAINT, fontSize=11)
        .encode(x=alt.value(width + 10), y=y, text="text:N"),
    ]
    return alt.layer(*(layer for layer in layers if layer.data.values)).properties(
        width=width, height=_ROW * count, title=panel.title
    )


def _place(panel: RatioPanel) -> tuple[list[tuple[int, str, str]], list[tuple[int, RatioRow]]]:
    """Heads (line, title, colour) and rows (line, row): a head where the durability class changes."""
    heads: list[tuple[int, str, str]] = []
    rows: list[tuple[int, RatioRow]] = []
    line, current = 0, None
    for row in panel.rows:
        if row.durability is not None and row.durability is not current:
            current = row.durability
            heads.append((line, f"durability class: {current.value}", CLASS_COLOURS[current]))
            line += 1
        rows.append((line, row))
        line += 1
    return heads, rows


def _colour(row: RatioRow) -> str:
    return CLASS_COLOURS[row.durability] if row.durability else _NEUTRAL
