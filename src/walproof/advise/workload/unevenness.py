"""Which rows are changed again and again: told from the page images of the statements.

A foreign key locks the row that it points to, which changes that row's page, too, and counts for the
statement that inserts. So tables that are linked by foreign keys are looked at together, and have one law.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from walproof.advise.workload.transactions import Transaction
from walproof.analysis.working_set import Counted, Draws, Pages, fit
from walproof.facts.application import AppColumn, Application, AppTable

_IMAGES_LEAST = 100
"""Fewer tell nothing."""
_ORDERED = 0.8


def drawn_by(
    application: Application, load: Sequence[Transaction], tables: Sequence[AppTable]
) -> dict[str, Draws]:
    """Table -> law under which its changes make the images that were counted, where that can be told."""
    if not application.seconds or not application.cycle_parts:
        return {}
    by_name = {table.name: table for table in tables}
    traffic = _Traffic(load, by_name, application.seconds)
    laws: dict[str, Draws] = {}
    for group in _linked(tables, by_name, traffic):
        counted = traffic.counted(group)
        families = [family for name in group for family in traffic.families(by_name[name])]
        if counted.all >= _IMAGES_LEAST and families:
            law = fit(families, application.cycle_parts, counted)
            if law is not None:
                laws |= dict.fromkeys(group, law)
    return laws


class _Traffic:
    """What the load does to each table in a second."""

    def __init__(self, load: Sequence[Transaction], tables: dict[str, AppTable], seconds: float) -> None:
        self._seconds = seconds
        self.inserted: dict[str, float] = defaultdict(float)
        self._updated: dict[str, float] = defaultdict(float)
        self._touched: dict[str, float] = defaultdict(float)
        """Rows of a heap that are changed or locked; a transaction comes back to its own row."""
        self._images: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for transaction in load:
            once: dict[str, float] = defaultdict(float)
            for member in transaction.members:
                row, target = member.statement, member.read.target
                if target is None:
                    continue
                self._images[target.name][0] += row.wal_fpi
                self._images[target.name][1] += row.wal_fpi_first_half or 0.0
                touched = [target.name]
                if member.read.verb == "insert":
                    self.inserted[target.name] += row.rows
                    touched = [key.other for key in target.keys if key.kind == "f" and key.other in tables]
                else:
                    self._updated[target.name] += row.rows * (member.read.verb != "delete")
                for name in touched:
                    once[name] = max(once[name], row.rows)
            for name, rows in once.items():
                self._touched[name] += rows

    def counted(self, group: Sequence[str]) -> Counted:
        """Images of the group's statements."""
        return Counted(
            sum(self._images[name][0] for name in group), sum(self._images[name][1] for name in group)
        )

    def families(self, table: AppTable) -> Iterator[Pages]:
        """The heap and the indexes."""
        yield Pages(table.rows, table.heap_pages, self._touched[table.name] / self._seconds)
        moved = self._updated[table.name] * (1 - (table.hot_share or 0.0))
        columns = {column.name: column for column in table.columns}
        for names, pages in table.index_pages:
            first = columns[names[0]] if names else None
            if first is not None and _is_apart(first.type):
                continue
            grows_at_end = first is not None and _rises(first)
            entries = moved + (0.0 if grows_at_end else self.inserted[table.name])
            yield Pages(table.rows, pages, entries / self._seconds)


def _linked(
    tables: Sequence[AppTable], by_name: dict[str, AppTable], traffic: _Traffic
) -> list[tuple[str, ...]]:
    """Tables that are linked by foreign keys of rows that the load inserts."""
    group_of = {table.name: {table.name} for table in tables}
    for table in tables:
        for key in table.keys:
            if key.kind == "f" and key.other in by_name and traffic.inserted[table.name] > 0:
                joined = group_of[table.name] | group_of[key.other]
                for name in joined:
                    group_of[name] = joined
    return list(dict.fromkeys(tuple(sorted(group)) for group in group_of.values()))


def _is_apart(type_: str) -> bool:
    """Whether changes of an index on it touch few pages: those at its end (times), or GIN's pending list."""
    return type_.startswith(("timestamp", "date", "tsvector", "json")) or type_.endswith("[]")


def _rises(column: AppColumn) -> bool:
    return column.is_identity or (column.correlation is not None and column.correlation >= _ORDERED)
