"""Rows for a table: generated from a seed by the types of its columns, or read from the user's CSV.

The server makes them, in a table of its own (`walproof_source`) with one more column, the row's number. Every
value follows from seed, column and number by md5, so rows are the same on every version. Keys are unique
because they hold the number; foreign keys point at rows that are there. A key that consists of foreign keys
takes those rows in turn, as the digits of a number are taken. Keys that a file names are put into the tables
that its foreign keys point at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from walproof.errors import WorkloadError, first_line, one_line
from walproof.sqltext import folded
from walproof.workload.loading.file_rows import header_of, require_utf8
from walproof.workload.loading.named_keys import DEPTH_MOST, NamedKeys
from walproof.workload.loading.paired_keys import foreign_columns, needed_rows, paired
from walproof.workload.loading.partition_values import partition_values
from walproof.workload.loading.table import ForeignKey, LoadedColumn, LoadedTable, Session, read_table

SOURCE = "walproof_source"
NUMBER = "walproof_row"
"""The source's column with the row's number, from 0."""
_COUNTER = "walproof_counter"
_REFERENCED_ROWS = 1_000
"""Rows that are put into an empty table that a foreign key points at; more where a key of foreign keys alone
would have no other values left."""
_READ_BYTES = 1 << 18

_BITS = "('x' || substr({hash}, 1, {digits}))::bit({bits})::{integer}"


def fill_source(session: Session, table: LoadedTable, rows: int, seed: int) -> None:
    """Make the source table with ``rows`` generated rows. Raises WorkloadError, as for an unknown type."""
    _make_source(session, table)
    fill_referenced(session, table, seed, rows=rows)
    _fill(session, table, SOURCE, rows, seed)


def fill_table(session: Session, table: LoadedTable, rows: int) -> None:
    """Copy the source's first ``rows`` into ``table``, and VACUUM it. Raises WorkloadError."""
    if not rows:
        return
    columns = table.column_list
    try:
        session.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {SOURCE}"
            f" WHERE {NUMBER} < {rows} ORDER BY {NUMBER}".encode()
        )
        session.execute(f"VACUUM (ANALYZE) {table.name}".encode())
    except psycopg.Error as error:
        raise WorkloadError(
            f"{table.name} does not take the rows: {error.diag.message_primary or one_line(error)}",
            detail=error.diag.message_detail,
        ) from error


def fill_referenced(
    session: Session,
    table: LoadedTable,
    seed: int,
    named: Mapping[str, NamedKeys] | None = None,
    depth: int = 0,
    rows: int = 0,
) -> None:
    """Put rows into the tables that foreign keys of ``table`` point at, if they have none: with the keys that
    a file names, else generated ones. ``rows``: how many will be generated for ``table``."""
    named = named or {}
    needed = needed_rows(table, rows)
    for key in table.foreign_keys:
        if key.target == table.name or has_rows(session, key.target):
            continue
        if depth > DEPTH_MOST:
            raise WorkloadError(
                f'foreign keys of "{table.name}" form a circle', hint="Put rows into the DDL."
            )
        other = read_table(session, key.target)
        count = most = max(_REFERENCED_ROWS, needed.get(key.target, 0))
        fill_referenced(session, other, seed, named, depth + 1, most)
        keys = named.get(key.target)
        if keys is not None:
            counted = session.execute(f"SELECT count(*) FROM ({keys.sql}) named".encode())
            count = next(int(number) for (number,) in counted)
        # Whoever names no key has none that has to be there.
        _fill(session, other, other.name, count or most, seed, keys if count else None)


def read_source(session: Session, table: LoadedTable, file: Path) -> int:
    """Make the source table of a CSV file with a header line; return its rows.

    Raises WorkloadError with the server's own complaint, its line and column.
    """
    header = header_of(file)
    known = {folded(column.name): column for column in table.columns}
    for name in header:
        if name not in known:
            if (why := _numbered_by_server(session, table, name)) is not None:
                raise WorkloadError(
                    f'column "{name}" of file "{file}" is {why} in table {table.name}',
                    hint="Leave it out of the file, or measure a copy of the definition without that clause.",
                )
            raise WorkloadError(
                f'column "{name}" of file "{file}" is not in table {table.name}',
                detail=f"Columns that a load can fill: {', '.join(known)}.",
                hint="The first line of the file names its columns.",
            )
        if header.count(name) > 1:
            raise WorkloadError(
                f'column "{name}" stands twice in the first line of file "{file}"',
                hint="An export of a join names columns twice: leave one of them out.",
            )
    missing = [name for name, column in known.items() if column.is_required and name not in header]
    for name in missing:
        if not _may_be_left_out(session, table, known[name]):
            raise WorkloadError(
                f'column "{name}" of table {table.name} is not in file "{file}"',
                detail="It is NOT NULL and has no default, and the table has no trigger that could fill it.",
            )
    kept = tuple(known[name] for name in header)
    _make_source(session, table, kept)
    columns = ", ".join(column.name for column in kept)
    try:
        with (
            file.open("rb") as opened,
            session.cursor() as cursor,
            cursor.copy(f"COPY {SOURCE} ({columns}) FROM STDIN (FORMAT csv, HEADER)".encode()) as copy,
        ):
            while block := opened.read(_READ_BYTES):
                copy.write(block)
    except OSError as error:
        raise WorkloadError(f'could not read file "{file}": {error.strerror}') from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.errors.CharacterNotInRepertoire):
            require_utf8(file)
        context = (error.diag.context or "").replace(f"COPY {SOURCE}, ", "")
        raise WorkloadError(
            f'file "{file}" does not match table {table.name}: {error.diag.message_primary}',
            detail=context or None,
            hint="Nothing was loaded.",
        ) from error
    row = session.execute(f"SELECT count(*) FROM {SOURCE}".encode()).fetchone()
    assert row is not None
    if not row[0]:
        raise WorkloadError(f'file "{file}" has no rows')
    return int(row[0])


def refused_row(session: Session, table: LoadedTable, columns: tuple[LoadedColumn, ...]) -> int | None:
    """Which of the source's rows, from 0, is the first that the table does not take as it is inserted; None
    if it takes each of them, and refuses them together: a foreign key, a deferred constraint.

    A sequence counts what has been inserted, and keeps its count when all else is rolled back.
    """
    listed = ", ".join(column.name for column in columns)
    # The count is taken of a row when the one before it has been inserted, and again after the last one.
    insert = (
        f"INSERT INTO {table.name} ({listed}) SELECT {listed} FROM"
        f" (SELECT * FROM {SOURCE} ORDER BY {NUMBER} OFFSET 0) {SOURCE} WHERE nextval('{_COUNTER}') > 0"
        f" UNION ALL SELECT {listed} FROM {SOURCE} WHERE nextval('{_COUNTER}') = 0"
    )
    session.execute(f"CREATE SEQUENCE {_COUNTER}".encode())
    try:
        with session.transaction(force_rollback=True):
            session.execute(insert.encode())
    except psycopg.Error:
        count = f"SELECT last_value - 1 FROM {_COUNTER} WHERE last_value <= (SELECT count(*) FROM {SOURCE})"
        row = session.execute(count.encode()).fetchone()
        return None if row is None else int(row[0])
    finally:
        session.execute(f"DROP SEQUENCE {_COUNTER}".encode())
    return None


def loaded_columns(session: Session, table: LoadedTable) -> tuple[LoadedColumn, ...]:
    """The columns of ``table`` that the source has, in the source's order."""
    rows = session.execute(
        "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND attname <> %s ORDER BY attnum",
        (SOURCE, NUMBER),
    )
    known = {column.name: column for column in table.columns}
    return tuple(known[str(name)] for (name,) in rows)


def _make_source(
    session: Session, table: LoadedTable, columns: tuple[LoadedColumn, ...] | None = None
) -> None:
    listed = ", ".join(column.name for column in columns or table.columns)
    session.execute(f"CREATE TABLE {SOURCE} AS SELECT {listed} FROM {table.name} LIMIT 0".encode())
    session.execute(
        f"ALTER TABLE {SOURCE} ADD {NUMBER} bigint GENERATED ALWAYS AS IDENTITY (MINVALUE 0 START 0)".encode()
    )


def _fill(
    session: Session, table: LoadedTable, into: str, rows: int, seed: int, keys: NamedKeys | None = None
) -> None:
    foreign = foreign_columns(table)
    below = {key.constraint.name: digits[:n] for digits in paired(table) for n, key in enumerate(digits)}
    # Each row points to itself, which is there whatever the batches and sessions are; or to none, where the
    # server makes the key.
    own = {
        name: theirs
        for key in table.foreign_keys
        if key.target == table.name
        for name, theirs in zip(key.columns, key.target_columns, strict=True)
    }
    known = {column.name: column for column in table.columns}
    partitions = partition_values(session, table) if table.is_partitioned else {}
    unique = _numbered(table, {*foreign, *partitions})
    values, joins = [], {}
    if keys is not None:
        numbered = f"SELECT *, row_number() OVER () - 1 AS {NUMBER} FROM ({keys.sql}) named"
        joins["named"] = f"JOIN ({numbered}) named ON named.{NUMBER} = i"
    for loaded in table.columns:
        target = own.get(loaded.name)
        column = known.get(target or "", loaded)
        if keys is not None and column.name in keys.columns:
            values.append(f"named.{column.name}")
        elif column.name in partitions:
            values.append(partitions[column.name])
        elif column.name in foreign:
            key, position = foreign[column.name]
            alias = "f" + str(table.foreign_keys.index(key))
            name = key.constraint.name
            drawn = _digit(below[name]) if name in below else _random(f"{seed}/{name}")
            joins[alias] = _join(alias, key, drawn)
            values.append(f"{alias}.c{position}")
        elif target is not None and target not in known and not column.is_required:
            values.append(f"NULL::{column.type}")
        else:
            values.append(_expression(session, table, column, seed, is_unique=column.name in unique))
    columns = ", ".join(column.name for column in table.columns)
    command = (
        f"INSERT INTO {into} ({columns}) SELECT {', '.join(values)}"
        f" FROM generate_series(0, {rows - 1}) i {' '.join(joins.values())} ORDER BY i"
    )
    try:
        session.execute(command.encode())
    except psycopg.Error as error:
        raise WorkloadError(
            f"could not generate rows for {table.name}: {first_line(error)}",
            hint="--file names a CSV of rows that the table takes.",
        ) from error


def _numbered(table: LoadedTable, taken: Collection[str]) -> set[str]:
    """Of each key the column that holds the row's number: the first that is not ``taken`` and can hold it."""
    able = {c.name for c in table.columns if c.kind == "b" and _unique(c, "", None) is not None}
    found: set[str] = set()
    for key in table.keys:
        free = [name for name in key if name not in taken]
        fitting = [name for name in free if name in able]
        # A first column that cannot hold it is complained about, by its type.
        found.update(fitting[:1] or [name for name in key[:1] if name in free])
    return found


def _random(salt: str) -> str:
    return _BITS.format(hash=f"md5({_literal(salt)} || '/' || i)", digits=7, bits=28, integer="int")


def _digit(below: Sequence[ForeignKey]) -> str:
    return "(i" + "".join(f" / (SELECT count(*) FROM {key.target})" for key in below) + ")"


def _join(alias: str, key: ForeignKey, drawn: str) -> str:
    """The rows of the other table by number; the one of number ``drawn`` is taken for each row."""
    columns = ", ".join(f"{name} AS c{position}" for position, name in enumerate(key.target_columns))
    order = ", ".join(key.target_columns)
    count = f"(SELECT count(*) FROM {key.target})"
    return (
        f"JOIN (SELECT {columns}, row_number() OVER (ORDER BY {order}) - 1 AS n FROM {key.target}) {alias}"
        f" ON {alias}.n = {drawn} % {count}"
    )


def _expression(
    session: Session, table: LoadedTable, column: LoadedColumn, seed: int, *, is_unique: bool
) -> str:
    """SQL of a value of the column in row ``i``. Raises WorkloadError for a type that is not known."""
    hash_ = f"md5({_literal(f'{seed}/{column.name}/')} || i)"
    if column.kind == "e":
        bits = _BITS.format(hash=hash_, digits=7, bits=28, integer="int")
        listed = f"enum_range(NULL::{column.type})"
        return f"({listed})[1 + {bits} % array_length({listed}, 1)]"
    if column.base.startswith("_") and column.kind == "b":
        element = LoadedColumn(column.name, column.type.removesuffix("[]"), column.base[1:], "b", -1, True)
        item = _expression(session, table, element, seed, is_unique=False)
        return f"ARRAY[{item}, {item}]::{column.type}"
    length = column.modifier - 4 if column.base in ("varchar", "bpchar") and column.modifier > 4 else None
    value = _unique(column, hash_, length) if is_unique else _usual(column, hash_, length)
    if value is None:
        raise WorkloadError(
            f"column {column.name} of {table.name} has a type without a generator: {column.type}",
            hint="--file names a CSV of rows that the table takes.",
        )
    return f"({value})::{column.type}"


def _unique(column: LoadedColumn, hash_: str, length: int | None) -> str | None:
    """A value that no other row has."""
    match column.base:
        case "int2" | "int4" | "int8" | "numeric" | "float8":
            return "i + 1"
        case "text" | "varchar" | "bpchar" | "name":
            return f"right({hash_} || '-' || i, {min(length or 31, 31)})"
        case "uuid":
            return hash_
        case "date":
            return "date '2000-01-01' + i"
        case "timestamp" | "timestamptz":
            return "timestamp '2026-01-01' + i * interval '1 s'"
        case "bytea":
            return f"decode({hash_}, 'hex')"
    return None


def _usual(column: LoadedColumn, hash_: str, length: int | None) -> str | None:
    bits = _BITS.format(hash=hash_, digits=7, bits=28, integer="int")
    match column.base:
        case "int2":
            return f"{bits} % 30000"
        case "int4":
            return bits
        case "int8":
            return _BITS.format(hash=hash_, digits=15, bits=60, integer="bigint")
        case "float4" | "float8":
            return f"{bits} / 1000.0"
        case "numeric":
            precision, scale = _numeric(column.modifier)
            # One digit less than fits, because a half may be rounded up.
            return f"mod({bits}, {max(1, 10 ** min(8, precision - scale) - 1)}) + 0.5"
        case "bool":
            return f"{bits} % 2 = 0"
        case "text" | "varchar" | "bpchar" | "name":
            return f"left({hash_}, {min(length or 31, 31)})"
        case "date":
            return f"date '2020-01-01' + {bits} % 2000"
        case "timestamp" | "timestamptz":
            return f"timestamp '2020-01-01' + {bits} * interval '1 s'"
        case "time":
            return f"time '00:00' + {bits} % 86400 * interval '1 s'"
        case "interval":
            return f"{bits} % 86400 * interval '1 s'"
        case "uuid":
            return hash_
        case "bytea":
            return f"decode({hash_}, 'hex')"
        case "json" | "jsonb":
            return f"json_build_object('n', {bits}, 's', left({hash_}, 12))"
        case "inet":
            return f"'10.0.0.0'::inet + {bits} % 16000000"
    return None


def _numeric(modifier: int) -> tuple[int, int]:
    """(precision, scale) of numeric's type modifier (numeric.c); 12 and 2 where there is none."""
    if modifier < 4:
        return 12, 2
    return (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF


def has_rows(session: Session, table: str) -> bool:
    """Whether a table, whose name is quoted, holds any row."""
    return session.execute(f"SELECT 1 FROM {table} LIMIT 1".encode()).fetchone() is not None


def _may_be_left_out(session: Session, table: LoadedTable, column: LoadedColumn) -> bool:
    """Whether a default, also of its domain, fills it, or a trigger may: NOT NULL is checked after those
    BEFORE INSERT (ExecInsert in nodeModifyTable.c, CopyFrom in copyfrom.c)."""
    row = session.execute(
        "SELECT a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL OR EXISTS"
        " (SELECT FROM pg_trigger g WHERE g.tgrelid = a.attrelid AND NOT g.tgisinternal"
        " AND g.tgenabled IN ('O', 'A') AND (g.tgtype & 7) = 7)"  # of a row, before, INSERT (pg_trigger.h)
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = %s::regclass AND quote_ident(a.attname) = %s",
        (table.name, column.name),
    ).fetchone()
    return row is not None and bool(row[0])


def _numbered_by_server(session: Session, table: LoadedTable, name: str) -> str | None:
    """The clause for which a load leaves a column to the server; None for a column that is not there."""
    row = session.execute(
        "SELECT CASE WHEN attidentity = 'a' THEN 'GENERATED ALWAYS AS IDENTITY' ELSE 'GENERATED' END"
        " FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s AND attnum > 0",
        (table.name, name),
    ).fetchone()
    return None if row is None else str(row[0])


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)
