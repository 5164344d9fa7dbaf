"""What a parameter of a statement stands for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from walproof.facts.application import AppColumn, AppTable


class Part(Enum):
    """What a parameter does in its statement."""

    EQUAL = "equal"
    """It is compared with a column for equality."""
    UNEQUAL = "unequal"
    """Rows whose column is something else are wanted."""
    ABOVE = "above"
    """Rows whose column is above it are wanted."""
    BELOW = "below"
    LIKE = "like"
    INSERTED = "inserted"
    ASSIGNED = "assigned"
    ADDED = "added"
    """It is added to something, or multiplies it."""
    LIMIT = "limit"
    OFFSET = "offset"
    CONSTANT = "constant"
    """It only has a type, or none."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a statement."""

    number: int
    part: Part
    table: AppTable | None = None
    column: AppColumn | None = None
    type: str | None = None
    """Type of a cast that stands at it, without brackets for an array."""
    is_array: bool = False
    is_list: bool = False
    """Several values of the column: ``= ANY ($1)``, or ``IN ($1)``, which stands for a list."""
    is_inclusive: bool = False
    """Whether rows with this very value are wanted, too: ``>=``, ``<=``, BETWEEN."""
    literal: str | None = None
    """What may stand in the place of a constant without a type; None if that is not clear."""
    place: str = ""
    """Which rows it belongs to, where a statement names several of a table: by subquery, alias, row of a list
    and side of OR. Parameters of one table and place are about the same row."""
