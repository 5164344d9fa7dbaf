"""Which row the conditions of a statement name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.advise.workload.parameters import ReadStatement
from walproof.advise.workload.parts import Parameter, Part
from walproof.advise.workload.spaces import MadeTable, unique_keys
from walproof.facts.application import AppStatement

_FOUND_LEAST = 0.5
"""Rows of a call from which on the application asks for what is there."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one statement."""

    statement: AppStatement
    read: ReadStatement
    made: Mapping[str, MadeTable]
    finds_conflicts: bool
    """Whether what it inserts is there already."""

    @property
    def _finds(self) -> bool:
        return self.statement.rows >= _FOUND_LEAST * self.statement.calls

    def is_one(self, parameter: Parameter) -> bool:
        """Whether it is one value that a column of the rows that are wanted has."""
        if parameter.is_list or parameter.is_array or parameter.column is None or parameter.table is None:
            return False
        if parameter.part is Part.INSERTED and self.finds_conflicts:
            return any(parameter.column.name in key for key in unique_keys(parameter.table))
        return parameter.part is Part.EQUAL

    def is_alone(self, parameter: Parameter) -> bool:
        """Whether it names a row by itself."""
        assert parameter.table is not None, "a condition has its table"
        assert parameter.column is not None, "a condition has its column"
        return self.made[parameter.table.name].spaces[parameter.column.name].is_unique

    def row_of(self, parameter: Parameter) -> Parameter | None:
        """The parameter that names the row of which this one names another column."""
        if not self.is_one(parameter) or self._comes_again(parameter):
            return None
        keys = [each for each in self._beside(parameter) if self.is_alone(each)]
        if not keys:
            # Of a list of rows the last: (a, id) IN (($1, $2), ($3, $4)) AND b = $5.
            rows = f"{parameter.place}/row "
            listed = [each for each in self._of_table(parameter) if each.place.startswith(rows)]
            keys = [each for each in listed if self.is_alone(each)][-1:]
        return None if not keys or keys[0] == parameter else keys[0]

    def name_a_row(self, parameter: Parameter) -> bool:
        """Whether it is one of several conditions for the same rows, which calls find: combinations that are
        there, as those of a key of several columns."""
        is_first = self.is_one(parameter) and not self._comes_again(parameter)
        return is_first and self._finds and len(self._columns(parameter)) > 1

    def is_changed(self, parameter: Parameter) -> bool:
        """Whether an UPDATE changes what it asks for, of a row that it names: a version, a state."""
        is_plain = self.read.verb == "update" and len(self.read.tables) == 1 and "side" not in parameter.place
        if not (is_plain and parameter.part is Part.EQUAL and self.is_one(parameter) and self._finds):
            return False
        assert parameter.table is not None, "a condition has its table"
        assert parameter.column is not None, "a condition has its column"
        others = self._columns(parameter) - {parameter.column.name}
        if parameter.column.null_share > 0 or not any(
            set(key) <= others for key in unique_keys(parameter.table)
        ):
            return False
        return any(
            each.part in (Part.ASSIGNED, Part.ADDED)
            and each.table == parameter.table
            and each.column == parameter.column
            and each.place == parameter.place
            for each in self.read.parameters
        )

    def have_key(self, parameter: Parameter) -> bool:
        """Whether another condition names the rows, one or several, by their key."""
        return any(
            each.part is Part.EQUAL and each.column != parameter.column and self.is_alone(each)
            for each in self.read.parameters
            if each.table == parameter.table and each.place == parameter.place and each.column is not None
        )

    def _comes_again(self, parameter: Parameter) -> bool:
        """Whether the same column is compared before: ``id IN ($1, $2)`` is about two rows."""
        same = [each for each in self._beside(parameter) if each.column == parameter.column]
        return bool(same) and same[0] != parameter

    def _beside(self, parameter: Parameter) -> list[Parameter]:
        """All conditions of the same row, in the order of the statement."""
        return [each for each in self._of_table(parameter) if each.place == parameter.place]

    def _of_table(self, parameter: Parameter) -> list[Parameter]:
        found = [each for each in self.read.parameters if each.table == parameter.table and self.is_one(each)]
        return sorted(found, key=lambda each: each.number)

    def _columns(self, parameter: Parameter) -> set[str]:
        return {each.column.name for each in self._beside(parameter) if each.column is not None}
