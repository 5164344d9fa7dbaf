"""What an index of an application makes unique."""

from __future__ import annotations

import math
from collections.abc import Sequence

from walproof.facts.application import AppColumn, AppIndex, AppKey
from walproof.sqltext import folded, tokens

_APART = 0.99
"""Share of the rows with a value of their own from which on all have one."""
_MANY = 0.5
"""Likewise where nothing else speaks against it: n_distinct is an estimate."""


def index_of(
    definition: str,
    names: tuple[str, ...],
    expressions: int,
    columns: Sequence[AppColumn],
    keys: Sequence[AppKey] = (),
    *,
    is_unique: bool,
    rows: int = 0,
) -> AppIndex:
    """The index of that definition, as pg_get_indexdef writes it; ``names``: its plain columns;
    ``expressions``: how many it has; ``columns``, ``keys``, ``rows``: those of its table.

    A unique index on expressions makes rows apart in all that they name, and not in its plain columns. One of
    which an expression names several columns is none here: least(a, b) is the same in rows that differ. Nor
    is one with a predicate that holds few of the rows: (customer) WHERE active says nothing of the others.
    """
    if not is_unique:
        return AppIndex(definition, names, False)
    found, is_apart = names, True
    if expressions:
        known = {column.name for column in columns}
        parts = [part & known for part in _parts(definition)]
        found = tuple(column.name for column in columns if any(column.name in part for part in parts))
        is_apart = all(len(part) <= 1 for part in parts)
    is_partial = " WHERE " in definition.partition(" USING ")[2]
    if is_partial and _repeat([column for column in columns if column.name in found], keys, rows):
        is_apart = False
    if is_apart:
        return AppIndex(definition, found, True, bool(expressions))
    plain = definition.replace("CREATE UNIQUE INDEX", "CREATE INDEX", 1)
    return AppIndex(plain, found, False, bool(expressions), was_unique=True)


def _repeat(columns: Sequence[AppColumn], keys: Sequence[AppKey], rows: int) -> bool:
    """Whether rows share values of these columns, as far as the statistics say. Of a foreign key they do
    unless every row has its own: there may not be as many rows to point to."""
    names = tuple(column.name for column in columns)
    is_foreign = any(key.kind == "f" and key.columns == names for key in keys)
    counts = [_count(column, rows) for column in columns]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not rows:
        return is_foreign
    filled = rows * (1 - max((column.null_share for column in columns), default=0.0))
    return math.prod(known) < (_APART if is_foreign else _MANY) * filled


def _count(column: AppColumn, rows: int) -> float | None:
    """How many values it has; None where that is not known."""
    if not column.distinct:
        return None
    return column.distinct if column.distinct > 0 else -column.distinct * rows


def _parts(definition: str) -> list[set[str]]:
    """The names in each part of the index's key."""
    parts: list[set[str]] = [set()]
    depth = 0
    for token in tokens(definition.partition(" USING ")[2]):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text == ")":
            break
        if depth == 1 and token.text == ",":
            parts.append(set())
        elif token.kind in ("word", "name"):
            parts[-1].add(folded(token.text))
    return parts
