"""Numbers as the report writes them: three significant digits, unit after a space, "-" for unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from walproof.advise.wording import say_ratio
from walproof.analysis.interval import Interval
from walproof.facts.metrics import Shown, metric
from walproof.sentences import say_percent
from walproof.units import format_bytes, format_number

UNKNOWN = "-"


def number(value: float | None) -> str:
    """Three significant digits, all digits before the point: ``3525``, ``85.8``, ``0.0712``."""
    return UNKNOWN if value is None else format_number(value)


def size(count: float | None) -> str:
    """Bytes: ``16.0 MB``."""
    return UNKNOWN if count is None else format_bytes(count)


def rate(bytes_per_s: float | None) -> str:
    """Bytes a second: ``16.0 MB/s``."""
    return UNKNOWN if bytes_per_s is None else f"{format_bytes(bytes_per_s)}/s"


def whole(value: float | None) -> str:
    """Every digit before the point: ``12,345``."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def megabytes(count: float | None) -> str:
    """Bytes as a number of MB of 10^6: ``16.8``."""
    return number(None if count is None else count / 1e6)


def ratio(value: float | None, interval: Interval | None = None) -> str:
    """``5.92x (5.51 to 6.36)``; the ratio alone where there is no interval."""
    return UNKNOWN if value is None else say_ratio(value, interval)


def percent(share: float | None) -> str:
    """``83 %``, ``4.2 %``."""
    return UNKNOWN if share is None else say_percent(share)


def milliseconds(seconds: float, interval_s: Interval | None) -> str:
    """``1.43 ms (1.38 to 1.48)``; the value alone where there is no interval."""
    text = f"{number(seconds * 1000)} ms"
    if interval_s is None:
        return text
    return f"{text} ({number(interval_s.low * 1000)} to {number(interval_s.high * 1000)})"


def p_value(p: float | None) -> str:
    """``0.03``, ``< 0.001``."""
    if p is None:
        return UNKNOWN
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


_SHOWN: Mapping[Shown, Callable[[float | None], str]] = {
    Shown.NUMBER: number,
    Shown.WHOLE: whole,
    Shown.SIZE: size,
    Shown.MEGABYTES: megabytes,
    Shown.PERCENT: percent,
}


def shown(name: str, value: float | None) -> str:
    """A value of that metric, in the form that the table of metrics sets. Raises MetricError."""
    return _SHOWN[metric(name).shown](value)
