"""Which rows are changed again and again: told from the page images of the statements.

A foreign key locks the row that it points to, which changes that row's page, too, and counts for the
statement that inserts. So a table's images depend on the law of the tables that it points to; laws are found
one after the other, several times.

Where images say that rows are drawn unevenly, and the rows that are there point to them more unevenly than
that, the frequencies in pg_stats are the better witness, if most of what happens to a row is that others
point to it: images come from a minute, rows from the whole past.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walproof.advise.workload.children import parent_key
from walproof.advise.workload.skew import law_of, of_rows, shares_of
from walproof.advise.workload.spaces import rises
from walproof.advise.workload.transactions import Transaction
from walproof.analysis.working_set import Counted, Draws, Pages, fit, nearest
from walproof.facts.application import Application, AppTable, CyclePart

_IMAGES_LEAST = 100
"""Fewer tell nothing."""
_SWEEPS = 3


def drawn_by(
    application: Application, load: Sequence[Transaction], tables: Sequence[AppTable]
) -> dict[str, Draws]:
    """Table -> law under which its changes make the images that were counted, where that can be told."""
    if not application.seconds or not application.cycle_parts:
        return {}
    by_name = {table.name: table for table in tables}
    traffic, parts = Traffic(load, by_name, application.seconds), application.cycle_parts
    laws = _told_by_images(tables, traffic, parts, {})
    told = {
        table.name: law
        for table in tables
        if (law := _told_by_rows(table, tables, traffic, parts, laws)) is not None
    }
    # What others lock of these tables depends on their laws.
    return _told_by_images(tables, traffic, parts, told) if told else laws


def _told_by_images(
    tables: Sequence[AppTable], traffic: Traffic, parts: Sequence[CyclePart], told: Mapping[str, Draws]
) -> dict[str, Draws]:
    """The laws of the tables; those that are ``told`` stay."""
    laws = dict(told)
    asked: dict[str, list[Pages]] = {}
    for _ in range(_SWEEPS):
        for table in tables:
            counted = traffic.counted(table.name)
            if table.name in told or counted.all < _IMAGES_LEAST:
                continue
            families = list(traffic.families(table, laws))
            if asked.get(table.name) == families:
                continue  # no law has changed that its own depends on
            asked[table.name] = families
            law = fit(families, parts, counted)
            if law is None:
                laws.pop(table.name, None)
            else:
                laws[table.name] = law
    return laws


def _told_by_rows(
    table: AppTable,
    tables: Sequence[AppTable],
    traffic: Traffic,
    parts: Sequence[CyclePart],
    laws: Mapping[str, Draws],
) -> Draws | None:
    """The law under which the load's new rows point to rows of the table, where that is most of what happens
    to these rows: those that are there came by it, too. None where their frequencies are of no law, or no
    more uneven than the law that images tell."""
    known = laws.get(table.name, Draws())
    for other in tables:
        for column in other.columns:
            key = parent_key(other, column)
            is_of_it = key is not None and key[0] == table.name != other.name
            if not is_of_it or not traffic.is_mostly_pointed_to(table.name, other.name):
                continue
            shares = shares_of(column)
            if of_rows(known, table.rows, shares)[1] == 1 and (law := law_of(table.rows, shares)) is not None:
                either = [replace(law, is_adjacent=is_adjacent) for is_adjacent in (False, True)]
                families = list(traffic.families(table, laws))
                return nearest(families, parts, traffic.counted(table.name), either)
    return None


class Traffic:
    """What the load does to each table in a second."""

    def __init__(self, load: Sequence[Transaction], tables: dict[str, AppTable], seconds: float) -> None:
        self._seconds = seconds
        self._tables = tables
        self._inserted: dict[str, float] = defaultdict(float)
        self._updated: dict[str, float] = defaultdict(float)
        self._changed: dict[str, float] = defaultdict(float)
        """Rows of a heap that are updated or deleted, and not locked before by the same transaction."""
        self._locked: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        """Table -> table whose inserts lock rows of it -> rows."""
        self._images: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for transaction in load:
            self._add(transaction)

    def _add(self, transaction: Transaction) -> None:
        locks: dict[str, dict[str, float]] = defaultdict(dict)
        changes: dict[str, float] = defaultdict(float)
        new = {each.read.target.name for each in transaction.members
               if each.read.verb == "insert" and each.read.target is not None}  # fmt: skip
        once = {key.other for each in transaction.members
                if each.times == 1 and each.read.verb == "insert" and each.read.target is not None
                for key in each.read.target.keys}  # fmt: skip
        for member in transaction.members:
            row, target = member.statement, member.read.target
            if target is None:
                continue
            self._images[target.name][0] += row.wal_fpi
            self._images[target.name][1] += row.wal_fpi_first_half or 0.0
            if member.read.verb == "insert":
                self._inserted[target.name] += row.rows
                for key in target.keys:
                    # A row that the transaction has inserted lies on a page that it has just changed: in the
                    # application, also where the script cannot name that row.
                    is_old = key.other not in new or key.other == target.name
                    # Items have the tenant that their order has locked.
                    is_old = is_old and not (member.times > 1 and key.other in once)
                    if key.kind == "f" and key.other in self._tables and is_old:
                        locks[key.other][target.name] = row.rows
            else:
                self._updated[target.name] += row.rows * (member.read.verb != "delete")
                changes[target.name] = max(changes[target.name], row.rows)
        for name, by_child in locks.items():
            for child, rows in by_child.items():
                self._locked[name][child] += rows
        for name, rows in changes.items():
            # A transaction comes back to the row that it has locked.
            self._changed[name] += 0.0 if name in locks else rows

    def is_mostly_pointed_to(self, name: str, other: str) -> bool:
        """Whether at least half of the rows of the table that are changed or locked are so because new rows
        of the other table point to them."""
        locked = self._locked[name]
        return locked[other] > 0 and 2 * locked[other] >= self._changed[name] + sum(locked.values())

    def counted(self, name: str) -> Counted:
        """Images of the statements that change the table."""
        return Counted(*self._images[name])

    def families(self, table: AppTable, laws: Mapping[str, Draws]) -> Iterator[Pages]:
        """What the statements that change the table touch: heap, indexes, heaps of rows that they lock."""
        if self._changed[table.name] > 0:
            yield self._heap(table, self._changed[table.name], None)
        moved = self._updated[table.name] * (1 - (table.hot_share or 0.0))
        columns = {column.name: column for column in table.columns}
        for names, pages in table.index_pages:
            first = columns[names[0]] if names else None
            if first is not None and _is_apart(first.type):
                continue
            grows_at_end = first is not None and (first.is_identity or rises(first))
            new = 0.0 if grows_at_end else self._inserted[table.name]
            if table.partitioned_by == "r" and table.partitions > 1:
                # New rows go into the newest partition, which has a small index of its own.
                if new > 0:
                    share = 1 / table.partitions
                    yield Pages(max(1, round(table.rows * share)), pages * share, new / self._seconds)
                new = 0.0
            # Entries of an index that begins with a foreign key lie where the rows lie that are pointed to.
            key = None if first is None else parent_key(table, first)
            draws = None if key is None or key[0] == table.name else laws.get(key[0], Draws())
            if moved + new > 0:
                yield Pages(table.rows, pages, (moved + new) / self._seconds, draws=draws)
        for name, by_child in self._locked.items():
            if by_child.get(table.name, 0.0) > 0:
                yield self._heap(self._tables[name], by_child[table.name], laws.get(name, Draws()))

    def _heap(self, table: AppTable, rows: float, draws: Draws | None) -> Pages:
        total = self._changed[table.name] + sum(self._locked[table.name].values())
        return Pages(table.rows, table.heap_pages, total / self._seconds, rows / total, draws)


def _is_apart(type_: str) -> bool:
    """Whether changes of an index on it touch few pages: those at its end (times), or GIN's pending list."""
    return type_.startswith(("timestamp", "date", "tsvector", "json")) or type_.endswith("[]")
