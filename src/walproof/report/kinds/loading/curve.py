"""Rows per second by batch size and by number of sessions, with the knee of each curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.analysis.loading import Knee, find_knee
from walproof.analysis.sweep import Swept, sweeps_of
from walproof.report.cells import Cells
from walproof.report.figures.channels import curve_channels
from walproof.report.figures.style import INK, WIDTH, chart_of, configured

_HEIGHT = 190


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One variant: every trial's rate, and their median."""

    at: int
    rate: float
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Variants that differ in one number alone."""

    group: str
    swept: Swept
    name: str
    points: tuple[LoadPoint, ...]
    knee: Knee | None


@dataclass(frozen=True, slots=True)
class LoadCurveData:
    """All curves of a run."""

    curves: tuple[LoadCurve, ...]

    def describe(self) -> str:
        """Every curve and its knee in words."""
        parts = []
        for curve in self.curves:
            points = ", ".join(f"{point.at}: {point.rate:,.0f} rows/s" for point in curve.points)
            parts.append(f"{curve.group}, {curve.name} by {curve.swept}: {points}{_say_knee(curve)}")
        return ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart: a panel for each swept number."""
        import altair as alt

        panels = []
        swept_numbers: tuple[Swept, ...] = ("rows a batch", "sessions")
        for swept in swept_numbers:
            curves = [curve for curve in self.curves if curve.swept == swept]
            if not curves:
                continue
            names = [_name(curve, self) for curve in curves]
            values = [
                {
                    "at": p.at,
                    "rate": p.rate,
                    "curve": name,
                    "about": f"{name}, {p.at} {swept}: {p.rate:,.0f} rows/s",
                }
                for curve, name in zip(curves, names, strict=True)
                for p in curve.points
            ]
            trials = [
                {"at": p.at, "rate": rate, "curve": name}
                for curve, name in zip(curves, names, strict=True)
                for p in curve.points
                for rate in p.rates
            ]
            knees = [
                {"at": c.knee.at, "rate": c.knee.rate, "text": "knee" if c.knee.is_past else "still rising"}
                for c in curves
                if c.knee is not None
            ]
            ticks = [float(at) for at in sorted({p.at for curve in curves for p in curve.points})]
            x = alt.X(
                "at:Q",
                title=swept,
                scale=alt.Scale(type="log", nice=False, padding=20),
                axis=alt.Axis(values=ticks, format=",d", grid=False, labelFlush=False),
            )
            y = alt.Y(
                "rate:Q", title="rows/s, load", scale=alt.Scale(domainMin=0), axis=alt.Axis(format=",.0f")
            )
            colour, shape = curve_channels("curve", names, alt.Legend(title=None, orient="right"))
            layers = [
                chart_of(values).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour),
                chart_of(trials).mark_point(size=28, opacity=0.5).encode(x=x, y=y, color=colour),
                chart_of(values)
                .mark_point(filled=True, size=70, opacity=1)
                .encode(x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N")),
                chart_of(knees).mark_text(dy=-14, color=INK, fontSize=11).encode(x=x, y=y, text="text:N"),
            ]
            panels.append(alt.layer(*layers).properties(width=WIDTH - 330, height=_HEIGHT))
        return configured(
            alt.vconcat(*panels, spacing=22).resolve_scale(color="independent", shape="independent")
        )


def load_curves(cells: Cells) -> LoadCurveData | None:
    """The sweeps of batch size and of sessions that the variants make; None without any."""
    curves = []
    for sweep in sweeps_of(cells.plan):
        points = []
        for point in sweep.points:
            rate = cells.median(point.cell, "rows_per_s")
            if rate is not None:
                points.append(LoadPoint(point.at, rate, tuple(cells.values(point.cell, "rows_per_s"))))
        if len(points) >= 2:
            group = cells.group_title(sweep.install, sweep.workload)
            knee = find_knee([(point.at, point.rate) for point in points])
            curves.append(LoadCurve(group, sweep.swept, sweep.feed, tuple(points), knee))
    return LoadCurveData(tuple(curves)) if curves else None


def _say_knee(curve: LoadCurve) -> str:
    if curve.knee is None:
        return ""
    more = "more gains nothing" if curve.knee.is_past else "more was not tried"
    return f"; knee at {curve.knee.at}, {more}"


def _name(curve: LoadCurve, data: LoadCurveData) -> str:
    groups = {curve.group for curve in data.curves}
    return curve.name if len(groups) == 1 else f"{curve.name}, {curve.group}"
