"""WAL over max_wal_size, a line for each checkpoint_timeout: where it falls steeply, where the server is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import curve_channels
from walproof.report.figures.style import INK, WIDTH, chart_of, configured, series_style
from walproof.report.figures.wal_parts import byte_scale
from walproof.units import format_bytes, format_duration

_MEGABYTE = 1 << 20
_ADVISED = "#009E73"
_LOG_FROM = 20
"""Curves that fall by more than this are drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One simulated server."""

    max_wal_size_mb: int
    wal_bytes: float
    low: float
    high: float
    distance_most: float
    pg_wal_most: float
    recovery_s: float | None = None
    """Seconds of the longest crash recovery; None if not asked for."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One checkpoint_timeout."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class WalCurveData:
    """The curves; only the first is drawn with its spans."""

    unit: str
    """``/h``, or nothing if the recording has no times."""
    curves: tuple[Curve, ...]
    recorded_bytes: float
    """Bytes that the recorded server wrote."""
    present_mb: int | None
    """The present max_wal_size, where it is known."""
    cliffs: tuple[tuple[int, int], ...]
    """The sizes between which WAL falls steeply."""
    advised_mb: int | None = None
    """The advised max_wal_size, if there is one."""

    def describe(self) -> str:
        """The curves in words."""
        parts = [
            f"{curve.name}: "
            + ", ".join(
                f"{format_bytes(point.max_wal_size_mb * _MEGABYTE)} "
                f"{format_bytes(point.wal_bytes)}{self.unit}"
                for point in curve.points
            )
            for curve in self.curves
        ]
        if self._is_timed:
            parts.append(
                "Time away: "
                + ", ".join(
                    f"{size_label(point.max_wal_size_mb)} {format_duration(point.recovery_s or 0.0)}"
                    for point in self.curves[0].points
                )
            )
        if self.advised_mb is not None:
            parts.append(f"Advised: {size_label(self.advised_mb)}")
        return ". ".join(parts) + f". Recorded: {format_bytes(self.recorded_bytes)}{self.unit}."

    @property
    def _is_timed(self) -> bool:
        return all(point.recovery_s is not None for point in self.curves[0].points)

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart: WAL above, disk and recovery below."""
        import altair as alt

        sizes = sorted({point.max_wal_size_mb for curve in self.curves for point in curve.points})
        labels = [size_label(size) for size in sizes]
        most = max(
            self.recorded_bytes, *(max(point.high, point.wal_bytes) for point in self.curves[0].points),
            *(point.wal_bytes for curve in self.curves for point in curve.points),
        )  # fmt: skip
        scale, unit = byte_scale(most)
        first_colour = series_style(1)[0][0]
        names = [curve.name for curve in self.curves]
        x = alt.X("size:O", sort=labels, title=None, axis=alt.Axis(labelAngle=0))
        y_title = f"WAL ({unit}{self.unit})"
        values = [
            {
                "size": size_label(point.max_wal_size_mb), "wal": point.wal_bytes / scale,
                "timeout": curve.name,
                "about": f"{curve.name}, {size_label(point.max_wal_size_mb)}: "
                f"{format_bytes(point.wal_bytes)}{self.unit}",
            }
            for curve in self.curves
            for point in curve.points
        ]  # fmt: skip
        band = [
            {"size": size_label(point.max_wal_size_mb), "low": point.low / scale, "high": point.high / scale}
            for point in self.curves[0].points
        ]
        least = min(point.low for point in self.curves[0].points)
        if 0 < _LOG_FROM * least < most:
            y_title += ", log scale"
            y_scale = alt.Scale(type="log", domain=[least / scale / 1.1, most / scale * 1.1], nice=False)
        else:
            y_scale = alt.Scale(domain=[0, most / scale], nice=True)
        legend = alt.Legend(title="checkpoint_timeout", orient="top")
        colour, shape = curve_channels("timeout", names, legend)
        y = alt.Y("wal:Q", title=y_title, scale=y_scale)
        layers = [
            chart_of(band)
            .mark_area(opacity=0.18, color=first_colour)
            .encode(x=x, y=alt.Y("low:Q", title=y_title, scale=y_scale), y2="high:Q"),
            chart_of(values).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour),
            chart_of(values)
            .mark_point(filled=True, size=60, opacity=1)
            .encode(
                x=x, y=y, color=colour, shape=shape, description=alt.Description("about:N"),
            ),
            chart_of([{"wal": self.recorded_bytes / scale, "text": "recorded"}])
            .mark_rule(color=INK, strokeDash=[2, 3])
            .encode(y=alt.Y("wal:Q", title=y_title, scale=y_scale)),
        ]  # fmt: skip
        if self.present_mb in sizes and self.present_mb is not None:
            present = [{"size": size_label(self.present_mb)}]
            layers.append(chart_of(present).mark_rule(color=INK, strokeDash=[5, 3]).encode(x=x))
        if self.advised_mb in sizes and self.advised_mb is not None:
            advised = [{"size": size_label(self.advised_mb)}]
            layers.append(chart_of(advised).mark_rule(color=_ADVISED, strokeWidth=2).encode(x=x))
        for small, large in self.cliffs:
            if small in sizes and large in sizes:
                ends = [value for value in values if value["timeout"] == names[0]]
                cliff = [end for end in ends if end["size"] in (size_label(small), size_label(large))]
                layers.append(
                    chart_of(cliff).mark_line(color="#D55E00", strokeWidth=5, opacity=0.45).encode(x=x, y=y)
                )
        above = alt.layer(*layers).properties(width=WIDTH - 120, height=240)
        if self._is_timed:
            below = self._times(labels)
            return configured(alt.vconcat(above, below, spacing=10).resolve_scale(color="independent"))
        needs = [
            (size_label(point.max_wal_size_mb), value, kind)
            for point in self.curves[0].points
            for kind, value in (
                ("pg_wal at most", point.pg_wal_most),
                ("WAL to recover at most", point.distance_most),
            )
        ]
        low_scale, low_unit = byte_scale(max(value for _, value, _ in needs))
        bars = [{"size": size, "bytes": value / low_scale, "kind": kind} for size, value, kind in needs]
        below = (
            chart_of(bars)
            .mark_line(point=True, strokeWidth=1.4)
            .encode(
                x=alt.X("size:O", sort=labels, title="max_wal_size", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("bytes:Q", title=low_unit),
                color=alt.Color(
                    "kind:N",
                    scale=alt.Scale(range=["#0072B2", "#E69F00"]),
                    legend=alt.Legend(title=names[0], orient="top"),
                ),
                # Often one lies upon the other.
                strokeDash=alt.StrokeDash(
                    "kind:N", legend=None, scale=alt.Scale(domain=["pg_wal at most"], range=[[6, 4]])
                ),
            )
            .properties(width=WIDTH - 120, height=130)
        )
        return configured(alt.vconcat(above, below, spacing=10).resolve_scale(color="independent"))

    def _times(self, labels: list[str]) -> Any:
        """How long a crash takes, below the curve."""
        import altair as alt

        x = alt.X(
            "size:O", sort=labels, title="max_wal_size", axis=alt.Axis(labelAngle=0),
            scale=alt.Scale(domain=labels),
        )  # fmt: skip
        layers = []
        for curve, colour in zip(self.curves, series_style(len(self.curves))[0], strict=True):
            times = [
                {"size": size_label(point.max_wal_size_mb), "away": point.recovery_s}
                for point in curve.points
                if point.recovery_s is not None
            ]
            layers.append(
                chart_of(times)
                .mark_line(point={"color": colour}, strokeWidth=1.4, color=colour)
                .encode(x=x, y=alt.Y("away:Q", title="time away (s)"))
            )
        for size, colour, dash in ((self.present_mb, INK, [5, 3]), (self.advised_mb, _ADVISED, [1, 0])):
            if size is not None and size_label(size) in labels:
                layers.append(
                    chart_of([{"size": size_label(size)}])
                    .mark_rule(color=colour, strokeDash=dash)
                    .encode(x=x)
                )
        return alt.layer(*layers).properties(width=WIDTH - 120, height=130)


def size_label(megabytes: int) -> str:
    """``512 MB``, ``4 GB``: the size as it would be set."""
    for factor, unit in ((1 << 20, "TB"), (1 << 10, "GB")):
        if megabytes >= factor and megabytes % factor == 0:
            return f"{megabytes // factor} {unit}"
    return f"{megabytes} MB"
