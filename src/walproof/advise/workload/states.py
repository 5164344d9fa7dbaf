"""Columns of few values some of which the schema itself names: in a default, a CHECK constraint, the
predicate of a partial index.

What an enum says of its labels, the schema says here of a text or a whole number: ``state text DEFAULT
'queued'`` with an index ``WHERE state = 'queued'``. A load with other texts would leave such an index empty,
and its statements could not use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from walproof.advise.workload.constant_defaults import constant_of
from walproof.advise.workload.naming import Unreadable
from walproof.advise.workload.parsing import tree_of
from walproof.advise.workload.parts import Part
from walproof.advise.workload.values import TEXTS, base_of, value
from walproof.facts.application import AppColumn, AppTable
from walproof.sqltext import literal

_MOST = 20
"""Values of a column; one with more is no state."""
_TYPES = ("smallint", "integer", "bigint", *(name for name in TEXTS if name not in ("character", "citext")))
_ALL = 0.999
"""Share of the rows from which on the most frequent values are all there are."""
_MOST_NEW = 0.5
_WHOLE = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class States:
    """The values of such a column, by number from 1."""

    names: tuple[str | None, ...]
    """Those that rows have come first, the most frequent one at the front; None: the schema does not name
    it."""
    shares: tuple[float, ...]
    """Of the rows that are not NULL, that of each value."""
    default: int | None
    """Number of the default."""
    wanted: tuple[int, ...]
    """Those that a partial index holds: ``WHERE state = 'queued'``."""
    unwanted: tuple[int, ...]
    """Those that a partial index leaves out: ``WHERE state <> 'done'``."""

    def value(self, e: str, column: AppColumn) -> str | None:
        """SQL of the e-th value; ``e``: SQL of a whole number."""
        is_text = base_of(column.type)[0] in TEXTS
        known = {
            number: literal(name) if is_text else name
            for number, name in enumerate(self.names, start=1)
            if name is not None
        }
        # Not one of the named numbers.
        beyond = 0 if is_text else max(map(int, known.values()))
        other = value(column.type, f"({e}) + {beyond}" if beyond else e, column.width_bytes)
        if e.isdecimal():
            return known.get(int(e), other)  # a constant, from which the server proves a predicate
        cases = " ".join(f"WHEN {number} THEN {name}" for number, name in known.items())
        return f"CASE {e} {cases}{f' ELSE {other}' if None in self.names else ''} END"

    def choices(self, part: Part) -> dict[int, float]:
        """Number -> weight of those one of which stands in this part of a statement that names no row."""
        had = {number: share for number, share in enumerate(self.shares, start=1) if share > 0}
        if part is Part.INSERTED and self.default is not None:
            return {self.default: 1.0}
        if part is Part.ASSIGNED and (others := self._after_default(had)):
            return others
        found = self.unwanted if part is Part.UNEQUAL else self.wanted if part is Part.EQUAL else ()
        return dict.fromkeys(found or had, 1.0)

    @property
    def newest_share(self) -> float:
        """Share of the rows that have the default because they are the newest, at the end of the table: what
        is new has it, and most rows have become something else. 0 where most rows have the default."""
        share = 0.0 if self.default is None else self.shares[self.default - 1]
        return share if share <= _MOST_NEW else 0.0

    def _after_default(self, had: Mapping[int, float]) -> dict[int, float]:
        """What is new becomes something else. A state that no row has is passed through so quickly that none
        was seen in it: all such are given as often as all others."""
        others = {number: share for number, share in had.items() if number != self.default}
        absent = [
            number
            for number, share in enumerate(self.shares, start=1)
            if not share and number != self.default
        ]
        return others | dict.fromkeys(absent, (sum(others.values()) or 1.0) / max(1, len(absent)))


def states_of(table: AppTable, column: AppColumn) -> States | None:
    """The states of a column; None for one that has none."""
    if not _may_have(table, column):
        return None
    default = constant_of(column.default)
    wanted, unwanted = _predicates(table, column.name)
    named = list(dict.fromkeys([*wanted, *unwanted, *_checked(table, column.name)]))
    if base_of(column.type)[0] not in TEXTS and not (named and all(map(_WHOLE.fullmatch, named))):
        return None  # a number with a default alone may be a count
    if default is not None and default not in named:
        named.append(default)
    count = _count(column)
    if not named or count > _MOST:
        return None
    if not count:
        # Without statistics all of them are as frequent.
        names: list[str | None] = [*named]
        shares = [1 / len(names)] * len(names)
    else:
        names, shares = _usual(column, count, named)
    if len(names) < 2:
        return None  # one value, which is the default
    numbers = {name: number for number, name in enumerate(names, start=1) if name is not None}
    return States(
        tuple(names),
        tuple(shares),
        numbers.get(default) if default is not None else None,
        tuple(numbers[name] for name in wanted),
        tuple(numbers[name] for name in unwanted),
    )


def _may_have(table: AppTable, column: AppColumn) -> bool:
    """Whether nothing else says which rows have which value: a key, labels, a sequence, a partition."""
    is_plain = column.labels is None and not column.is_identity and not column.is_generated
    in_key = any(column.name in key.columns for key in table.keys) or any(
        column.name in index.columns for index in table.indexes if index.is_unique
    )
    is_free = not in_key and column.name not in table.partition_columns
    return is_plain and is_free and base_of(column.type)[0] in _TYPES


def _count(column: AppColumn) -> int:
    """How many values rows have; 0 where that is not known."""
    if column.distinct is None or column.null_share >= 1:
        return 0
    if column.distinct < 0 and sum(column.usual_shares) + column.null_share < _ALL:
        return _MOST + 1  # a share of the rows, and not one of a table with few rows
    return max(round(column.distinct), len(column.usual_shares))


def _usual(column: AppColumn, count: int, named: list[str]) -> tuple[list[str | None], list[float]]:
    """Values and their shares: those that pg_stats has, rarer ones, and those that no row has."""
    seen = len(column.usual_shares)
    names: list[str | None] = [*column.usual[:seen], *[None] * (seen - len(column.usual))]
    others = [name for name in named if name not in names]
    rarer = count - seen
    names += [*others[:rarer], *[None] * (rarer - len(others))]
    filled = 1 - column.null_share
    shares = [share / filled for share in column.usual_shares]
    if rarer:
        shares += [max(0.0, 1 - sum(shares)) / rarer] * rarer
    absent = others[rarer:]
    return [*names, *absent], shares + [0.0] * len(absent)


def _predicates(table: AppTable, name: str) -> tuple[list[str], list[str]]:
    """(values that partial indexes hold, values that they leave out)."""
    wanted: list[str] = []
    unwanted: list[str] = []
    for index in table.indexes:
        for constant, is_left_out in _compared(index.definition.partition(" WHERE ")[2], name):
            (unwanted if is_left_out else wanted).append(constant)
    return list(dict.fromkeys(wanted)), list(dict.fromkeys(unwanted))


def _checked(table: AppTable, name: str) -> Iterator[str]:
    for definition in table.others:
        if definition.startswith("CHECK "):
            condition = definition.removeprefix("CHECK ")
            for end in (" NOT VALID", " NO INHERIT", " NOT ENFORCED"):
                condition = condition.removesuffix(end)
            yield from (constant for constant, _ in _compared(condition, name))


def _compared(condition: str, name: str) -> Iterator[tuple[str, bool]]:
    """(constant that the column is compared with, whether rows with it are left out)."""
    if not condition:
        return
    try:
        tree, _ = tree_of(f"SELECT 1 WHERE {condition}")
    except Unreadable:
        return
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.In):
        column = node.this
        while isinstance(column, exp.Paren | exp.Cast):
            column = column.this
        if not isinstance(column, exp.Column) or column.name != name:
            continue
        others = node.expressions if isinstance(node, exp.In) else [node.args["expression"]]
        is_left_out = isinstance(node, exp.NEQ) != (node.find_ancestor(exp.Not) is not None)
        for other in others:
            for found in other.find_all(exp.Literal):
                if found.find_ancestor(exp.DataType) is None:
                    yield found.this, is_left_out
