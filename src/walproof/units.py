"""Units as PostgreSQL writes them: WAL locations, sizes and durations.

Sizes are powers of 1024 and durations take ms, s, min, h, d, as in postgresql.conf
(manual, section "Parameter Names and Values").
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import datetime, timedelta
from datetime import time as clock

from walproof.errors import UnitError

_SIZES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_DURATIONS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LIMITS = {"size": (2**63, "8 EB"), "duration": (1e10, "317 years")}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Lsn(int):
    """A WAL location: bytes since the beginning of the WAL, written as two hexadecimal halves."""

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read ``16/B374D848``. Raises UnitError."""
        match = _LSN.fullmatch(text.strip())
        if match is None:
            raise UnitError(
                f'invalid LSN: "{text}"', hint="An LSN looks like 0/3A0001F8: two hexadecimal numbers."
            )
        return cls(int(match[1], 16) << 32 | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"


def parse_bytes(text: str) -> int:
    """Bytes in ``4GB``, ``512 kB`` or ``8192``. Raises UnitError."""
    return round(_quantity(text, _SIZES, "size", "B"))


def parse_duration_s(text: str | float) -> float:
    """Seconds in ``10s``, ``5min``, ``200ms`` or a bare number of seconds. Raises UnitError."""
    if isinstance(text, (int, float)):
        return _within(text, text, "duration")
    return _quantity(text, _DURATIONS_S, "duration", "s")


def parse_moment(text: str, now_s: float) -> float:
    """Unix time of ``2026-11-22 03:00`` by the local clock, or with its offset; of ``03:00``, the last time
    that it was before ``now_s``; or of ``26h``: that long before ``now_s``. Raises UnitError.
    """
    if is_time_of_day(text):
        at = clock.fromisoformat(text)
        today = datetime.combine(datetime.fromtimestamp(now_s, at.tzinfo), at)
        return (today if today.timestamp() <= now_s else today - timedelta(days=1)).timestamp()
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    with suppress(UnitError):
        return now_s - parse_duration_s(text)
    raise UnitError(
        f'"{text}" is not a time', hint="Such as 03:00 or 2026-11-22 03:00, by the local clock, or 26h (ago)."
    )


def is_time_of_day(text: str) -> bool:
    """Whether it is ``03:00``, without a day."""
    with suppress(ValueError):
        return ":" in text and clock.fromisoformat(text) is not None
    return False


def _quantity(text: str, units: dict[str, float] | dict[str, int], noun: str, default: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[2] or default) not in units:
        raise UnitError(f'invalid {noun}: "{text}"', hint=f"Valid units for a {noun} are {', '.join(units)}.")
    return _within(float(match[1]) * units[match[2] or default], text, noun)


def _within(value: float, text: str | float, noun: str) -> float:
    limit, words = _LIMITS[noun]
    # NaN is in no order with any number.
    if not abs(value) < limit:
        raise UnitError(f'invalid {noun}: "{str(text)[:40]}"', hint=f"A {noun} is below {words}.")
    return float(value)


def format_bytes(count: float) -> str:
    """``1.5 GB``: at most three significant digits, in units of 1024."""
    value, unit = float(count), "B"
    for unit in _SIZES:
        if abs(value) < 1024 or unit == "TB":
            break
        value /= 1024
    digits = 0 if unit == "B" or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def format_number(value: float) -> str:
    """Three significant digits, all digits before the point, never an exponent above 1: ``3525``, ``85.8``,
    ``0.0712``.
    """
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    if abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:#.3g}".rstrip(".")


def format_duration(seconds: float) -> str:
    """``1.43 ms``, ``12 s``, ``3 min 20 s``, ``2 h 05 min``: in seconds and below three digits at most."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if seconds >= 60:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60:02d} s"
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * factor:  # 0.9996 s is 1 s in three digits
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def format_utc(unix_s: float) -> str:
    """``2026-11-20 14:05 UTC``."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix_s))
