"""Defaults that are constants."""

from __future__ import annotations

import re

_CONSTANT = re.compile(
    r"(?:'(?P<text>(?:[^']|'')*)'|\(?(?P<bare>-?[0-9]+|true|false)\)?)(?:::[^():]+(?:\([0-9,]+\))?)?"
)
"""As pg_get_expr writes them: ``0``, ``'-1'::integer``, ``'new'::public.state``."""


def constant_of(default: str | None) -> str | None:
    """The text of a column's default; None where it is no constant of a known type."""
    match = _CONSTANT.fullmatch(default or "")
    return None if match is None else (match["text"] or match["bare"] or "").replace("''", "'")
