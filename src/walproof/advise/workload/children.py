"""Rows that point to a row which the same transaction has inserted: the items of a new order.

pg_stat_statements does not say so. But whoever inserts an order and items in one transaction inserts the
items of that order: that is what the transaction is for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from walproof.advise.workload.parameters import ReadStatement
from walproof.advise.workload.schema import is_counted
from walproof.advise.workload.values import base_of
from walproof.facts.application import AppColumn, AppTable
from walproof.sqltext import literal

_VALUES = re.compile(r"\bvalues\b", re.IGNORECASE)
_FROM, _TO = 10**12, 9 * 10**18
"""Numbers that no row has, so many that none is drawn twice."""
Key = tuple[str, str]
"""(table, column) that a foreign key points to."""


class NewRows:
    """The rows that the statements of a transaction have inserted so far, by the number of their key."""

    def __init__(self, reads: Sequence[ReadStatement]) -> None:
        self._wanted = {
            key
            for read in reads
            if read.verb == "insert" and read.target is not None
            for column in read.target.columns
            if (key := parent_key(read.target, column)) is not None and key[0] != read.target.name
        }
        self._numbers: dict[Key, str] = {}
        self._drawn: dict[Key, str] = {}
        """Likewise, of the statement that is being written."""

    def wants(self, read: ReadStatement, column: AppColumn) -> bool:
        """Whether other rows of the transaction point to the column in the row that is inserted, and it has a
        type of which any number makes a value that no row has."""
        return self._is_wanted(read, column) and base_of(column.type)[0] == "uuid"

    def draw(self, table: AppTable, column: AppColumn, draws: list[str]) -> str:
        r"""Number of the column's value in a new row, in SQL, by a ``\set`` that is added to ``draws``."""
        draws.append(rf"\set v{len(draws) + 1} random({_FROM}, {_TO})")
        number = self._drawn[table.name, column.name] = f":v{len(draws)}::bigint"
        return number

    def end(self, read: ReadStatement, *, is_sure: bool) -> None:
        """A statement was written; ``is_sure``: whether it inserts its row in any case. What an INSERT leaves
        to a sequence has the sequence's last number. Earlier rows of the table have no number any more: the
        sequence has gone on."""
        drawn, self._drawn = self._drawn, {}
        table = read.target
        if table is None or read.verb not in ("insert", "merge"):
            return
        given = {column.name for column in read.inserted}
        for column in table.columns:
            key = table.name, column.name
            self._numbers.pop(key, None)
            if not is_sure or not self._is_wanted(read, column):
                continue
            if key in drawn:
                self._numbers[key] = drawn[key]
            elif column.name not in given and is_counted(column):
                of = f"{literal(table.name)}, {literal(column.name)}"
                self._numbers[key] = f"currval(pg_get_serial_sequence({of}))"

    def parent(self, table: AppTable, column: AppColumn) -> str | None:
        """Number of the value that the new row has to which this column of another new row points; None
        without one."""
        key = parent_key(table, column)
        # A tree goes on pointing to earlier rows.
        return None if key is None or key[0] == table.name else self._numbers.get(key)

    def _is_wanted(self, read: ReadStatement, column: AppColumn) -> bool:
        """Whether rows may point to the column in a row that this statement inserts, one and in any case."""
        if read.verb != "insert" or read.target is None or read.has_conflict or read.tuples != 1:
            return False
        return _VALUES.search(read.query) is not None and (read.target.name, column.name) in self._wanted


def parent_key(table: AppTable, column: AppColumn) -> Key | None:
    """What the column points to by a foreign key of its own."""
    return next(
        (
            (key.other, key.other_columns[0])
            for key in table.keys
            if key.kind == "f" and key.columns == (column.name,) and key.other is not None
        ),
        None,
    )


def parents_first(reads: Sequence[ReadStatement]) -> list[int]:
    """Places of the statements in an order in which rows are inserted before those that point to them, and
    and otherwise as given."""
    left = list(range(len(reads)))
    found: list[int] = []
    while left:
        coming = {name for at in left if (name := _inserted_into(reads[at])) is not None}
        free = (at for at in left if not (_pointed_to(reads[at]) - {_inserted_into(reads[at])}) & coming)
        found.append(next(free, left[0]))
        left.remove(found[-1])
    return found


def _inserted_into(read: ReadStatement) -> str | None:
    return read.target.name if read.verb == "insert" and read.target is not None else None


def _pointed_to(read: ReadStatement) -> set[str | None]:
    """Tables that rows which it inserts point to."""
    if _inserted_into(read) is None or read.target is None:
        return set()
    return {key.other for key in read.target.keys if key.kind == "f"}
