"""The SQL that makes and fills the tables of a load."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from walproof.advise.workload.partitions import partitions_of
from walproof.advise.workload.spaces import MadeTable, Space
from walproof.advise.workload.values import base_of, is_known, value
from walproof.facts.application import AppColumn, AppIndex, AppKey, AppTable
from walproof.sqltext import Token, folded, identifiers, literal, quoted, tokens

FRESH = "walproof_fresh"
"""Sequence of numbers that no row has."""
_KEY_SEQUENCE = re.compile(rf"\b{FRESH}_[0-9]+_[0-9]+\b")
_KEYS_FROM = 10**9
"""Far from what the other sequence reaches, and an integer has as much room again."""
_MAKERS = (
    "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timezone", "date_trunc",
    "gen_random_uuid", "uuidv4", "uuidv7", "random", "md5", "lower", "upper", "length", "left", "right",
    "numeric", "varchar", "bpchar", "char", "bit", "time", "timestamp", "timestamptz", "interval", "coalesce",
    "round", "abs", "to_tsvector", "jsonb_build_object", "json_build_object", "in", "and", "or", "not",
    "array", "any", "nullif", "extract", "to_char", "date_part", "make_interval", "concat", "replace",
)  # fmt: skip
"""What defaults and generated columns may call: anything else could act on the server that runs them."""
_PGBENCH = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
"""Tables that each load's server has before its own, and that an application which pgbench plays has, too."""
_NULL_STEP = 7919
_NEXT = re.compile(r"nextval\('(?:[^']|'')*'::regclass\)")
"""The next number of a sequence, as pg_get_expr writes it."""
_NEXT_FRESH = f"nextval('{FRESH}'::regclass)"
_NATIVE = {
    "gist": re.compile(r"range$|^(?:point|box|circle|polygon|tsvector|tsquery)$"),
    "gin": re.compile(r"\[\]$|^(?:jsonb|tsvector)$"),
}
"""Types that the server itself has a default operator class for (manual, "GiST Indexes", "GIN Indexes")."""
_NULL_ONCE = "NULLS NOT DISTINCT"
"""Of a unique key that NULL may stand in once (from 15 on)."""
_OWN_TYPES = ("public.citext", "citext")
_COUNTED = ("smallint", "integer", "bigint")


def key_sequence(table: int, column: int) -> str:
    """Sequence of the keys of one table, to whose new rows others point; both are told by their places."""
    return f"{FRESH}_{table}_{column}"


def stands_for(column: AppColumn) -> str:
    """Type of the column in the load: its own, or bytea where no value of its own can be made."""
    if column.labels is not None:
        return column.type
    if column.type.removesuffix("[]") in _OWN_TYPES:
        return "text" + ("[]" if column.type.endswith("[]") else "")
    return column.type if "." not in column.type and is_known(column.type) else "bytea"


def is_replaced(column: AppColumn) -> bool:
    """Whether bytea stands for a type of which no value can be made."""
    return stands_for(column) == "bytea" and column.type != "bytea"


def replaced_in(table: AppTable) -> frozenset[str]:
    """Columns of the table for whose type bytea stands."""
    return frozenset(column.name for column in table.columns if is_replaced(column))


def is_foreign_code(expression: str, own: frozenset[str] = frozenset()) -> bool:
    """Whether an expression names something that is neither the server's own nor among ``own``: the catalog
    writes its name with the schema."""
    found = _significant(expression)
    operators = any(
        word.text.upper() == "OPERATOR"
        and bracket.text == "("
        and dot.text == "."
        and folded(schema.text) != "pg_catalog"
        for word, bracket, schema, dot in zip(found, found[1:], found[2:], found[3:], strict=False)
    )
    return operators or any(
        before.kind in ("word", "name")
        and dot.text == "."
        and after.kind in ("word", "name")
        and f"{before.text}.{after.text}" not in own
        for before, dot, after in zip(found, found[1:], found[2:], strict=False)
    )


def _significant(expression: str) -> list[Token]:
    return [token for token in tokens(expression) if token.kind not in ("space", "comment")]


def is_counted(column: AppColumn) -> bool:
    """Whether a sequence of its own numbers the column here: in the application that may be one that several
    tables share."""
    is_numbered = column.not_null and _NEXT.fullmatch(column.default or "") is not None
    return (column.is_identity or is_numbered) and base_of(column.type)[0] in _COUNTED


def has_value(column: AppColumn, own: frozenset[str], replaced: frozenset[str]) -> bool:
    """Whether a row that is inserted without the column gets what it needs there. ``own``: names of types
    that are here; ``replaced``: columns of the table for whose type bytea stands."""
    if not column.not_null or is_counted(column):
        return True
    return (
        column.default is not None and not is_replaced(column) and _only_makes(column.default, own, replaced)
    )


def _only_makes(expression: str, own: frozenset[str], replaced: frozenset[str]) -> bool:
    """Whether a default or generated column does nothing but make a value of what is here."""
    expression = _NEXT.sub("0", expression)
    calls = any(
        word.kind in ("word", "name") and bracket.text == "(" and word.text.lower() not in _MAKERS
        for word, bracket in pairwise(_significant(expression))
    )
    return not calls and not is_foreign_code(expression, own) and not identifiers(expression) & replaced


@dataclass(frozen=True, slots=True)
class Schema:
    """The file, and what of the tables it does not have."""

    sql: str
    notes: tuple[str, ...]


def schema_sql(
    made: Sequence[MadeTable], deleted: frozenset[str], scripts: Iterable[str], head: str
) -> Schema:
    """SQL for all tables, in the order in which foreign keys need no other.

    ``deleted``: names of tables of which the load deletes rows; foreign keys to them are left out, since
    whoever draws a deleted row would fail; ``scripts``: their texts, whose sequences are made.
    """
    notes: list[str] = []
    by_name = {each.table.name: each for each in made}
    enums = enums_of(made)
    own = frozenset(enums)
    most = max((each.rows for each in made), default=0)
    lines = [head]
    if any(each.table.schema == "public" and each.table.relation in _PGBENCH for each in made):
        lines.append(f"DROP TABLE IF EXISTS {', '.join(_PGBENCH)};")
    lines.append(f"CREATE SEQUENCE {FRESH} START {most + 1};")
    sequences = sorted({name for text in scripts for name in _KEY_SEQUENCE.findall(text)})
    lines += [f"CREATE SEQUENCE {name} START {_KEYS_FROM};" for name in sequences]
    lines += _types(made, enums)
    for each in made:
        lines += ["", *_create(each, own, notes)]
    lines += ["", *(_fill(each, own) for each in made), ""]
    for each in made:
        lines += _keys(each, own, notes)
    for each in made:
        notes += _own_parents(each)
        lines += _foreign_keys(each, by_name, deleted, notes)
    lines += [
        "",
        *(line for each in made for line in _sequences(each)),
        *_search_path(made),
        "VACUUM ANALYZE;",
    ]
    return Schema("\n".join(lines) + "\n", tuple(notes))


def enums_of(made: Iterable[MadeTable]) -> dict[str, tuple[str, ...]]:
    """Labels of the enums, by name."""
    return {
        column.type.removesuffix("[]"): column.labels
        for each in made
        for column in each.table.columns
        if column.labels is not None
    }


def _types(made: Sequence[MadeTable], enums: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    schemas = {each.table.schema for each in made}
    # The catalog quotes names of types where it must.
    schemas |= {folded(name.rpartition(".")[0]) for name in enums if "." in name}
    yield from (f"CREATE SCHEMA {quoted(name)};" for name in sorted(schemas - {"public"}))
    for name, labels in sorted(enums.items()):
        yield f"CREATE TYPE {name} AS ENUM ({', '.join(map(literal, labels))});"


def _search_path(made: Sequence[MadeTable]) -> Iterator[str]:
    """Statements may name a table without its schema, as the roles of the application find it."""
    schemas = dict.fromkeys(each.table.schema for each in made)
    if set(schemas) == {"public"}:
        return
    path = ", ".join(quoted(name) for name in [*(name for name in schemas if name != "public"), "public"])
    change = literal(f"ALTER DATABASE %I SET search_path = {path.replace('%', '%%')}")
    yield f"DO {literal(f'BEGIN EXECUTE format({change}, current_database()); END')};"


def _create(made: MadeTable, own: frozenset[str], notes: list[str]) -> Iterator[str]:
    table = made.table
    kind = "UNLOGGED TABLE" if table.is_unlogged else "TABLE"
    yield f"CREATE {kind} {table.name} ("
    replaced = replaced_in(table)
    lines = [f"    {_column(table.name, column, own, replaced, notes)}" for column in table.columns]
    yield ",\n".join(lines)
    parts = partitions_of(made, replaced)
    end = f" {parts.clause}" if parts is not None else f" WITH ({table.options})" if table.options else ""
    yield f"){end};"
    if parts is not None:
        yield from parts.tables(made)
    elif table.kind == "p":
        notes.append(f"{table.name} is partitioned; here it is one table.")
    if parts is not None and parts.note is not None:
        notes.append(parts.note)
    if table.triggers:
        notes.append(f"{table.name} has triggers that are not here: {', '.join(table.triggers)}.")
    if table.others:
        notes.append(f"{table.name} has constraints that are not here: {'; '.join(table.others)}.")


def _column(
    table: str, column: AppColumn, own: frozenset[str], replaced: frozenset[str], notes: list[str]
) -> str:
    type_ = stands_for(column)
    if is_replaced(column):
        notes.append(f"{table}.{column.name} is {column.type}; here it is bytea of the same width.")
    text = f"{quoted(column.name)} {type_}"
    if is_counted(column):
        return f"{text} GENERATED BY DEFAULT AS IDENTITY"
    expression = column.default
    if expression is not None and not is_replaced(column):
        if not _only_makes(expression, own, replaced):
            notes.append(f"{table}.{column.name} has a default that is not here: {expression}.")
        elif column.is_generated:
            text += f" GENERATED ALWAYS AS ({expression}) STORED"
        else:
            text += f" DEFAULT {_NEXT.sub(_NEXT_FRESH, expression)}"
    return text + (" NOT NULL" if column.not_null else "")


def _fill(made: MadeTable, own: frozenset[str]) -> str:
    replaced = replaced_in(made.table)
    columns = [column for column in made.table.columns if not _is_generated(column, own, replaced)]
    whole = _without_null(made.table)
    values = ",\n       ".join(
        _row_value(column, made.spaces[column.name], place, may_be_null=column.name not in whole)
        for place, column in enumerate(columns)
    )
    names = ", ".join(quoted(column.name) for column in columns)
    return (
        f"INSERT INTO {made.table.name} ({names})\n"
        f"SELECT {values}\nFROM generate_series(1::bigint, {made.rows}) i;"
    )


def _without_null(table: AppTable) -> set[str]:
    """Columns of which no row may have NULL here: what it would make equal to other rows, and what no
    partition has a place for."""
    keys = [index.columns for index in table.indexes
            if index.is_unique and (index.has_expressions or _NULL_ONCE in index.definition)]  # fmt: skip
    keys += [key.columns for key in table.keys if _NULL_ONCE in key.definition]
    return {name for key in keys for name in key} | set(table.partition_columns)


def _is_generated(column: AppColumn, own: frozenset[str], replaced: frozenset[str]) -> bool:
    is_here = not is_replaced(column) and _only_makes(column.default or "", own, replaced)
    return column.is_generated and is_here


def _row_value(column: AppColumn, space: Space, place: int, *, may_be_null: bool) -> str:
    """A value of row ``i``. Expressions such as coalesce make one value of NULL and another, so what a unique
    one names is never NULL; nor has every partitioned table a place for NULL."""
    made = typed(column, space, space.number)
    has_value = [f"NOT {space.is_root}"] if space.is_root else []
    if column.null_share > 0 and may_be_null and not column.not_null and not space.is_unique:
        # A step of its own for each column, without a divisor in common with 1000: not all in the same rows.
        step = _NULL_STEP + 20 * place
        has_value.append(f"(i * {step}) % 1000 >= {round(1000 * column.null_share)}")
    return f"CASE WHEN {' AND '.join(has_value)} THEN {made} END" if has_value else made


def typed(column: AppColumn, space: Space, e: str) -> str:
    """SQL of the e-th value of a column, of the type that it has in the load."""
    if is_replaced(column):
        return value("bytea", e, column.width_bytes) or "NULL"
    if stands_for(column) != column.type:
        return value(stands_for(column), e, column.width_bytes, is_unique=space.is_unique) or "NULL"
    return space.value(e) or "NULL"


def _keys(made: MadeTable, own: frozenset[str], notes: list[str]) -> Iterator[str]:
    table = made.table
    replaced = replaced_in(table)
    for key in table.keys:
        if key.kind == "f":
            continue
        if key.columns in made.lost_keys:
            notes.append(f"{table.name}: the key ({', '.join(key.columns)}) is no unique key here.")
            names = ", ".join(map(quoted, key.columns))
            yield f"CREATE INDEX ON {table.name} ({names});"
        else:
            yield f"ALTER TABLE {table.name} ADD {_named(key)}{key.definition};"
    for index in table.indexes:
        inner = index.definition.partition(" USING ")[2]
        plain = _needing_extension(table, index)
        is_changed = bool(replaced & {*index.columns, *identifiers(inner)})
        if is_foreign_code(inner, own) or is_changed or index.columns in made.lost_keys:
            notes.append(f"{table.name} has an index that is not here: {index.definition}.")
        elif plain:
            names = ", ".join(map(quoted, plain))
            notes.append(
                f"{table.name} has an index that needs an extension: {index.definition}. Here it is a btree "
                f"on ({', '.join(plain)})."
            )
            # Its name, which no other index takes then.
            name = index.definition.partition(" INDEX ")[2].partition(" ON ")[0]
            yield f"CREATE INDEX {name} ON {table.name} ({names});"
        else:
            if index.was_unique:
                notes.append(
                    f"{table.name} has a unique index that is a plain one here, since rows that are made "
                    f"would break it: {index.definition}."
                )
            yield f"{index.definition.replace(' ON ONLY ', ' ON ', 1)};"


def _named(key: AppKey) -> str:
    """ON CONFLICT ON CONSTRAINT names it."""
    return f"CONSTRAINT {quoted(key.name)} " if key.name else ""


def _needing_extension(table: AppTable, index: AppIndex) -> tuple[str, ...]:
    """Columns of a GiST or GIN index of types that only btree_gist or btree_gin has operator classes for."""
    inner = index.definition.partition(" USING ")[2]
    native = _NATIVE.get(inner.partition(" ")[0])
    if native is None or "_ops" in inner:
        # A class that is named is the server's own: one of an extension would have its schema.
        return ()
    types = {column.name: column.type for column in table.columns}
    return tuple(name for name in index.columns if native.search(types.get(name, "")) is None)


def _foreign_keys(
    made: MadeTable, by_name: Mapping[str, MadeTable], deleted: frozenset[str], notes: list[str]
) -> Iterator[str]:
    for key in made.table.keys:
        if key.kind != "f" or key.other is None or key.other not in by_name:
            continue
        reason = _why_not(key, by_name[key.other], deleted)
        if reason is None:
            yield f"ALTER TABLE {made.table.name} ADD {_named(key)}{key.definition};"
        else:
            notes.append(f"{made.table.name}: its foreign key to {key.other} is not here: {reason}.")


def _own_parents(made: MadeTable) -> Iterator[str]:
    for key in made.table.keys:
        column = next((each for each in made.table.columns if key.columns == (each.name,)), None)
        if key.kind == "f" and key.other == made.table.name and column is not None and column.not_null:
            yield f"{made.table.name}.{column.name} points to the row itself in the first row."


def _why_not(key: AppKey, other: MadeTable, deleted: frozenset[str]) -> str | None:
    if len(key.columns) > 1:
        return "it has several columns"
    if key.other in deleted:
        return "the load deletes rows there"
    if key.other_columns in other.lost_keys:
        return "what it points to is no key here"
    return None


def _sequences(made: MadeTable) -> Iterator[str]:
    for column in made.table.columns:
        if is_counted(column):
            of = f"{literal(made.table.name)}, {literal(column.name)}"
            yield f"SELECT setval(pg_get_serial_sequence({of}), {made.rows + 1}, false);"
