"""One ratio over the dates of its runs, with intervals; machines and versions have colours and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import point_channels
from walproof.report.figures.scale import log_range, log_ticks, tick_label
from walproof.report.figures.style import FAINT, INK, WIDTH, chart_of, configured, series_style
from walproof.units import format_utc

_TICKS = 8


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A run."""

    at: float
    """Unix time at which it began."""
    run: str
    where: str
    """Version and machine."""
    ratio: float
    low: float | None
    high: float | None
    text: str
    machine: str = ""


@dataclass(frozen=True, slots=True)
class TrendChange:
    """A change of the level between two runs."""

    after: float
    """Unix time of the last run before it."""
    before: float
    """Unix time of the first run after it."""
    text: str
    """``-8.1 % (-9.0 to -7.2)``."""

    @property
    def at(self) -> float:
        """Where it is drawn: between the two runs."""
        return (self.after + self.before) / 2


@dataclass(frozen=True, slots=True)
class TrendData:
    """Runs in the order of time."""

    axis: str
    points: tuple[TrendPoint, ...]
    changes: tuple[TrendChange, ...] = ()

    def describe(self) -> str:
        """First and last in words."""
        first, last = self.points[0], self.points[-1]
        count = len({point.run for point in self.points})
        return (
            f"{self.axis} over {count} runs: {first.text} on {format_utc(first.at)}, "
            f"{last.text} on {format_utc(last.at)}."
            + "".join(
                f" Changed by {change.text} before {format_utc(change.before)}." for change in self.changes
            )
        )

    @property
    def _time_format(self) -> str:
        """So fine that no two ticks have one label."""
        span_s = max(point.at for point in self.points) - min(point.at for point in self.points)
        if span_s >= _TICKS * 86_400:
            return "%Y-%m-%d"
        return "%m-%d %H:%M" if span_s >= _TICKS * 60 else "%m-%d %H:%M:%S"

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        ends = [end for point in self.points for end in (point.low, point.high) if end is not None]
        ratios = [point.ratio for point in self.points]
        low, high = log_range(ratios, always=(1.0,))
        low, high = log_range([*ratios, *(min(max(end, low / 3), high * 3) for end in ends)], always=(1.0,))
        ticks = log_ticks(low, high)
        values = [
            {
                "x": point.at * 1000,
                "y": point.ratio,
                "low": max(low, point.low) if point.low is not None else point.ratio,
                "high": min(high, point.high) if point.high is not None else point.ratio,
                "where": point.where,
                "about": f"{format_utc(point.at)}, {point.where}: {point.text}, run {point.run}",
            }
            for point in self.points
        ]
        places = list(dict.fromkeys(point.where for point in self.points))
        colours, shapes = series_style(len(places))
        legend = alt.Legend(title=None, orient="top", columns=1, direction="vertical")
        colour, shape = point_channels("where", places, colours, shapes, legend)
        labels = "{" + ",".join(f"'{tick:g}':'{tick_label(tick, 'x')}'" for tick in ticks) + "}"
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        axis = alt.Axis(values=list(ticks), labelExpr=f"({labels})[toString(datum.value)]", title=self.axis)
        y, ends_y = (alt.Y(f"{field}:Q", scale=scale, axis=axis) for field in ("y", "low"))
        # By UTC, as all other times of a report.
        x = alt.X(
            "x:T",
            title="UTC",
            scale=alt.Scale(type="utc", padding=14),
            axis=alt.Axis(format=self._time_format, tickCount=_TICKS, labelOverlap=True),
        )
        base = chart_of(values)
        spans = base.mark_rule(strokeWidth=1.5).encode(x=x, y=ends_y, y2="high:Q", color=colour)
        points = base.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N")
        )
        rule = chart_of([{"y": 1.0}]).mark_rule(color=FAINT, strokeDash=[4, 3]).encode(y="y:Q")
        layers = [rule, spans, points]
        if self.changes:
            marks = chart_of([{"x": each.at * 1000, "text": each.text} for each in self.changes])
            layers.append(marks.mark_rule(color=INK, strokeWidth=1.5, strokeDash=[2, 3]).encode(x=x))
            # Beside the rule, on the side with room.
            middle = (self.points[0].at + self.points[-1].at) / 2
            for side in (True, False):
                on_side = [each for each in self.changes if (each.at < middle) == side]
                if on_side:
                    said = chart_of([{"x": each.at * 1000, "text": each.text} for each in on_side])
                    layers.append(
                        said.mark_text(
                            align="left" if side else "right", dx=5 if side else -5, fontWeight="bold",
                            fontSize=11, color=INK,
                        ).encode(x=x, y=alt.value(8), text="text:N")
                    )  # fmt: skip
        return configured(alt.layer(*layers).properties(width=WIDTH - 120, height=160))
