"""What the keys of a table say of its rows: which columns are unique, and how many rows they leave."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts.application import AppColumn, AppTable

_ROWS_WHOLE = 1000
"""Tables up to so many rows are not made smaller."""


def rows_of(
    table: AppTable, tables: Mapping[str, AppTable], share: float, above: tuple[str, ...] = ()
) -> int:
    """Rows that are made for the table, with this share of those that it has.

    A row that needs another one to itself (a profile, of its user) is made only where that one is: how many
    rows each table has is an estimate of its own. ``tables``: those that foreign keys may point to, by name;
    ``above``: those that ask, for keys in a circle.
    """
    rows = max(min(table.rows, _ROWS_WHOLE), round(table.rows * share), 1)
    above = (*above, table.name)
    unique = unique_keys(table)
    needed = {(column.name,) for column in table.columns if column.not_null}
    for key in table.keys:
        other = tables.get(key.other or "") if key.kind == "f" else None
        if other is not None and key.columns in unique and key.columns in needed and other.name not in above:
            rows = min(rows, rows_of(other, tables, share, above))
    return rows


def unique_keys(table: AppTable) -> tuple[tuple[str, ...], ...]:
    """Columns of each primary key, unique constraint and unique index."""
    keys = [key.columns for key in table.keys if key.kind in "pu"]
    keys += [index.columns for index in table.indexes if index.is_unique and index.columns]
    return tuple(dict.fromkeys(keys))


def is_unique(table: AppTable, name: str) -> bool:
    """Whether the column alone is a unique key."""
    return (name,) in unique_keys(table)


def pointed_to(
    table: AppTable, name: str, tables: Mapping[str, AppTable]
) -> tuple[AppTable, AppColumn] | None:
    """What the column points to by a foreign key of its own; None for none, or a table that is not here."""
    for key in table.keys:
        if key.kind == "f" and key.columns == (name,) and key.other is not None and key.other in tables:
            other = tables[key.other]
            return other, next(column for column in other.columns if column.name == key.other_columns[0])
    return None
