"""Keys that rows of a file name: the tables that foreign keys point at have to hold them."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.workload.loading.table import LoadedColumn, LoadedTable, Session, read_table

DEPTH_MOST = 8
"""Foreign keys that are followed, at most."""


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """Keys that rows of a table have to have, because rows of a file name them."""

    columns: tuple[str, ...]
    queries: tuple[str, ...]
    """Each of these columns."""

    @property
    def sql(self) -> str:
        """A query of all of them, each once."""
        return " UNION ".join(self.queries)


def named_keys(
    session: Session, table: LoadedTable, columns: tuple[LoadedColumn, ...], rows: str
) -> dict[str, NamedKeys]:
    """Table -> those of its keys that ``rows``, a table of these columns of ``table``, name: by foreign keys,
    and by foreign keys of those keys."""
    found: dict[str, NamedKeys] = {}
    names = tuple(column.name for column in columns)
    _add_named(session, table, names, f"SELECT {', '.join(names)} FROM {rows}", found, 0)
    return found


def _add_named(
    session: Session,
    table: LoadedTable,
    columns: tuple[str, ...],
    query: str,
    found: dict[str, NamedKeys],
    depth: int,
) -> None:
    for key in table.foreign_keys:
        if key.target == table.name or not set(key.columns) <= set(columns) or depth > DEPTH_MOST:
            continue
        before = found.get(key.target, NamedKeys(key.target_columns, ()))
        if before.columns != key.target_columns:
            continue
        listed = ", ".join(
            f"{name} AS {theirs}" for name, theirs in zip(key.columns, key.target_columns, strict=True)
        )
        is_whole = " AND ".join(f"{name} IS NOT NULL" for name in key.columns)
        keys = f"SELECT DISTINCT {listed} FROM ({query}) named WHERE {is_whole}"
        found[key.target] = NamedKeys(key.target_columns, (*before.queries, keys))
        _add_named(session, read_table(session, key.target), key.target_columns, keys, found, depth + 1)
