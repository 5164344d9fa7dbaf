"""The contents of a table as one number that does not depend on the order of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.workload.loading.table import LoadedTable, Session

_SUM = "coalesce(sum(('x' || substr(md5({text}), 1, 15))::bit(60)::bigint), 0)::text"


@dataclass(frozen=True, slots=True)
class Contents:
    """Rows of a table and a checksum of them."""

    rows: int
    checksum: str


def contents_of(session: Session, table: str, columns: Sequence[str]) -> Contents:
    """Rows, and the sum of each row's md5 over ``columns`` (SQL names)."""
    text = _SUM.format(text=f"ROW({', '.join(columns)})::text")
    row = session.execute(f"SELECT count(*), {text} FROM {table}".encode()).fetchone()
    assert row is not None
    return Contents(int(row[0]), str(row[1]))


def reading_count(table: LoadedTable) -> str:
    """SQL that counts the table's rows, each of which the server has to read with all of its values.

    The value that is counted is never NULL, whatever the columns are called and hold. With ctid in it no
    index alone can answer.
    """
    return f"SELECT count(pg_column_size(ROW(ctid, {table.column_list}))) FROM {table.name}"


def column_checksums(session: Session, table: str) -> dict[str, str]:
    """Column (quoted) -> checksum of that column alone, for every column of the table."""
    names = [
        str(row[0])
        for row in session.execute(
            "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
            " AND NOT attisdropped ORDER BY attnum",
            (table,),
        )
    ]
    parts = ", ".join(_SUM.format(text=f"coalesce({name}::text, '(null)')") for name in names)
    row = session.execute(f"SELECT {parts} FROM {table}".encode()).fetchone()
    assert row is not None
    return dict(zip(names, map(str, row), strict=True))


def rows_elsewhere(session: Session, table: str, ignored: Sequence[str] = ()) -> dict[str, int]:
    """Other tables of users, outside of the partitions of ``table`` -> their rows: what triggers left.

    Tables that the session may not read (of extensions that a superuser made) are left out.
    """
    names = [
        str(row[0])
        for row in session.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND c.oid <> %s::regclass AND n.nspname NOT LIKE 'pg\\_%%'"
            " AND n.nspname <> 'information_schema' AND has_table_privilege(c.oid, 'SELECT')"
            " AND c.oid NOT IN (SELECT relid FROM pg_partition_tree(%s::regclass)) ORDER BY 1",
            (table, table),
        )
    ]
    counts = {}
    for name in names:
        if name not in ignored:
            row = session.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
            assert row is not None
            counts[name] = int(row[0])
    return counts
