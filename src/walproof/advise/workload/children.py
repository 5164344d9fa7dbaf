"""Rows that point to a row which the same transaction has inserted: the items of a new order.

pg_stat_statements does not say so. But whoever inserts an order and items in one transaction inserts the
items of that order: that is what the transaction is for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.advise.workload.parameters import ReadStatement
from walproof.advise.workload.schema import is_counted
from walproof.advise.workload.values import base_of
from walproof.facts.application import AppColumn, AppTable
from walproof.sqltext import literal

_FROM, _TO = 10**12, 9 * 10**18
"""Numbers that no row has, so many that none is drawn twice."""
_WIDE = 16
"""A text of so many characters holds any of these numbers in hexadecimal."""
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
"""A name that pgbench's variables may have."""
Key = tuple[str, str]
"""(table, column) that a foreign key points to."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """The key of a row that the transaction has inserted."""

    sql: str
    is_value: bool = False
    """Whether ``sql`` is the value itself; else it is the value's number."""


class NewRows:
    """The rows that the statements of a transaction have inserted so far, by their keys."""

    def __init__(self, reads: Sequence[ReadStatement]) -> None:
        self._wanted = {
            key
            for read in reads
            if read.verb == "insert" and read.target is not None
            for column in read.target.columns
            if (key := parent_key(read.target, column)) is not None and key[0] != read.target.name
        }
        self._keys: dict[Key, NewKey] = {}
        self._drawn: dict[Key, NewKey] = {}
        """Likewise, of the statement that is being written."""
        self._answers = 0
        """Statements whose answer is kept so far."""

    def wants(self, read: ReadStatement, column: AppColumn) -> bool:
        """Whether other rows of the transaction point to the column in the row that is inserted, and its type
        has values that are made of a number which the script knows."""
        return self._is_wanted(read, column) and (_is_numbered(column) or _is_made_of_number(column))

    def draw(self, table: AppTable, column: AppColumn, draws: list[str], sequence: str) -> str:
        r"""Number of the column's value in a new row, in SQL: the next of the sequence where values are
        numbers, else by a ``\set`` that is added to ``draws``."""
        key = table.name, column.name
        if _is_numbered(column):
            self._drawn[key] = NewKey(f"currval('{sequence}')")
            return f"nextval('{sequence}')"
        draws.append(rf"\set v{len(draws) + 1} random({_FROM}, {_TO})")
        number = f":v{len(draws)}::bigint"
        self._drawn[key] = NewKey(number)
        return number

    def end(self, read: ReadStatement, *, is_sure: bool) -> str:
        r"""A statement was written. What an INSERT leaves to a sequence has the sequence's last number; what
        else becomes the key is known if it is returned. Earlier rows of the table have no key any more: the
        sequence has gone on.

        ``is_sure``: whether it inserts its row in any case. Returns what ends the statement: a semicolon, or
        ``\gset`` where its answer is needed.
        """
        drawn, self._drawn = self._drawn, {}
        table, ends = read.target, ";"
        if table is None or read.verb not in ("insert", "merge"):
            return ends
        given = {column.name for column in read.inserted}
        for column in table.columns:
            key = table.name, column.name
            self._keys.pop(key, None)
            if not is_sure or not self._is_wanted(read, column):
                continue
            if key in drawn:
                self._keys[key] = drawn[key]
            elif column.name not in given and is_counted(column):
                of = f"{literal(table.name)}, {literal(column.name)}"
                self._keys[key] = NewKey(f"currval(pg_get_serial_sequence({of}))")
            elif (name := _name_of(column, read)) is not None:
                if ends == ";":
                    self._answers += 1
                    ends = rf" \gset new{self._answers}_"
                self._keys[key] = NewKey(f":new{self._answers}_{name}", is_value=True)
        return ends

    def parent(self, table: AppTable, column: AppColumn) -> NewKey | None:
        """Key of the new row to which this column of another new row points; None without one."""
        key = parent_key(table, column)
        # A tree goes on pointing to earlier rows.
        return None if key is None or key[0] == table.name else self._keys.get(key)

    def _is_wanted(self, read: ReadStatement, column: AppColumn) -> bool:
        """Whether rows may point to the column in a row that this statement inserts, one and in any case."""
        return (
            read.target is not None
            and is_one_new_row(read)
            and (read.target.name, column.name) in self._wanted
        )


def _is_numbered(column: AppColumn) -> bool:
    """Whether a sequence may give the column's values."""
    kind, modifier, _ = base_of(column.type)
    return kind in ("integer", "bigint") or (kind == "numeric" and modifier is None)


def _is_made_of_number(column: AppColumn) -> bool:
    """Whether different numbers make different values."""
    kind, most, _ = base_of(column.type)
    if kind in ("text", "character varying", "character"):
        is_short = column.width_bytes is not None and column.width_bytes <= _WIDE
        return not is_short and (most is None or most >= _WIDE) and (kind != "character" or most is not None)
    return kind == "uuid"


def _name_of(column: AppColumn, read: ReadStatement) -> str | None:
    """Under which name an INSERT returns the column; None if pgbench cannot keep what it returns."""
    if not all(_PLAIN.fullmatch(name) for name, _ in read.returned):
        return None
    return next((name for name, returned in read.returned if returned == column.name), None)


def is_one_new_row(read: ReadStatement) -> bool:
    """Whether a statement inserts one row, and in any case."""
    return read.has_values and read.tuples == 1 and not read.has_conflict


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
    otherwise as given."""
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
