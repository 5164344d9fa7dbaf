"""Counts, shares and lists as sentences say them."""

from __future__ import annotations

from collections.abc import Sequence


def say_count(count: float, noun: str) -> str:
    """``1 slot``, ``2 slots``, ``1,200 slots``."""
    return f"{count:,.0f} {noun}" if round(count) == 1 else f"{count:,.0f} {noun}s"


def say_percent(share: float) -> str:
    """``83 %``, ``4.2 %``, ``0.3 %``, ``< 0.1 %``, of a share of 1."""
    percent = 100 * share
    if 0 < abs(percent) < 0.1:
        return "< 0.1 %"
    return f"{percent:.0f} %" if abs(percent) >= 10 or percent == 0 else f"{percent:.1f} %"


def say_list(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; nothing for no parts."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
