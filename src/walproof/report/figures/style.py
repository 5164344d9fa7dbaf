"""How charts look: colours that a colour-blind reader and a grey printer can tell apart, one font.

Colours are those of Okabe and Ito,
"Color Universal Design" (jfly.uni-koeln.de/color). INK, FAINT and
GRID are names as much as colours: the page's style sheet replaces them on a dark screen.
"""

from __future__ import annotations

from typing import Any

from walproof.settings.durability import DurabilityClass

INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
WIDTH = 900
"""Pixels; the page scales a chart down, never up."""

CLASS_COLOURS = {
    DurabilityClass.NONE: "#009E73",
    DurabilityClass.LAST_COMMITS: "#0072B2",
    DurabilityClass.TABLE: "#CC79A7",
    DurabilityClass.CORRUPT: "#D55E00",
}
SYMBOLS = {
    DurabilityClass.NONE: "●",
    DurabilityClass.LAST_COMMITS: "■",
    DurabilityClass.TABLE: "▲",
    DurabilityClass.CORRUPT: "◆",
}
"""Symbols that tell the classes apart without colour: in grey print, or for a colour-blind reader."""
PALETTE = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#F0E442")
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
REST = "#BBBBBB"
"""What remains after the named parts."""


def series_style(count: int) -> tuple[list[str], list[str]]:
    """(colours, shapes) for so many variants. Beyond eight, a colour comes back with another shape."""
    colours = [_visible(PALETTE[i % len(PALETTE)]) for i in range(count)]
    shapes = [SHAPES[(i + i // len(PALETTE)) % len(SHAPES)] for i in range(count)]
    return colours, shapes


def _visible(colour: str) -> str:
    # Black marks take the ink's name, so that they can be seen on a dark screen as well.
    return INK if colour == "#000000" else colour


def label_on(colour: str) -> str:
    """Black or white, whichever can be read better on that colour."""
    # Relative luminance, and where black and white contrast alike (Web Content Accessibility Guidelines 2.2).
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#ffffff"


def marked(name: str, durability: DurabilityClass) -> str:
    """``◆ fsync=off``: the variant with the symbol of its class, for the axis of a chart."""
    return f"{SYMBOLS[durability]} {name}"


def symbol_key() -> str:
    """What the symbols mean, for the note under a chart."""
    return ", ".join(f"{symbol} {durability.value}" for durability, symbol in SYMBOLS.items())


def chart_of(values: list[dict[str, Any]]) -> Any:
    """A chart that carries its own data."""
    import altair as alt

    # A tuple: Altair copies lists, and all within them, again at every layer and concatenation.
    return alt.Chart(alt.Data(values=tuple(values)))  # type: ignore[no-untyped-call]


def configured(chart: Any) -> dict[str, Any]:
    """The chart's Vega-Lite specification, with the common style."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    # Altair's own configure methods copy the whole chart, each of them.
    config = spec["config"]
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12}
    config |= {
        "font": FONT,
        "background": "transparent",
        "axis": {
            "gridColor": GRID,
            "domainColor": FAINT,
            "tickColor": FAINT,
            "titleFontWeight": "normal",
            **text,
        },
        "view": {**config["view"], "stroke": None},
        "legend": {"titleFontWeight": "normal", "labelLimit": 320, "symbolSize": 90, **text},
        "header": {"labelFontWeight": "bold", **text},
        "title": {
            "anchor": "start",
            "color": INK,
            "fontSize": 13,
            "offset": 6,
            "subtitleColor": FAINT,
        },
    }
    return spec
