"""WAL by minute, records and full-page images apart, with the beginnings of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import kind_colour
from walproof.report.figures.style import INK, WIDTH, chart_of, configured
from walproof.report.figures.wal_parts import COLOURS, IMAGES, RECORDS, byte_scale
from walproof.sentences import say_count
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

    @property
    def span_min(self) -> int:
        """Minutes from the beginning of the first to the end of the last."""
        return round((self.minutes[-1].start_at - self.minutes[0].start_at) / 60) + 1

    @property
    def bar_min(self) -> int:
        """Minutes of a bar; the last one may have fewer."""
        return -(-self.span_min // _MINUTES_MOST)

    def describe(self) -> str:
        """Range in words."""
        sums = [minute.record_bytes + minute.image_bytes for minute in self.minutes]
        return (
            f"WAL by minute over {say_count(len(sums), 'minute')}: {format_bytes(min(sums))} to "
            f"{format_bytes(max(sums))} a minute; {say_count(len(self.checkpoints_at), 'checkpoint')}."
        )

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        first, last = self.minutes[0].start_at, self.minutes[-1].start_at
        bars: dict[int, list[int]] = {}
        for minute in self.minutes:
            start = round((minute.start_at - first) / 60) // self.bar_min * self.bar_min
            heights = bars.setdefault(start, [0, 0])
            heights[0] += minute.record_bytes
            heights[1] += minute.image_bytes
        ends = {start: min(start + self.bar_min, self.span_min) for start in bars}
        scale, unit = byte_scale(max(sum(bar) / (ends[start] - start) for start, bar in bars.items()))
        values = []
        for start, (records, images) in bars.items():
            divisor = scale * (ends[start] - start)
            for kind, low, count in ((RECORDS, 0, records), (IMAGES, records, images)):
                if count:
                    values.append(
                        {
                            "x": start,
                            "x2": ends[start],
                            "y": low / divisor,
                            "y2": (low + count) / divisor,
                            "kind": kind,
                        }
                    )
        span = [0, self.span_min]
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
