"""Logarithmic axes: a range that shows every point, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from walproof.report.numbers import number

_DECADE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def log_range(
    values: Iterable[float], *, always: Iterable[float] = (), least: float = 1.1
) -> tuple[float, float]:
    """Lowest and highest value with a little air, at least ``least`` times off their middle."""
    found = [v for v in (*values, *always) if v > 0 and math.isfinite(v)] or [1.0]
    low, high = min(found), max(found)
    air = max(math.log(high / low) * 0.04, 0.005)
    low, high = low * math.exp(-air), high * math.exp(air)
    middle = math.sqrt(low * high)
    return min(low, middle / least), max(high, middle * least)


def log_ticks(low: float, high: float, most: int = 8) -> tuple[float, ...]:
    """Round numbers within the range, at most about ``most``, evenly enough on a log axis."""
    if high / low < 2.5:
        return _linear_ticks(low, high, most)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (_DECADE, (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        ticks = tuple(
            _clean(step * 10.0**decade)
            for decade in decades
            for step in steps
            if low <= step * 10.0**decade <= high
        )
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def tick_label(value: float, unit: str = "") -> str:
    """``2``, ``0.5``, ``1.05``: no zeros that say nothing."""
    text = number(value)
    return (text.rstrip("0").rstrip(".") if "." in text else text) + unit


def log_x(
    low: float, high: float, ticks: Sequence[float], title: str | None, unit: str = "", **axis: Any
) -> Any:
    """The x channel of the field ``x`` on a log axis with just these ticks; ``axis``: more of alt.Axis."""
    import altair as alt

    # A Vega expression object from tick to label; it holds numbers and our own text only.
    labels = "{" + ",".join(f"'{tick:g}':'{tick_label(tick, unit)}'" for tick in ticks) + "}"
    return alt.X(
        "x:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(
            values=list(ticks), labelExpr=f"({labels})[toString(datum.value)]", title=title, **axis
        ),
    )


def _linear_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    raw = (high - low) / most
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(magnitude * m for m in (1, 2, 5, 10) if magnitude * m >= raw)
    return tuple(_clean(i * step) for i in range(math.ceil(low / step), math.floor(high / step) + 1))


def _clean(value: float) -> float:
    return float(f"{value:.10g}")
