"""What an index of an application makes unique."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.facts.application import AppColumn, AppIndex
from walproof.sqltext import folded, tokens


def index_of(
    definition: str,
    names: tuple[str, ...],
    expressions: int,
    columns: Sequence[AppColumn],
    *,
    is_unique: bool,
) -> AppIndex:
    """The index of that definition, as pg_get_indexdef writes it; ``names``: its plain columns;
    ``expressions``: how many it has.

    A unique index on expressions makes rows apart in all that they name, and not in its plain columns. One of
    which an expression names several columns is none here: least(a, b) is the same in rows that differ.
    """
    if not is_unique or not expressions:
        return AppIndex(definition, names, is_unique)
    known = {column.name for column in columns}
    parts = [part & known for part in _parts(definition)]
    found = tuple(column.name for column in columns if any(column.name in part for part in parts))
    if any(len(part) > 1 for part in parts):
        return AppIndex(definition.replace("CREATE UNIQUE INDEX", "CREATE INDEX", 1), found, False, True)
    return AppIndex(definition, found, True, True)


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
