"""Columns of which the server keeps values out of line, in the table's TOAST table.

ANALYZE takes the width of a value as it is stored, which is that of a pointer where it lies elsewhere
(src/backend/commands/analyze.c, compute_scalar_stats). Made as narrow as that, the values of a document store
would write next to no WAL. So the size of the TOAST table tells how wide they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from walproof.advise.workload.values import base_of
from walproof.facts.application import AppColumn, AppTable
from walproof.sentences import say_list, say_percent
from walproof.sqltext import identifiers
from walproof.units import format_bytes

_POINTER_BYTES = 18
"""pg_stats.avg_width where every value lies elsewhere."""
_LEAST = 0.1
"""Share of a table's size in TOAST from which on it matters."""
_MOST_BYTES = 64 << 10
"""Width of a value that is made, at most."""
_TYPES = ("text", "character varying", "citext", "json", "jsonb", "bytea")
_SHORT = 2000
"""Characters: a text that may not have more is kept in its row."""


def widened(table: AppTable) -> AppTable:
    """The table; columns with values out of line have the width that these have."""
    widths = wide_of(table)
    columns = (replace(each, width_bytes=widths.get(each.name, each.width_bytes)) for each in table.columns)
    return replace(table, columns=tuple(columns)) if widths else table


def wide_of(table: AppTable) -> dict[str, int]:
    """Column -> width of its values in bytes, of those that have values out of line.

    Which these are the catalogs do not say: those with the width of a pointer, or else the widest one.
    """
    found = [column for column in table.columns if _may_be_wide(table, column)]
    if not found or table.rows <= 0 or not _matters(table):
        return {}
    wide = [column for column in found if column.width_bytes == _POINTER_BYTES]
    if not wide and (known := [column for column in found if column.width_bytes is not None]):
        wide = [max(known, key=lambda column: column.width_bytes or 0)]
    wide = wide or found
    more = table.toast_bytes / table.rows / sum(1 - column.null_share for column in wide)
    return {column.name: min(_MOST_BYTES, round(_inline_bytes(column) + more)) for column in wide}


def toast_notes(tables: Iterable[AppTable]) -> Iterator[str]:
    """What is guessed of values out of line; the tables as they were read."""
    for table in tables:
        if not _matters(table):
            continue
        head = f"{table.name}: {say_percent(table.toast_bytes / table.size_bytes)} of its size lies in TOAST"
        widths = [f"{name} ({format_bytes(width)})" for name, width in wide_of(table).items()]
        if widths:
            yield f"{head}. Its wide values are taken for those of {say_list(widths)}."
        else:
            yield f"{head}; which of its columns has wide values is not known, and here none has."


def _matters(table: AppTable) -> bool:
    return table.toast_bytes >= max(1, _LEAST * table.size_bytes)


def _inline_bytes(column: AppColumn) -> int:
    """What rows hold of the values that lie in them."""
    return 0 if column.width_bytes == _POINTER_BYTES else column.width_bytes or 0


def _may_be_wide(table: AppTable, column: AppColumn) -> bool:
    """Whether the column may have values out of line: no key has them, nor what has few values."""
    kind, modifier, _ = base_of(column.type)
    is_wide_type = kind in _TYPES and column.labels is None and (modifier is None or modifier > _SHORT)
    is_apart = (column.distinct is None or column.distinct < 0) and column.null_share < 1
    in_key = any(column.name in key.columns for key in table.keys) or any(
        column.name in identifiers(index.definition.partition(" USING ")[2])
        for index in table.indexes
        if " USING btree " in index.definition
    )
    return is_wide_type and is_apart and not in_key and not column.is_generated
