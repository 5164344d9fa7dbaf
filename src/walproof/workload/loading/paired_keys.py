"""Keys of a table that consist of foreign keys alone, as those of a join table do.

No column of theirs can hold a row's number. Their values are unique where the rows that the foreign keys
point at are taken in turn, as the digits of a number are: all of the first, with each of the second.
"""

from __future__ import annotations

from walproof.workload.loading.table import ForeignKey, LoadedTable


def foreign_columns(table: LoadedTable) -> dict[str, tuple[ForeignKey, int]]:
    """Column -> the foreign key to another table that it belongs to, and its place in that."""
    return {
        name: (key, position)
        for key in table.foreign_keys
        if key.target != table.name
        for position, name in enumerate(key.columns)
    }


def paired(table: LoadedTable) -> list[tuple[ForeignKey, ...]]:
    """The foreign keys of each key that has no other columns, the lowest digit first. Each foreign key is in
    one of them at most, in the shortest: what is unique there is unique in a longer one."""
    foreign = foreign_columns(table)
    keys = [
        tuple(dict.fromkeys(foreign[name][0] for name in key))
        for key in table.keys
        if all(name in foreign for name in key)
    ]
    found: list[tuple[ForeignKey, ...]] = []
    for members in sorted(keys, key=len):
        if not any(key in others for key in members for others in found):
            found.append(members)
    return found


def needed_rows(table: LoadedTable, rows: int) -> dict[str, int]:
    """Table -> rows that it has to have, so that such keys of ``table`` have ``rows`` values."""
    found: dict[str, int] = {}
    for members in paired(table):
        each = int(rows ** (1 / len(members))) + 1
        for key in members:
            found[key.target] = max(found.get(key.target, 0), each)
    return found
