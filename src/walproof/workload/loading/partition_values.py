"""Values that the partitions of a table take, as SQL: generated rows go to all of them in turn."""

from __future__ import annotations

import re

from walproof import sqltext
from walproof.errors import WorkloadError
from walproof.workload.loading.table import LoadedColumn, LoadedTable, Session

_BOUNDS = re.compile(r"FOR VALUES FROM \((.+)\) TO \((.+)\)")
_LIST = re.compile(r"FOR VALUES IN \((.+)\)")


def partition_values(session: Session, table: LoadedTable) -> dict[str, str]:
    """Column -> SQL of values that its partitions take in turn, if the table is partitioned by one column.
    Hash partitions take any value. Raises WorkloadError if values cannot be found."""
    found = session.execute(
        "SELECT p.partstrat::text, array(SELECT quote_ident(a.attname) FROM unnest(p.partattrs::int2[]) n"
        " JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = n)"
        " FROM pg_partitioned_table p WHERE p.partrelid = %s::regclass",
        (table.name,),
    ).fetchone()
    assert found is not None
    if found[0] == "h":
        return {}
    bounds = [
        str(row[0])
        for row in session.execute(
            "SELECT pg_get_expr(c.relpartbound, c.oid)"
            " FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid"
            " WHERE h.inhparent = %s::regclass ORDER BY c.oid",
            (table.name,),
        )
    ]
    if not bounds:
        raise WorkloadError(f"{table.name} has no partitions", hint="The DDL has to create some.")
    column = next((candidate for candidate in table.columns if list(found[1]) == [candidate.name]), None)
    values = [value for bound in bounds for value in _values_within(bound, column)] if column else []
    if not values or column is None:
        if "DEFAULT" in bounds:
            return {}
        raise WorkloadError(
            f"could not find values that the partitions of {table.name} take",
            detail="\n".join(bounds),
            hint="--file names a CSV of rows that the table takes.",
        )
    listed = ", ".join(values)
    return {column.name: f"(ARRAY[{listed}])[1 + i % {len(values)}]"}


def _values_within(bound: str, column: LoadedColumn | None) -> list[str]:
    assert column is not None
    listed = _LIST.match(bound)
    if listed:
        return [f"({item})::{column.type}" for item in _items(listed[1]) if item != "NULL"]
    ends = _BOUNDS.match(bound)
    if ends is None:
        return []
    low, high = ends[1], ends[2]
    if column.base not in ("int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz"):
        return [] if low == "MINVALUE" else [f"({low})::{column.type}"]
    if low == "MINVALUE":
        return [] if high == "MAXVALUE" else [_less(high, column)]
    return [f"({low})::{column.type}"]


def _items(listed: str) -> list[str]:
    """The values of a list, which are separated by commas and may hold some."""
    found, depth = [""], 0
    for token in sqltext.tokens(listed):
        depth += (token.text in "([") - (token.text in ")]")
        if token.text == "," and depth == 0:
            found.append("")
        else:
            found[-1] += token.text
    return [item.strip() for item in found]


def _less(high: str, column: LoadedColumn) -> str:
    step = "interval '1 s'" if column.base.startswith("timestamp") else "1"
    return f"(({high})::{column.type} - {step})::{column.type}"
