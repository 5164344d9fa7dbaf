"""Text that came from elsewhere (names, logs, reasons), made safe to show."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

_ADDRESS = re.compile(r"https?://[^\s()<>]+(?<![.,;:])")


def printable(text: str) -> str:
    """The text with ``?`` for what a terminal obeys or XML forbids; line ends and tabs stay."""
    return _CONTROL.sub("?", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same, on one line."""
    return printable(" ".join(text.split()))


def addresses(text: str) -> tuple[str, ...]:
    """Web addresses in a text that is walproof's own."""
    return tuple(_ADDRESS.findall(text))


def text_width(text: str) -> int:
    """Columns of a terminal that the text takes: wide characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, room: int) -> str:
    """The text in at most ``room`` columns of a terminal; a longer one has "…" for its middle."""
    kept = len(text)
    short = text
    while text_width(short) > max(1, room):
        kept -= 1
        short = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
    return short
