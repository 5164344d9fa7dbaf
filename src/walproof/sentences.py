"""Counts and lists as sentences say them."""

from __future__ import annotations

from collections.abc import Sequence


def say_count(count: float, noun: str) -> str:
    """``1 slot``, ``2 slots``, ``1,200 slots``."""
    return f"{count:,.0f} {noun}" if round(count) == 1 else f"{count:,.0f} {noun}s"


def say_list(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; nothing for no parts."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
