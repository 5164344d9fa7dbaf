"""WAL by minute, records and full-page images apart, with the beginnings of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import kind_colour
from walproof.report.figures.style import INK, WIDTH, chart_of, configured
from walproof.report.figures.wal_parts import COLOURS, IMAGES, RECORDS, byte_scale
from walproof.units import format_bytes

_MINUTES_MOST = 360
"""Most bars: more are merged, because no screen shows them apart."""


@dataclass(frozen=True, slots=True)
class WalMinute:
    """What was written in one minute."""

    start_at: float
    """Unix time."""
    record_bytes: int
    image_bytes: int


@dataclass(frozen=True, slots=True)
class WalRateData:
    """Minutes in order; times at which checkpoints began."""

    minutes: tuple[WalMinute, ...]
    checkpoints_at: tuple[float, ...]

    def describe(self) -> str:
        """Range in words."""
        sums = [minute.record_bytes + minute.image_bytes for minute in self.minutes]
        return (
            f"WAL by minute over {len(sums)} minutes: {format_bytes(min(sums))} to {format_bytes(max(sums))} "
            "a minute; "
            f"{len(self.checkpoints_at)} checkpoints."
        )

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        first, last = self.minutes[0].start_at, self.minutes[-1].start_at
        width_min = max(1, -(-int((last - first) / 60 + 1) // _MINUTES_MOST))
        bars: dict[int, list[int]] = {}
        for minute in self.minutes:
            heights = bars.setdefault(int((minute.start_at - first) / 60) // width_min, [0, 0])
            heights[0] += minute.record_bytes
            heights[1] += minute.image_bytes
        scale, unit = byte_scale(max(sum(bar) for bar in bars.values()) / width_min)
        values = []
        for number, (records, images) in bars.items():
            start = number * width_min
            for kind, low, count in ((RECORDS, 0, records), (IMAGES, records, images)):
                if count:
                    values.append(
                        {
                            "x": start,
                            "x2": start + width_min,
                            "y": low / scale / width_min,
                            "y2": (low + count) / scale / width_min,
                            "kind": kind,
                        }
                    )
        span = [0, (last - first) / 60 + 1]
        x = alt.X("x:Q", title="minutes since the first commit", scale=alt.Scale(domain=span, nice=False))
        layer = (
            chart_of(values)
            .mark_rect(stroke="#ffffff", strokeWidth=0.3)
            .encode(
                x=x,
                x2="x2:Q",
                y=alt.Y("y:Q", title=f"WAL ({unit}/min)"),
                y2="y2:Q",
                color=kind_colour("kind", COLOURS),
            )
        )
        times = [{"x": (at - first) / 60} for at in self.checkpoints_at if first <= at <= last + 60]
        marks = chart_of(times).mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=0.8).encode(x="x:Q")
        return configured(alt.layer(layer, marks).properties(width=WIDTH - 100, height=200))
