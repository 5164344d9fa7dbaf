"""How intervals narrow: the half-width of each ratio after each round, on a log axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import curve_channels
from walproof.report.figures.scale import log_range, log_ticks, tick_label
from walproof.report.figures.style import FAINT, WIDTH, chart_of, configured
from walproof.report.numbers import percent


@dataclass(frozen=True, slots=True)
class NarrowingPoint:
    """A ratio after a round."""

    round: int
    name: str
    half_width: float
    """Half-width as a share of the ratio."""


@dataclass(frozen=True, slots=True)
class NarrowingData:
    """Points of some ratios; ``target``: the half-width that the run aims at, if any."""

    points: tuple[NarrowingPoint, ...]
    target: float | None

    def describe(self) -> str:
        """The newest half-widths in words."""
        last = {point.name: point for point in self.points}
        said = "; ".join(f"{name} ± {percent(point.half_width)}" for name, point in last.items())
        return f"Half-width of intervals by round. After round {self.points[-1].round}: {said}."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        shares = [100 * point.half_width for point in self.points]
        low, high = log_range(shares, always=[] if self.target is None else [100 * self.target])
        ticks = log_ticks(low, high)
        labels = "{" + ",".join(f"'{tick:g}':'{tick_label(tick, ' %')}'" for tick in ticks) + "}"
        names = list(dict.fromkeys(point.name for point in self.points))
        colour, shape = curve_channels("name", names, alt.Legend(title=None, orient="right"))
        rounds = sorted({point.round for point in self.points})
        x = alt.X(
            "x:Q",
            axis=alt.Axis(values=rounds, format="d", labelOverlap=True, grid=False, title="rounds"),
            scale=alt.Scale(zero=False, nice=False, padding=8),
        )
        said = f"({labels})[toString(datum.value)]"
        y = alt.Y(
            "y:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(values=list(ticks), labelExpr=said, title="half-width of the interval"),
        )
        values = [
            {
                "x": point.round,
                "y": 100 * point.half_width,
                "name": point.name,
                "about": f"{point.name}, round {point.round}: ± {percent(point.half_width)}",
            }
            for point in self.points
        ]
        base = chart_of(values)
        dots = base.mark_point(filled=True, size=40, opacity=1)
        layers = [
            base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour),
            dots.encode(x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N")),
        ]
        if self.target is not None:
            rule = chart_of([{"y": 100 * self.target}]).mark_rule(color=FAINT, strokeDash=[4, 3])
            layers.append(rule.encode(y="y:Q"))
        return configured(alt.layer(*layers).properties(width=WIDTH - 380, height=200))
