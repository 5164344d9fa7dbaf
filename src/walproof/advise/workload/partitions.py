"""The partitions of a load's tables.

A table by ranges gets as many ranges of equally many rows; what is newer than all rows goes into the last, as
what an application inserts goes into its newest partition. Others are by hash: how many pages and indexes a
change touches is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from walproof.advise.workload.spaces import MadeTable
from walproof.advise.workload.values import base_of
from walproof.facts.application import AppColumn
from walproof.sqltext import quoted

_MOST = 100
_STEM_BYTES = 48
_RISING = {
    "smallint": 32_000, "integer": 2_000_000_000, "bigint": 1 << 60, "real": 16_000_000,
    "double precision": 1 << 50, "date": 20_000, "timestamp without time zone": 1 << 31,
    "timestamp with time zone": 1 << 31,
}  # fmt: skip
"""Types whose values rise with their numbers, up to that number."""
_HASHED = (
    *_RISING,
    "numeric",
    "text",
    "character varying",
    "character",
    "uuid",
    "bytea",
    "boolean",
    "interval",
)


@dataclass(frozen=True, slots=True)
class Partitions:
    """How a table of the load is partitioned."""

    clause: str
    """``PARTITION BY RANGE ("at")``."""
    bounds: tuple[str, ...]
    """``FOR VALUES ...`` of each partition."""
    note: str | None
    """What differs from the application."""

    def tables(self, made: MadeTable) -> Iterator[str]:
        """SQL that makes the partitions."""
        schema = quoted(made.table.schema)
        # The server cuts names after 63 bytes.
        stem = made.table.relation.encode()[:_STEM_BYTES].decode(errors="ignore")
        for number, bound in enumerate(self.bounds, start=1):
            name = quoted(f"{stem}_part{number}")
            yield f"CREATE TABLE {schema}.{name} PARTITION OF {made.table.name} {bound};"


def partitions_of(made: MadeTable, replaced: frozenset[str]) -> Partitions | None:
    """The partitions of a table; None for one that has none, here or in the application.

    ``replaced``: columns of which bytea takes the place.
    """
    table = made.table
    count = min(_MOST, table.partitions)
    columns = {column.name: column for column in table.columns}
    key = [columns[name] for name in table.partition_columns if name in columns]
    if count < 2 or not key:
        return None
    if table.partitioned_by == "r" and (ranges := _ranges(made, key[0], count)) is not None:
        return ranges
    if not all(column.name in replaced or _has_hash(column) for column in key):
        return None
    names = ", ".join(quoted(column.name) for column in key)
    bounds = tuple(f"FOR VALUES WITH (MODULUS {count}, REMAINDER {number})" for number in range(count))
    kinds = {"r": "ranges", "l": "lists"}
    kind = kinds.get(table.partitioned_by)
    note = None if kind is None else f"{table.name} is partitioned by {kind}; here it is by hash."
    return Partitions(f"PARTITION BY HASH ({names})", bounds, note)


def _has_hash(column: AppColumn) -> bool:
    return column.labels is not None or base_of(column.type)[0] in _HASHED


def _ranges(made: MadeTable, column: AppColumn, count: int) -> Partitions | None:
    """By ranges of the first column of the key, if its values rise with their numbers."""
    space = made.spaces[column.name]
    count = min(count, space.size)
    if count < 2 or column.labels is not None or space.size > _RISING.get(base_of(column.type)[0], 0):
        return None
    ends = [space.value(str(1 + number * space.size // count)) for number in range(1, count)]
    edges = ["MINVALUE", *(f"({end})" for end in ends), "MAXVALUE"]
    bounds = tuple(f"FOR VALUES FROM ({low}) TO ({high})" for low, high in pairwise(edges))
    return Partitions(f"PARTITION BY RANGE ({quoted(column.name)})", bounds, None)
