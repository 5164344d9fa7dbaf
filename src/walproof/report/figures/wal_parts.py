"""Who wrote the WAL: one bar each, records and full-page images apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walproof.report.figures.channels import kind_colour, names_y
from walproof.report.figures.style import WIDTH, chart_of, configured
from walproof.units import format_bytes

RECORDS, IMAGES = "records", "full-page images"
COLOURS = {RECORDS: "#0072B2", IMAGES: "#E69F00"}


@dataclass(frozen=True, slots=True)
class WalPart:
    """One bar."""

    name: str
    record_bytes: int
    image_bytes: int


@dataclass(frozen=True, slots=True)
class WalPartsData:
    """Bars, longest first."""

    noun: str
    """What a bar is: ``relation``, ``resource manager``."""
    parts: tuple[WalPart, ...]

    def describe(self) -> str:
        """The bars in words."""
        return ". ".join(
            f"{part.name}: {format_bytes(part.record_bytes)} of records, "
            f"{format_bytes(part.image_bytes)} of images"
            for part in self.parts
        )

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        scale, unit = byte_scale(max(part.record_bytes + part.image_bytes for part in self.parts))
        names = [part.name for part in self.parts]
        values = []
        for part in self.parts:
            both = ((RECORDS, 0, part.record_bytes), (IMAGES, part.record_bytes, part.image_bytes))
            for kind, start, count in both:
                if count:
                    values.append(
                        {
                            "name": part.name,
                            "kind": kind,
                            "x": start / scale,
                            "x2": (start + count) / scale,
                            "about": f"{part.name}: {format_bytes(count)} of {kind}",
                        }
                    )
        bars = (
            chart_of(values)
            .mark_bar(height=14, stroke="#ffffff", strokeWidth=0.5)
            .encode(
                x=alt.X("x:Q", title=f"WAL ({unit})", axis=alt.Axis(tickCount=6)),
                x2="x2:Q",
                y=names_y("name", names, 330),
                color=kind_colour("kind", COLOURS),
                description=alt.Description("about:N"),
            )
        )
        return configured(bars.properties(width=WIDTH - 380, height=20 * len(names)))


def byte_scale(most: float) -> tuple[int, str]:
    """(divisor, unit) that gives an axis readable numbers."""
    for factor, unit in ((1024**3, "GB"), (1024**2, "MB"), (1024, "kB")):
        if most >= factor:
            return factor, unit
    return 1, "bytes"
