"""Text from servers, archives and stores, as an assistant may be given it.

A model reads characters that no person sees: names of relations could carry orders in them. They are
written as escapes, which everybody sees.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

_KEPT = frozenset("\n\t")
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x180B, 0x180F))
"""Variation selectors: a row of them can hold a byte in each."""


def escaped(text: str) -> str:
    """The text with an escape (``\\u200b``) for each character that is not seen; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_seen(character) else _escape(character) for character in text)


def readable(value: object, change: Callable[[str], str], key: str = "") -> object:
    """JSON data for a model: every text and key escaped, texts then changed, times as dates.

    ``key``: the value's own. Times are those whose key is ``at`` or ends in ``_at``, in Unix seconds.
    """
    if isinstance(value, str):
        return change(escaped(value))
    if isinstance(value, Mapping):
        return {escaped(str(name)): readable(item, change, str(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable(item, change, key) for item in value]
    if (
        isinstance(value, (int, float))
        and (key == "at" or key.endswith("_at"))
        and not isinstance(value, bool)
    ):
        return _date(value)
    return value


def _date(seconds: float) -> str | float:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return seconds


def _is_seen(character: str) -> bool:
    if character in _KEPT:
        return True
    number = ord(character)
    return unicodedata.category(character) not in _UNSEEN and not any(
        low <= number <= high for low, high in _SELECTORS
    )


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
