"""Which row the conditions of a statement name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from walproof.advise.workload.parameters import ReadStatement
from walproof.advise.workload.parts import Parameter, Part
from walproof.advise.workload.spaces import MadeTable
from walproof.advise.workload.table_keys import unique_keys
from walproof.facts.application import AppStatement

_FOUND_LEAST = 0.5
"""Rows of a call from which on the application asks for what is there."""


class Conditions:
    """The conditions of one statement."""

    def __init__(
        self,
        statement: AppStatement,
        read: ReadStatement,
        made: Mapping[str, MadeTable],
        *,
        finds_conflicts: bool,
    ) -> None:
        """``finds_conflicts``: whether what it inserts is there already."""
        self._read = read
        self._made = made
        self._finds_conflicts = finds_conflicts
        self.find_rows = statement.rows >= _FOUND_LEAST * statement.calls
        self._is_alone_in_it = " from " not in f" {' '.join(statement.query.lower().split())} "
        """Whether an UPDATE names no other table, subquery or list of rows."""
        self._by_place: dict[tuple[str, str], list[Parameter]] = defaultdict(list)
        """(table, place) -> conditions of the same row, in the order of the statement."""
        for each in sorted(read.parameters, key=lambda each: each.number):
            if each.table is not None and self.is_one(each):
                self._by_place[(each.table.name, each.place)].append(each)

    def is_one(self, parameter: Parameter) -> bool:
        """Whether it is one value that a column of the rows that are wanted has."""
        if parameter.is_list or parameter.is_array or parameter.column is None or parameter.table is None:
            return False
        if parameter.part is Part.INSERTED and self._finds_conflicts:
            return any(parameter.column.name in key for key in unique_keys(parameter.table))
        return parameter.part is Part.EQUAL

    def is_alone(self, parameter: Parameter) -> bool:
        """Whether it names a row by itself."""
        assert parameter.table is not None, "a condition has its table"
        assert parameter.column is not None, "a condition has its column"
        return self._made[parameter.table.name].spaces[parameter.column.name].is_unique

    def row_of(self, parameter: Parameter) -> Parameter | None:
        """The parameter that names the row of which this one names another column."""
        is_condition = self.is_one(parameter) or parameter.part is Part.LIKE
        if parameter.table is None or not is_condition or self._comes_again(parameter):
            return None
        for place in _around(parameter.place):
            keys = self._keys(parameter.table.name, place)
            if keys:
                return None if keys[0] == parameter else keys[0]
        # Of a list of rows the last: (a, id) IN (($1, $2), ($3, $4)) AND b = $5.
        rows = f"{parameter.place}/row "
        listed = [self._keys(name, place)[:1] for name, place in self._by_place
                  if name == parameter.table.name and place.startswith(rows)]  # fmt: skip
        return next((keys[0] for keys in reversed(listed) if keys), None)

    def name_a_row(self, parameter: Parameter) -> bool:
        """Whether it is one of several conditions for the same rows, which calls find: combinations that are
        there, as those of a key of several columns."""
        is_first = self.is_one(parameter) and not self._comes_again(parameter)
        return is_first and self.find_rows and len(self._columns(parameter)) > 1

    def is_changed(self, parameter: Parameter) -> bool:
        """Whether an UPDATE changes what it asks for, of a row that it names: a version, a state."""
        is_plain = self._read.verb == "update" and self._is_alone_in_it and "/side " not in parameter.place
        if not (is_plain and parameter.part is Part.EQUAL and self.is_one(parameter) and self.find_rows):
            return False
        assert parameter.table is not None, "a condition has its table"
        assert parameter.column is not None, "a condition has its column"
        others = self._columns(parameter) - {parameter.column.name}
        is_named = any(set(key) <= others for key in unique_keys(parameter.table))
        if self.is_alone(parameter) or parameter.column.null_share > 0 or not is_named:
            return False
        return any(
            each.part in (Part.ASSIGNED, Part.ADDED)
            and each.table == parameter.table
            and each.column == parameter.column
            and each.place == parameter.place
            for each in self._read.parameters
        )

    def have_key(self, parameter: Parameter) -> bool:
        """Whether another condition names the rows, one or several, by their key."""
        return any(
            each.part is Part.EQUAL and each.column != parameter.column and self.is_alone(each)
            for each in self._read.parameters
            if each.table == parameter.table and each.place == parameter.place and each.column is not None
        )

    def _keys(self, table: str, place: str) -> list[Parameter]:
        return [each for each in self._by_place.get((table, place), []) if self.is_alone(each)]

    def _comes_again(self, parameter: Parameter) -> bool:
        """Whether the same column is compared before: ``id IN ($1, $2)`` is about two rows."""
        same = [each for each in self._beside(parameter) if each.column == parameter.column]
        return bool(same) and same[0] != parameter

    def _beside(self, parameter: Parameter) -> list[Parameter]:
        assert parameter.table is not None, "a condition has its table"
        return self._by_place.get((parameter.table.name, parameter.place), [])

    def _columns(self, parameter: Parameter) -> set[str]:
        return {each.column.name for each in self._beside(parameter) if each.column is not None}


def _around(place: str) -> list[str]:
    """The place, and those around the sides of OR that it lies in."""
    found, parts = [place], place.split("/")
    while len(parts) > 1 and parts[1].startswith("side "):
        del parts[1]
        found.append("/".join(parts))
    return found
