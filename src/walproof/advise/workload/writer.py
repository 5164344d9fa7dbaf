"""The text of a statement in a script, with drawn values for its parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from walproof.advise.workload.children import NewKey, NewRows
from walproof.advise.workload.conditions import Conditions
from walproof.advise.workload.naming import Unreadable
from walproof.advise.workload.new_rows import (
    added_to,
    can_be_fresh,
    fresh_number,
    is_ordered,
    is_soon_there,
    newest_number,
)
from walproof.advise.workload.parts import Parameter, Part
from walproof.advise.workload.schema import FRESH, key_sequence, stands_for, typed
from walproof.advise.workload.script_text import guarded, without_variables
from walproof.advise.workload.spaces import MadeTable, Space, row_with, step_of
from walproof.advise.workload.table_keys import unique_keys
from walproof.advise.workload.transactions import Member
from walproof.advise.workload.values import base_of, value
from walproof.analysis.working_set import Draws, Law
from walproof.errors import SqlError
from walproof.facts.application import AppColumn, AppStatement, AppTable
from walproof.sqltext import quoted, statement, tokens

_LIST_MOST = 100
"""Values of a list, at most."""
_CONSTANTS = 1_000_000
"""Values of a type that belongs to no column."""
_LAWS = {Law.ZIPF: "zipfian", Law.EXPONENTIAL: "exponential"}
_NEW_LEAST = 0.5
"""Share of the rows of ON CONFLICT DO NOTHING from which on they are taken for new ones."""
_THOUSAND = 1000
_ALL_NULL = 995  # of a thousand rows
_ARGUMENTS_MOST = 255
"""MAX_ARGS of pgbench.c, less the name of the statement."""
_VARIABLE = re.compile(r"(?<!:):(?:v[0-9]+|new[0-9]+_[A-Za-z0-9_]+)")
_MARK = "walproof_parameter_"
_MARKED = re.compile(rf"\b{_MARK}([0-9]+)_")


@dataclass(frozen=True, slots=True)
class Drawing:
    """How rows are drawn."""

    made: Mapping[str, MadeTable]
    """The tables by name."""
    laws: Mapping[str, Draws]
    """Table -> how its rows are drawn; even, without an entry."""
    inserting: frozenset[AppStatement] = frozenset()
    """Upserts of which most rows are new."""


@dataclass(slots=True)
class Drawn:
    """A row that a transaction has drawn."""

    variable: str
    by: set[tuple[str, str]]
    """(verb, table) of the statements that use it: the same again is about another row."""
    is_kept: bool = False
    """Whether what the transaction calls several times is about it each time."""


class Writer:
    """Writes one statement."""

    def __init__(
        self,
        member: Member,
        drawing: Drawing,
        rows: dict[str, Drawn],
        draws: list[str],
        new: NewRows,
    ) -> None:
        self._statement = member.statement
        self._read = member.read
        self._is_repeated = member.times > 1
        self._drawing = drawing
        self._drawn = rows
        self._draws = draws
        self._new = new
        self._keys: dict[int, str] = {}
        """Parameter -> number of the row that it names."""
        self._whole: dict[tuple[str, str], str] = {}
        """(table, place) -> number of the row that several conditions name together."""
        self._conditions = Conditions(
            member.statement, member.read, drawing.made, finds_conflicts=self._finds_conflicts
        )
        self._lows: dict[tuple[str, str], str] = {}
        """(table, column) -> variable of the lower end of a range."""
        self._lengths: dict[tuple[str, str], int] = {}
        """Likewise -> what is added to it for an upper end that belongs to the range."""

    @property
    def _rows(self) -> int:
        """Rows that a call returns or changes."""
        return max(1, round(self._statement.rows / max(1.0, self._statement.calls)))

    @property
    def _finds_conflicts(self) -> bool:
        """Whether what it inserts is there already: DO NOTHING counts the rows that are new."""
        if self._read.has_conflict and self._read.passes_over:
            return self._statement.rows < _NEW_LEAST * self._statement.calls * self._read.tuples
        return self._read.has_conflict and self._statement not in self._drawing.inserting

    def text(self) -> str:
        """The statement. Raises Unreadable."""
        # Keys first: what else is asked of their rows is of the same rows.
        parameters = sorted(
            self._read.parameters, key=lambda each: (self._conditions.row_of(each) is not None, each.number)
        )
        values = {parameter.number: self._value(parameter) for parameter in parameters}
        query = self._read.query
        marked = "".join(
            f"{_MARK}{token.text[1:]}_"
            if token.kind == "number" and token.text.startswith("$")
            else " " if token.kind in ("comment", "space") else token.text
            for token in tokens(query)
        )  # fmt: skip
        try:
            safe = statement(marked)
        except SqlError as error:
            raise Unreadable(f"its text cannot stand in a script: {error}") from None
        safe = without_variables(_MARKED.sub(lambda match: values.get(int(match[1]), match[0]), safe))
        if _MARK in safe:
            raise Unreadable("a parameter of it was not understood")
        if len(_VARIABLE.findall(safe)) > _ARGUMENTS_MOST:
            raise Unreadable(
                f"it has more than {_ARGUMENTS_MOST} values, which pgbench does not pass at once"
            )
        ends = self._new.end(self._read, is_sure=not self._guards)
        return (guarded(safe) if self._guards else safe).removesuffix(";") + ends

    @property
    def _guards(self) -> bool:
        """Whether a key of drawn values may be there already: the session would end with the error."""
        read = self._read
        if read.verb != "insert" or read.target is None or read.has_conflict:
            return False
        made = self._drawing.made[read.target.name]
        names = {column.name for column in read.inserted}
        fresh = {
            parameter.column.name
            for parameter in read.parameters
            if parameter.part is Part.INSERTED
            and parameter.column is not None
            and not is_soon_there(made, parameter.column.name)
            and any(self._is_fresh(made, parameter.column.name, key) for key in unique_keys(read.target))
        }
        return any(
            set(key) <= names and not fresh & set(key) and not self._is_made_new(read.target, key)
            for key in unique_keys(read.target)
        )

    def _is_made_new(self, table: AppTable, key: tuple[str, ...]) -> bool:
        """Whether the statement makes a value for the key that no row has: a uuid, the time of the call.

        ON CONFLICT costs WAL: each row is inserted tentatively and then confirmed.
        """
        drawn = {each.column.name for each in self._read.parameters
                 if each.part is Part.INSERTED and each.column is not None}  # fmt: skip
        kinds = {
            base_of(column.type)[0]
            for column in table.columns
            if column.name in key and column.name not in drawn
        }
        is_moment = any(kind.startswith("timestamp") for kind in kinds)
        # Several rows of one call have the same now().
        is_one = self._rows == 1 or "clock_timestamp" in self._statement.query.lower()
        return "uuid" in kinds or (is_moment and is_one)

    def _value(self, parameter: Parameter) -> str:
        """SQL of a value for the parameter. Raises Unreadable."""
        if parameter.part is Part.LIMIT:
            return str(self._rows)
        if parameter.part is Part.OFFSET:
            return "0"
        if parameter.column is None or parameter.table is None:
            return self._constant(parameter)
        space = self._drawing.made[parameter.table.name].spaces[parameter.column.name]
        if parameter.part is Part.ADDED:
            return added_to(parameter.column, parameter.type)
        is_whole = parameter.column.type.endswith("[]") and not parameter.is_list
        if (parameter.is_list or parameter.is_array) and not is_whole:
            return self._several(parameter, parameter.column, space)
        if parameter.part is Part.INSERTED:
            return self._inserted(parameter, parameter.column, space)
        if parameter.part is Part.ASSIGNED and space.is_unique:
            raise Unreadable(f"it changes the unique column {parameter.column.name}")
        if parameter.part in (Part.ABOVE, Part.BELOW):
            return self._bound(parameter, parameter.column, space)
        if space.has_default and (parameter.part is Part.ASSIGNED or self._deletes_others(parameter)):
            # What is the default in all rows becomes something else, and that is what is deleted.
            return typed(parameter.column, space, "2")
        if self._conditions.is_changed(parameter):
            # Whoever writes back what was read finds it; in a script the next run would not.
            return quoted(parameter.column.name)
        drawn = typed(parameter.column, space, self._number_in(parameter, space))
        if parameter.part is Part.LIKE:
            return f"(left(({drawn})::text, 6) || '%')"
        return drawn

    def _number_in(self, parameter: Parameter, space: Space) -> str:
        """Number of the column's value in the row that is wanted, where the statement names a row."""
        conditions = self._conditions
        row = conditions.row_of(parameter)
        if row is not None:
            return _of_row(space, self._keys[row.number])
        if space.states is not None and (space.states.wanted or not conditions.name_a_row(parameter)):
            return self._one_of(space.states.choices(parameter.part))
        is_one = conditions.is_one(parameter)
        if is_one and conditions.is_alone(parameter):
            number, self._keys[parameter.number] = self._key(space)
            return number
        if conditions.name_a_row(parameter):
            assert parameter.table is not None, "a condition has its table"
            place = (parameter.table.name, parameter.place)
            if place not in self._whole:
                name = parameter.table.name
                self._whole[place] = self._shared(f"row of {name}", self._drawing.made[name].rows, name)
            return _of_row(space, self._whole[place])
        return self._found(space) if is_one and conditions.find_rows else self._number(space)

    def _one_of(self, choices: Mapping[int, float]) -> str:
        """One of the numbers, by their weights."""
        *firsts, last = choices
        if not firsts:
            return str(last)
        drawn, below, cases = self._draw(_THOUSAND), 0.0, []
        for number in firsts:
            below += _THOUSAND * choices[number] / sum(choices.values())
            cases.append(f"WHEN {drawn} <= {round(below)} THEN {number}")
        return f"CASE {' '.join(cases)} ELSE {last} END"

    def _key(self, space: Space) -> tuple[str, str]:
        """(number of a value that one row has, that row)."""
        if space.is_foreign:
            number = self._found(space)
            return number, row_with(space, number)
        row = self._shared(space.of, space.keys, space.of)
        return _of_row(space, row), row

    def _found(self, space: Space) -> str:
        """A number for a value that rows have: not all that a foreign key may point to."""
        is_apart = space.of not in self._drawn or space.reach < space.keys
        if space.is_foreign and is_apart and space.size < space.keys:
            return self._draw(space.size, space.of)
        return self._number(space)

    def _deletes_others(self, parameter: Parameter) -> bool:
        """Whether it is all that a DELETE asks for, which took few of the rows: none of those that are
        there."""
        assert parameter.table is not None, "a column has its table"
        is_all = len(self._read.parameters) == 1 and " and " not in self._statement.query.lower()
        return self._read.verb == "delete" and is_all and 2 * self._rows < parameter.table.rows

    def _shared(self, what: str, size: int, of: str) -> str:
        """A number from 1 to ``size`` that the transaction has drawn, or another."""
        by = (self._read.verb, "" if self._read.target is None else self._read.target.name)
        known = self._drawn.get(what)
        if known is not None and (by not in known.by or (known.is_kept and self._is_repeated)):
            known.by.add(by)
            return known.variable
        variable = self._draw(size, of)
        self._drawn[what] = Drawn(variable, {by}, is_kept=not self._is_repeated)
        return variable

    def _number(self, space: Space) -> str:
        """A number for a value of the column."""
        is_key = space.is_unique or space.is_foreign
        if space.size == 1 and not is_key:
            # The server proves that a partial index holds its rows from a constant, not from a parameter.
            return "1"
        if not is_key:
            return self._draw(space.size, space.of)
        if space.is_foreign and space.reach < space.keys:
            # Rows of a table on the way, of which the last one has more.
            return self._draw(space.reach, space.of)
        # What is shared is the row that is pointed to, whatever its key's number.
        row = self._shared(space.of, space.keys, space.of)
        return _of_row(self._drawing.made[space.of].spaces[space.root.name], row)

    def _draw(self, size: int, of: str = "") -> str:
        r"""A ``\set`` of a number from 1 to ``size``, drawn like rows of table ``of``; how SQL names it."""
        name = f"v{len(self._draws) + 1}"
        draws = self._drawing.laws.get(of, Draws())
        if draws.law is Law.EVEN or size < 2:
            self._draws.append(rf"\set {name} random(1, {size})")
        else:
            rank = f"random_{_LAWS[draws.law]}(1, {size}, {draws.parameter:.4g})"
            scattered = f"1 + ({rank} * {step_of(size)}) % {size}"
            self._draws.append(rf"\set {name} {rank if draws.is_adjacent else scattered}")
        return f":{name}::bigint"

    def _constant(self, parameter: Parameter) -> str:
        if parameter.type is None:
            if parameter.literal is None:
                raise Unreadable(f"of what type ${parameter.number} is was not understood")
            return parameter.literal
        if parameter.type.startswith("interval"):
            return "interval '1 hour'"
        first = self._draw(_CONSTANTS)
        count = min(_LIST_MOST, self._rows) if parameter.is_array else 1
        made = [value(parameter.type, f"{first} + {n}" if n else first) for n in range(count)]
        known = [each for each in made if each is not None]
        if not known:
            raise Unreadable(f"no value of type {parameter.type} can be made")
        return f"ARRAY[{', '.join(known)}]::{parameter.type}[]" if parameter.is_array else known[0]

    def _several(self, parameter: Parameter, column: AppColumn, space: Space) -> str:
        count = max(1, min(_LIST_MOST, self._rows))
        is_new = parameter.part is Part.INSERTED
        assert parameter.table is not None, "a column has its table"
        parent = self._new.parent(parameter.table, column) if is_new else None
        is_fresh = is_new and space.is_unique
        if parent is not None:
            items = [_key_of(parent, column, space)] * count
        elif space.states is not None and not is_new:
            items = [typed(column, space, str(n)) for n in space.states.choices(parameter.part)]
        else:
            first = f"nextval('{FRESH}')" if is_fresh else self._number(space)
            items = [
                typed(column, space, first if not n or is_fresh else _next(first, n, space.size))
                for n in range(count)
            ]
        if parameter.is_array:
            return f"ARRAY[{', '.join(items)}]::{stands_for(column)}[]"
        return ", ".join(items)

    def _inserted(self, parameter: Parameter, column: AppColumn, space: Space) -> str:
        assert parameter.table is not None, "a column has its table"
        made = self._drawing.made[parameter.table.name]
        keys = [key for key in unique_keys(parameter.table) if column.name in key]
        fresh = any(self._is_fresh(made, column.name, key) for key in keys)
        if (parent := self._new.parent(parameter.table, column)) is not None:
            return _key_of(parent, column, space)
        # What conflicts is updated: then it has to be there.
        if fresh and not self._finds_conflicts:
            if space.is_unique and self._new.wants(self._read, column):
                # Known, so that the rows that point to it can name it.
                table = parameter.table
                place = list(self._drawing.made).index(table.name) + 1, table.columns.index(column) + 1
                number = self._new.draw(table, column, self._draws, key_sequence(*place))
                return typed(column, space, number)
            return typed(column, space, fresh_number(space))
        # The rest of a key that another column makes unique is new, too.
        is_rest = not self._finds_conflicts and all(
            any(made.spaces[name].is_unique for name in key) for key in keys
        )
        is_free = not space.is_foreign and (not keys or is_rest)
        newest = newest_number(column, space, made.rows) if is_free else None
        number = newest if newest is not None else self._number_in(parameter, space)
        made_value = typed(column, space, number)
        return (
            made_value
            if keys or self._finds_conflicts
            else self._or_null(made_value, parameter.table, column)
        )

    def _or_null(self, made_value: str, table: AppTable, column: AppColumn) -> str:
        """The value of a new row, or NULL, as often as rows have none."""
        is_free = not column.not_null and column.name not in table.partition_columns
        if not is_free or column.null_share <= 0:
            return made_value
        null = f"NULL::{stands_for(column)}"
        thousandth = round(_THOUSAND * column.null_share)
        if thousandth >= _ALL_NULL:
            return null
        return f"CASE WHEN {self._draw(_THOUSAND)} <= {thousandth} THEN {null} ELSE {made_value} END"

    def _is_fresh(self, made: MadeTable, name: str, key: tuple[str, ...]) -> bool:
        """Whether an INSERT gives this column of a key a value that no row has."""
        free = [each for each in key if not made.spaces[each].is_foreign]
        alone = [each for each in free if made.spaces[each].is_unique]
        return bool(free) and name == (alone or free)[-1] and can_be_fresh(made, name)

    @property
    def _has_limit(self) -> bool:
        return any(each.part is Part.LIMIT for each in self._read.parameters)

    def _wanted(self, table: AppTable, space: Space) -> int:
        """How many values a range of the column has, for as many rows as a call returns.

        What else is asked of the rows leaves fewer of them in each value.
        """
        made = self._drawing.made[table.name]
        same = [each.column for each in self._read.parameters
                if each.table == table and self._conditions.is_one(each)]  # fmt: skip
        names = {column.name for column in same if column is not None}
        apart = min(made.rows, math.prod(made.spaces[name].size for name in names))
        return max(1, min(space.size, round(self._rows * apart * space.size / made.rows)))

    def _bound(self, parameter: Parameter, column: AppColumn, space: Space) -> str:
        assert parameter.table is not None, "a column has its table"
        place = (parameter.table.name, column.name)
        wanted = self._wanted(parameter.table, space)
        beyond = not parameter.is_inclusive
        others = [
            each for each in self._read.parameters
            if each.part is Part.BELOW and each.table == parameter.table and each.column == column
        ]  # fmt: skip
        if parameter.part is Part.ABOVE and others:
            # Both ends of a range: so many values lie between them that so many rows are found.
            wanted = max(1, min(space.size - 1, wanted))
            self._lows[place] = self._draw(max(1, space.size - wanted), space.of)
            self._lengths[place] = wanted - 1 + beyond
            return typed(column, space, self._lows[place])
        if place in self._lows:
            length = self._lengths[place] + beyond
            return typed(column, space, f"{self._lows[place]} + {length}" if length else self._lows[place])
        is_now = self._has_limit and parameter.number in self._read.clocks
        if (is_now and parameter.part is Part.BELOW) or self._conditions.have_key(parameter):
            # Rows that are named by their key have such values; of those before now the limit takes some.
            wanted = space.size
        elif self._has_limit and not is_now and is_ordered(column) and wanted < space.size:
            # Calls go on where another has ended; how many rows are found says the limit.
            number = self._draw(space.size - wanted, space.of)
            return typed(column, space, number if parameter.part is Part.ABOVE else f"{number} + {wanted}")
        if parameter.part is Part.ABOVE:
            return typed(column, space, str(space.size - wanted + (not beyond)))
        return typed(column, space, str(wanted + beyond))


def _key_of(parent: NewKey, column: AppColumn, space: Space) -> str:
    """SQL of what points to a new row."""
    return f"{parent.sql}::{stands_for(column)}" if parent.is_value else typed(column, space, parent.sql)


def _of_row(space: Space, row: str) -> str:
    """SQL of the number of the column's value in a row."""
    return re.sub(r"\bi\b", row, space.number)


def _next(first: str, n: int, size: int) -> str:
    return f"1 + ({first} + {n * max(1, size // 97)}) % {size}"
