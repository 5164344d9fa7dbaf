"""How many values a column has, and which of them a row has.

Every column has numbered values (``values.py``). A row's number says which value each of its columns has, so
that keys are unique, foreign keys point to rows that are there, and values come as often as pg_stats says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from walproof.advise.workload.constant_defaults import constant_of
from walproof.advise.workload.skew import of_rows, rank, shares_of
from walproof.advise.workload.states import States, states_of
from walproof.advise.workload.table_keys import is_unique, pointed_to, rows_of, unique_keys
from walproof.advise.workload.values import NUMBERS, TEXTS, base_of, value
from walproof.analysis.working_set import Draws
from walproof.facts.application import AppColumn, AppTable
from walproof.sqltext import literal

_DISTINCT_UNKNOWN = 0.1
"""Share of the rows with a value of their own, where the server has no statistics."""
_DISTINCT_LEAST = 1000
ORDERED = 0.8
"""Correlation above which a column's values rise with the rows on disk."""
_DEPTH_MOST = 20
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Space:
    """The numbered values of a column."""

    size: int
    """How many values it has, at least 1."""
    number: str
    """SQL of the value's number in row ``i``."""
    is_unique: bool
    """Whether every row has a value of its own: by a key of this column alone, or by the statistics."""
    is_foreign: bool
    """Whether it points to another column by a foreign key of its own."""
    of: str
    """Name of the table whose rows a value stands for; empty for a column that is no key."""
    keys: int
    """How many values a parameter is drawn from: of a key, all rows of its table."""
    root: AppColumn
    """The column whose values they are: over foreign keys, the one at their end."""
    is_root_unique: bool
    """Whether two numbers must not have the same value: the column is part of a unique key."""
    first: int = 0
    """What is added to numbers, so that the first value is the column's default."""
    is_root: str = ""
    """SQL that is true for rows without a value: of those that point to rows of their own table, the first
    one; of those that need a row to themselves, all for which none is left. Empty where there is none."""
    default: str | None = None
    """The text that is the first value."""
    has_default: bool = False
    """Whether all rows have the column's default."""
    states: States | None = None
    """Its values, where they are few and the schema names some of them."""
    reach: int = 0
    """Of a foreign key, how many numbers it may have: the rows of the smallest table on the way to ``of``."""

    def value(self, e: str) -> str | None:
        """SQL of the e-th value; None for a type that is not known."""
        root = self.root
        if self.states is not None:
            return self.states.value(e, root)
        shifted = f"({e}) + {self.first}" if self.first else e
        made = value(root.type, shifted, root.width_bytes, labels_of(root), is_unique=self.is_root_unique)
        if self.default is None or made is None:
            return made
        return f"CASE WHEN {e} = 1 THEN {literal(self.default)} ELSE {made} END"


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table of the load."""

    table: AppTable
    rows: int
    spaces: Mapping[str, Space]
    """Column -> its values."""
    lost_keys: tuple[tuple[str, ...], ...]
    """Columns of unique keys that the made rows would break."""


def labels_of(column: AppColumn) -> tuple[str, ...] | None:
    """Labels of an enum in the order of its numbered values: first those that rows have."""
    if column.labels is None:
        return None
    used = tuple(label for label in column.usual if label is not None and label in column.labels)
    return used + tuple(label for label in column.labels if label not in used)


def rises(column: AppColumn) -> bool:
    """Whether a column's values rise with the rows on disk."""
    return column.correlation is not None and column.correlation >= ORDERED


def make_table(
    table: AppTable, tables: Mapping[str, AppTable], share: float, laws: Mapping[str, Draws] | None = None
) -> MadeTable:
    """The table with this share of its rows. ``tables``: those that foreign keys may point to, by name;
    ``laws``: table -> law by which its rows are drawn, as far as that is known."""
    rows = rows_of(table, tables, share)
    spaces = {
        column.name: _space(table, column, place, tables, share) for place, column in enumerate(table.columns)
    }
    for place, column in enumerate(table.columns):
        space = spaces[column.name]
        draws = None if laws is None else laws.get(space.of)
        if draws is not None and _may_be_skewed(table, column, space, tables):
            values = tables[space.of].rows if space.is_foreign else _distinct(column, table.rows)
            law, share_by_law = of_rows(draws, values, shares_of(column))
            if (hot := round(rows * share_by_law)) > 0:
                spaces[column.name] = _skewed(space, law, rows, hot, place)
    lost: list[tuple[str, ...]] = []
    rising = {column.name for column in table.columns if rises(column)}
    spread: list[tuple[str, ...]] = []
    """Keys whose columns have numbers of the key's own."""
    for names in unique_keys(table):
        is_spread = len(names) == 1 or any(spaces[name].is_unique for name in names)
        is_spread = is_spread or any(set(key) <= set(names) for key in spread)
        if not is_spread and not any(set(key) & set(names) for key in spread):
            is_spread = _spread(spaces, names, rows, rising)
            spread += [names] * is_spread
        if not is_spread or not all(_has_room(spaces[name]) for name in names):
            lost.append(names)
    # A text that is too short for its numbers is cut, and its values are not apart.
    spaces = {name: space if _has_room(space) else replace(space, is_root_unique=False)
              for name, space in spaces.items()}  # fmt: skip
    return MadeTable(table, rows, spaces, tuple(lost))


def scattered(i: str, size: int) -> str:
    """SQL of a number from 1 to ``size``: every number equally often, neighbours far apart."""
    return f"1 + ({i} * {step_of(size)}) % {size}"


def step_of(size: int) -> int:
    """A step near the golden section of ``size`` that has no divisor in common with it."""
    step = max(1, round(size * _GOLDEN))
    while math.gcd(step, size) != 1:
        step += 1
    return step


def row_with(space: Space, number: str) -> str:
    """SQL of the row that has the value with this number, in a column whose values are those of one row."""
    if space.number != scattered("i", space.size):
        return number
    back = pow(step_of(space.size), -1, space.size) if space.size > 1 else 0
    return f"(1 + (({number} - 1) * {back} + {space.size - 1}) % {space.size})"


def _space(
    table: AppTable, column: AppColumn, place: int, tables: Mapping[str, AppTable], share: float
) -> Space:
    rows = rows_of(table, tables, share)
    if (states := states_of(table, column)) is not None:
        return _of_states(states, column, rows, place)
    alone = is_unique(table, column.name) or _is_unique_within(table, column, tables)
    size = rows if alone else _distinct(column, rows)
    at_table, at_column = table, column
    reaches: list[int] = []
    for _ in range(_DEPTH_MOST):
        other = pointed_to(at_table, at_column.name, tables)
        if other is None or other == (at_table, at_column):
            break
        at_table, at_column = other
        reaches.append(rows_of(at_table, tables, share))
    reach = min(reaches, default=size)
    size = reach if column.distinct is None and not alone else min(size, reach)
    is_foreign = at_column is not column
    is_key = alone or is_foreign
    first = _first_of_default(column) if size == 1 and not is_key else None
    number, is_root = _number(column, size, rows, place, is_unique=alone), ""
    if is_foreign and at_table is table and not (alone and column.not_null):
        number, is_root = _earlier(_number(at_column, rows, rows, 0, is_unique=True), size, rows)
    elif is_foreign and alone and size < rows:
        is_root = f"i > {size}"
    return Space(
        size=size,
        number=number,
        is_unique=alone,
        is_foreign=is_foreign,
        of=at_table.name if is_key or _is_indexed(table, column) else "",
        keys=rows_of(at_table, tables, share) if is_key else size,
        root=at_column,
        is_root_unique=any(at_column.name in key for key in unique_keys(at_table)),
        first=first if isinstance(first, int) else 0,
        is_root="" if column.not_null else is_root,
        default=first if isinstance(first, str) else None,
        has_default=first is not None,
        reach=reach,
    )


def _of_states(states: States, column: AppColumn, rows: int, place: int) -> Space:
    size, newest = len(states.names), states.newest_share
    shares = dict(enumerate(states.shares, start=1))
    old = rows - round(rows * newest)
    if old < rows and states.default is not None:
        del shares[states.default]
    bounds = [round(old * below / (1 - newest)) for below in accumulate(shares.values())]
    number = _by_share(bounds[:-1], old, place, tuple(shares))
    return Space(
        size=size,
        number=number if old == rows else f"CASE WHEN i > {old} THEN {states.default} ELSE {number} END",
        is_unique=False,
        is_foreign=False,
        of="",
        keys=size,
        root=column,
        is_root_unique=False,
        states=states,
    )


def _may_be_skewed(table: AppTable, column: AppColumn, space: Space, tables: Mapping[str, AppTable]) -> bool:
    """Whether nothing else says which rows have which value: a key, labels, an order, a partition, a tree, a
    table between this one and the one whose rows are drawn."""
    is_in_key = space.is_unique or any(column.name in key for key in unique_keys(table))
    is_named = column.labels is not None or column.type == "boolean" or space.states is not None
    is_placed = _is_ordered(column) or column.name in table.partition_columns
    other = pointed_to(table, column.name, tables)
    is_far = space.is_foreign and (other is None or other[0].name != space.of or space.of == table.name)
    is_filled = column.null_share < 1 and space.size > 1
    return is_filled and not (is_in_key or is_named or is_placed or is_far)


def _skewed(space: Space, draws: Draws, rows: int, hot: int, place: int) -> Space:
    """The values of ``hot`` rows come by the law, as parameters are drawn, those of the others evenly."""
    size, order = space.keys, _order(rows, place)
    ranked = rank(draws, size, f"((({order}) + 0.5::float8) / {hot})")
    number = ranked if draws.is_adjacent else f"1 + ({ranked} * {step_of(size)}) % {size}"
    if space.is_foreign:
        # What is drawn is a row of the other table, which has its key's number.
        of_row = _number(space.root, size, size, 0, is_unique=True)
        number = re.sub(r"\bi\b", f"({number})", of_row)
    if hot < rows:
        number = (
            f"CASE WHEN {order} < {hot} THEN {number} "
            f"ELSE 1 + (({order}) - {hot}) * {space.size} / {rows - hot} END"
        )
    return replace(space, number=number, size=size)


def _first_of_default(column: AppColumn) -> int | str | None:
    """What is added to numbers so that value 1 is the default, or the default's text; None where the default
    is no constant of a known type."""
    text = constant_of(column.default)
    if text is None:
        return None
    labels = labels_of(column)
    if labels is not None:
        return labels.index(text) if text in labels else None
    kind = base_of(column.type)[0]
    if kind == "boolean":
        return {"true": 0, "false": 1}.get(text)
    if kind in NUMBERS:
        return int(text) - 1 if _WHOLE.fullmatch(text) else None
    return text if kind in TEXTS else None


def _has_room(space: Space) -> bool:
    """Whether the type has a value for each number."""
    kind, most, _ = base_of(space.root.type)
    is_text = kind in ("character", "character varying") and space.root.labels is None
    return not is_text or most is None or space.size < 16**most


def _is_unique_within(table: AppTable, column: AppColumn, tables: Mapping[str, AppTable]) -> bool:
    """Whether a column of a longer key has another value in each row: ``id`` of a key (id, at)."""
    is_apart = column.is_identity or column.distinct == -1.0
    in_key = any(column.name in key for key in unique_keys(table))
    return is_apart and in_key and pointed_to(table, column.name, tables) is None


def _is_indexed(table: AppTable, column: AppColumn) -> bool:
    return any(names[:1] == (column.name,) for names, _ in table.index_pages)


def _distinct(column: AppColumn, rows: int) -> int:
    known = column.distinct
    if column.labels:
        counted = known if known is not None and known > 0 else len(column.labels)
        return max(1, min(round(counted), len(column.labels)))
    if not known:
        return max(_DISTINCT_LEAST, round(rows * _DISTINCT_UNKNOWN))
    # A count holds for a part of the rows, too; a share goes with the rows.
    return max(1, min(rows, round(known if known > 0 else -known * rows)))


def _is_ordered(column: AppColumn) -> bool:
    return column.correlation is not None and abs(column.correlation) >= ORDERED


def _number(column: AppColumn, size: int, rows: int, place: int, *, is_unique: bool) -> str:
    is_ordered = _is_ordered(column)
    if is_unique:
        rises = is_ordered or column.is_identity or column.correlation is None
        return "i" if rises else scattered("i", size)
    if (bounds := _bounds(column, size, rows)) is not None:
        return _by_share(bounds, rows, place)
    if is_ordered and rows >= size:
        return f"1 + (i - 1) * {size} / {rows}"
    return _apart(size, rows, place)


def _bounds(column: AppColumn, size: int, rows: int) -> list[int] | None:
    """How many of the rows have the first value, the first two, ... all but the last; None where that is not
    known."""
    shares = dict(zip(column.usual, column.usual_shares, strict=False))
    names = labels_of(column) if column.labels is not None else ("t", "f") if column.type == "boolean" else ()
    if size < 2 or not names or not shares:
        return None
    known = [shares.get(name, 0.0) for name in names[:size]]
    return [round(rows * sum(known[: n + 1]) / sum(known)) for n in range(size - 1)] if sum(known) else None


def _by_share(bounds: Sequence[int], rows: int, place: int, numbers: Sequence[int] = ()) -> str:
    """SQL of the number of a row's value: the first for so many rows, the second up to the next bound, ...
    ``numbers``: 1, 2, ... where they are not given."""
    numbers = numbers or range(1, len(bounds) + 2)
    if not bounds:
        return str(numbers[0])
    order = _order(rows, place)
    cases = " ".join(
        f"WHEN {order} < {bound} THEN {number}" for number, bound in zip(numbers, bounds, strict=False)
    )
    return f"CASE {cases} ELSE {numbers[-1]} END"


def _order(rows: int, place: int) -> str:
    """SQL of the row's place, from 0, in an order of all rows that no column at another place has.

    Square roots of different primes have no ratio that is a fraction, or near one with a small denominator.
    """
    step = max(1, round(rows * (math.sqrt(_prime(place)) % 1)))
    while math.gcd(step, rows) != 1:
        step += 1
    return f"i * {step} % {rows}"


@cache
def _prime(place: int) -> int:
    """The prime number at this place, from 0."""
    number, left = 1, place + 1
    while left:
        number += 1
        left -= all(number % each for each in range(2, math.isqrt(number) + 1))
    return number


def _apart(size: int, rows: int, place: int) -> str:
    """SQL of a number from 1 to ``size``, each equally often, that tells nothing about that of a column at
    another place: all rows are put into an order of the column's own, and that is cut into parts.

    A remainder of the row's number would not do: where two sizes have a divisor in common, one tells the
    other.
    """
    return f"1 + ({_order(rows, place)}) * {size} / {rows}"


def _earlier(own: str, size: int, rows: int) -> tuple[str, str]:
    """(SQL of the number of a row before the row with number ``own``, whether it is the first row).

    A row that pointed to itself or to a later one would close a circle, which WITH RECURSIVE never leaves.
    """
    return f"greatest(1, 1 + ({own} - 2) * {size} / {rows})", f"{own} = 1"


def _widen(spaces: dict[str, Space], names: Sequence[str], rows: int) -> None:
    """Let columns that all point to other tables have more values than their statistics estimate, as far as
    rows are there to point to: that the key is unique is known, and n_distinct is an estimate."""
    for name in sorted(names, key=lambda name: -spaces[name].reach):
        pairs = math.prod(spaces[each].size for each in names)
        if pairs >= rows:
            return
        wanted = -(-rows * spaces[name].size // pairs)
        spaces[name] = replace(spaces[name], size=max(spaces[name].size, min(spaces[name].reach, wanted)))


def _spread(spaces: dict[str, Space], names: Sequence[str], rows: int, rising: Collection[str]) -> bool:
    """Give the columns of a key numbers that no two rows share; False if there are too few.

    The columns count like the digits of a number; the last that points to no other table takes the rest.
    """
    free = [name for name in names if not spaces[name].is_foreign]
    last = free[-1] if free else names[-1]
    if not free:
        _widen(spaces, names, rows)
    below = 1
    for name in names:
        if name != last:
            size = spaces[name].size
            # Where rows end before all values have come, others begin elsewhere.
            start = f" + {_start(below)}" if below > 1 and below * size > rows else ""
            spaces[name] = replace(spaces[name], number=f"1 + ((i - 1) / {below}{start}) % {size}")
            below = min(below * size, max(rows, 1))
    rest = max(1, -(-rows // below))
    size = spaces[last].size
    if not free and rest > size:
        return False
    if below == 1 or size <= rest or last in rising:
        spaces[last] = replace(spaces[last], number=f"1 + (i - 1) / {below}", size=rest)
        return True
    # Rows that are alike in the others go on from a place of their own, so that all values come.
    number = f"1 + ((i - 1) / {below} + {_start(below)}) % {size}"
    spaces[last] = replace(spaces[last], number=number)
    return True


def _start(below: int) -> str:
    """SQL of where rows that are alike in the columns before begin to count, neighbours far apart."""
    return f"(i - 1) % {below} * {step_of(below)}"
