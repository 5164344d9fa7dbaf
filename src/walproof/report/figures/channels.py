"""Channels that charts share: names on the y axis, colours of areas, colours and shapes of points."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from walproof.report.figures.names import factors_of, levels_of
from walproof.report.figures.style import FAINT, series_style

_CHARACTER = 7
"""Width of a character in pixels, for small text in a wide font."""


def names_y(field: str, names: Sequence[str], room: int, **axis: Any) -> Any:
    """The y channel of names, in their order, with ``room`` pixels for them and without line and ticks.

    Of cells of a factorial study the levels are shown, and below them the settings that have them. ``axis``:
    more of alt.Axis.
    """
    import altair as alt

    factors = factors_of(names)
    if factors:
        shown = json.dumps({name: levels_of(name) for name in names})
        axis |= {
            "labelExpr": f"{shown}[datum.label]",
            "title": [f"{factor}," for factor in factors[:-1]] + [factors[-1]],
            "titleAngle": 0,
            "titleAnchor": "end",
            "titleAlign": "right",
            "titleBaseline": "top",
            "titleX": -8,
            "titleColor": FAINT,
            "titleFontWeight": "normal",
            "titleFontSize": 11,
            "minExtent": 16 + _CHARACTER * max(map(len, factors)),
        }
    else:
        axis["title"] = None
    look = alt.Axis(labelLimit=room, domain=False, ticks=False, **axis)
    return alt.Y(f"{field}:N", sort=list(names), axis=look)


def kind_colour(field: str, colours: Mapping[str, str], **legend: Any) -> Any:
    """The colour channel of areas, kind -> colour, with a legend of squares above the chart.

    ``legend``: more of alt.Legend.
    """
    import altair as alt

    return alt.Color(
        f"{field}:N",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(title=None, orient="top", symbolType="square", **legend),
    )


def point_channels(
    field: str, names: Sequence[str], colours: Sequence[str], shapes: Sequence[str], legend: Any
) -> tuple[Any, Any]:
    """(colour, shape) channels of points that each stand for one of ``names``, in one legend."""
    import altair as alt

    colour = alt.Color(f"{field}:N", legend=legend, scale=alt.Scale(domain=list(names), range=list(colours)))
    shape = alt.Shape(f"{field}:N", legend=legend, scale=alt.Scale(domain=list(names), range=list(shapes)))
    return colour, shape


def curve_channels(field: str, names: Sequence[str], legend: Any) -> tuple[Any, Any]:
    """(colour, shape) channels of lines with points on them; the legend shows the lines alone."""
    import altair as alt

    colours, shapes = series_style(len(names))
    sort = list(names)
    colour = alt.Color(f"{field}:N", sort=sort, scale=alt.Scale(domain=sort, range=colours), legend=legend)
    shape = alt.Shape(f"{field}:N", sort=sort, scale=alt.Scale(domain=sort, range=shapes), legend=None)
    return colour, shape
