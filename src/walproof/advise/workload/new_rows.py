"""Values that no row of the start has: of new rows, and what is added to those of old ones."""

from __future__ import annotations

from walproof.advise.workload.naming import Unreadable
from walproof.advise.workload.schema import FRESH
from walproof.advise.workload.spaces import MadeTable, Space, rises
from walproof.advise.workload.values import NUMBERS, base_of
from walproof.facts.application import AppColumn

_SMALLINT_MOST = 32767
_DIGITS_LEAST = 6
"""A text shorter than this is soon full of numbers."""


def newest_number(column: AppColumn, space: Space, rows: int) -> str | None:
    """SQL of the number that a new row's value has where values rise with the rows on disk; else None."""
    kind = base_of(column.type)[0]
    if column.labels is not None or space.states is not None or not rises(column):
        return None
    is_time = kind == "date" or kind.startswith("timestamp")
    if 2 * space.size > rows and (is_time or kind in NUMBERS):
        return f"nextval('{FRESH}')"
    # Of a few numbers, each in many rows, a new row may have any; of a few times it has the last.
    return str(space.size) if is_time else None


def can_be_fresh(made: MadeTable, name: str) -> bool:
    """Whether the type of the column has values beyond those that rows have."""
    space = made.spaces[name]
    column = space.root
    kind, most, _ = base_of(column.type)
    if kind == "smallint":
        return not space.is_unique and 2 * space.size < _SMALLINT_MOST
    is_short = kind.startswith("character") and most is not None and most < _DIGITS_LEAST
    return column.labels is None and kind not in ("boolean", "date", "inet") and not is_short


def is_soon_there(made: MadeTable, name: str) -> bool:
    """Whether fresh values of the column begin again after a while."""
    return base_of(made.spaces[name].root.type)[0] == "smallint"


def is_ordered(column: AppColumn) -> bool:
    """Whether values of the column are in the order of their numbers: texts and uuids are not."""
    kind = base_of(column.type)[0]
    return kind in NUMBERS or kind == "date" or kind.startswith("timestamp")


def fresh_number(space: Space) -> str:
    """SQL of a number that no row has."""
    if base_of(space.root.type)[0] == "smallint":
        return f"{space.size + 1} + nextval('{FRESH}') % {_SMALLINT_MOST - 1 - space.size}"
    return f"nextval('{FRESH}')"


def added_to(column: AppColumn, type_: str | None) -> str:
    """SQL of what is added to a column, or multiplies it; ``type_``: of a cast that stands there.

    Raises Unreadable.
    """
    name = base_of(column.type)[0]
    if type_ == "interval":
        return "interval '1 second'"
    if name == "jsonb":
        return "'1'::text"
    if name in NUMBERS or name == "date":
        return "1"
    if name.startswith("time") or name == "interval":
        return "interval '1 second'"
    raise Unreadable(f"what is added to {column.name} was not understood")
