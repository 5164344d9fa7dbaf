"""What a table is: columns, keys, indexes, constraints and triggers, as the catalogs have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import SqlError, WorkloadError
from walproof.sqltext import folded, has_control, statement, visible

Session = psycopg.Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """One column that a load fills."""

    name: str
    """The name, quoted if SQL needs it."""
    type: str
    """As format_type() writes it, with length and precision."""
    base: str
    """Name of the type in pg_type, for a domain that of its base type: ``int8``, ``_int4``, ``varchar``."""
    kind: str
    """The type's pg_type.typtype: ``b`` base, ``e`` enum, ``c`` composite, ``r`` range."""
    modifier: int
    """pg_attribute.atttypmod, or that of the domain; -1 for none."""
    is_required: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """An index or a constraint: its name, and the SQL that makes it again."""

    name: str
    sql: str
    """For an index the whole statement, for a constraint what follows its name."""
    then: tuple[str, ...] = ()
    """Statements that bring back what goes with it: indexes of partitions, comments, statistics targets,
    CLUSTER ON and REPLICA IDENTITY."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns whose values have to exist in another table."""

    constraint: Definition
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedTrigger:
    """A trigger of the user's that is enabled."""

    name: str
    enabled: str
    """pg_trigger.tgenabled: ``O`` as usual, ``A`` always, ``R`` on replicas."""
    then: tuple[str, ...] = ()
    """Statements for partitions where it is enabled otherwise: what is done to a table is done to those."""


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table into which rows are loaded. Names are quoted where SQL needs it."""

    name: str
    """With its schema."""
    columns: tuple[LoadedColumn, ...]
    """Without generated columns and identities that are always generated, which a load cannot set."""
    keys: tuple[tuple[str, ...], ...]
    """The columns of each unique index without expressions and predicates, the primary key first."""
    indexes: tuple[Definition, ...]
    """Indexes that belong to no constraint."""
    key_constraints: tuple[Definition, ...]
    """Primary keys, unique and exclusion constraints: each has an index."""
    foreign_keys: tuple[ForeignKey, ...]
    triggers: tuple[LoadedTrigger, ...]
    is_partitioned: bool
    is_referenced: bool
    """Another table has a foreign key to it."""
    is_unlogged: bool = False
    partition_of: str | None = None
    """The table whose partition it is."""

    @property
    def points_to_itself(self) -> bool:
        """Whether a foreign key of the table has the table as its target."""
        return any(key.target == self.name for key in self.foreign_keys)

    @property
    def column_list(self) -> str:
        """``a, b, c``."""
        return ", ".join(column.name for column in self.columns)

    def columns_named(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that the first line of a file names, in its order, as SQL names them; all of the
        table's for a file without names."""
        known = {folded(column.name): column.name for column in self.columns}
        return tuple(known[name] for name in names if name in known) or tuple(known.values())


_RELATION = """
SELECT c.oid, c.oid::regclass::text, c.relkind::text,
       EXISTS (SELECT FROM pg_constraint k WHERE k.confrelid = c.oid AND k.contype = 'f'
                 AND k.conrelid <> c.oid
                 AND k.conrelid NOT IN (SELECT relid FROM pg_partition_tree(c.oid::regclass))),
       c.relpersistence = 'u',
       (SELECT h.inhparent::regclass::text FROM pg_inherits h WHERE h.inhrelid = c.oid AND c.relispartition)
  FROM pg_class c WHERE c.oid = to_regclass(%s)
"""
"""A key of the table to itself is one of each of its partitions, too."""
_NEAR = """
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND (lower(n.nspname || '.' || c.relname) = lower(%s)
                                    OR lower(c.relname) = lower(%s) AND pg_table_is_visible(c.oid))
 ORDER BY c.oid LIMIT 1
"""
"""A table of which only the capitals differ."""
_COLUMNS = """
SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), b.typname::text, b.typtype::text,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, a.attnotnull OR t.typnotnull
  FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
   AND a.attgenerated = '' AND a.attidentity <> 'a'
 ORDER BY a.attnum
"""
_KEYS = """
SELECT array(SELECT quote_ident(a.attname) FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(n, o)
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.n
              WHERE u.o <= i.indnkeyatts ORDER BY u.o)
  FROM pg_index i
 WHERE i.indrelid = %s AND i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL
 ORDER BY i.indisprimary DESC, i.indexrelid
"""
_INDEXES = """
SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indexrelid
  FROM pg_index i
 WHERE i.indrelid = %s
   AND NOT EXISTS (SELECT FROM pg_constraint k
                    WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
 ORDER BY i.indexrelid
"""
_KEY_SQL = """
       CASE WHEN k.contype IN ('p', 'u') AND c.reloptions IS NOT NULL
            THEN regexp_replace(pg_get_constraintdef(k.oid), '( DEFERRABLE( INITIALLY DEFERRED)?)?$',
                                ' WITH (' || array_to_string(c.reloptions, ', ') || ')\\1')
            ELSE pg_get_constraintdef(k.oid) END
"""
"""What follows a constraint's name, with its index's storage parameters, which the server leaves out."""
_CONSTRAINTS = f"""
SELECT quote_ident(k.conname), {_KEY_SQL}, k.conindid
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conindid
 WHERE k.conrelid = %s AND k.contype IN ('p', 'u', 'x') ORDER BY k.contype, k.oid
"""
_THEN = f"""
WITH tree AS (
  SELECT %s::oid AS oid, NULL::regclass AS parent, 0 AS level
   UNION ALL
  SELECT relid, parentrelid, level FROM pg_partition_tree(%s::oid::regclass) WHERE level > 0
)
SELECT s.sql
  FROM tree t
  JOIN pg_index i ON i.indexrelid = t.oid
  JOIN pg_class c ON c.oid = t.oid
  LEFT JOIN pg_constraint k ON k.conindid = t.oid AND k.contype IN ('p', 'u', 'x')
 CROSS JOIN LATERAL (
   SELECT 1, CASE WHEN k.oid IS NULL THEN pg_get_indexdef(t.oid)
                  ELSE format('ALTER TABLE ONLY %%s ADD CONSTRAINT %%I %%s', i.indrelid::regclass, k.conname,
                              {_KEY_SQL}) END
    WHERE t.level > 0
    UNION ALL
   SELECT 2, format('ALTER INDEX %%s ATTACH PARTITION %%s', t.parent, t.oid::regclass) WHERE t.level > 0
    UNION ALL
   SELECT 3, format('ALTER INDEX %%s ALTER COLUMN %%s SET STATISTICS %%s', t.oid::regclass, a.attnum,
                    a.attstattarget)
     FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attstattarget >= 0
    UNION ALL
   SELECT 4, format('ALTER TABLE %%s CLUSTER ON %%I', i.indrelid::regclass, c.relname) WHERE i.indisclustered
    UNION ALL
   SELECT 5, format('ALTER TABLE ONLY %%s REPLICA IDENTITY USING INDEX %%I', i.indrelid::regclass, c.relname)
    WHERE i.indisreplident
    UNION ALL
   SELECT 6, format('COMMENT ON INDEX %%s IS %%L', t.oid::regclass, obj_description(t.oid, 'pg_class'))
    WHERE obj_description(t.oid, 'pg_class') IS NOT NULL
    UNION ALL
   SELECT 7, format('COMMENT ON CONSTRAINT %%I ON %%s IS %%L', k.conname, i.indrelid::regclass,
                    obj_description(k.oid, 'pg_constraint'))
    WHERE obj_description(k.oid, 'pg_constraint') IS NOT NULL
 ) s(number, sql)
 ORDER BY s.number >= 3, t.level, t.oid, s.number, s.sql
"""
"""What DROP takes and the definition of an index does not bring back. The index of a partitioned table is
made for the table alone (ON ONLY), and is valid when one of each partition is attached to it. This keeps
their names, as pg_dump does. Marks come last: until 15.1 REPLICA IDENTITY needs an index that is valid."""
_FOREIGN_KEYS = """
SELECT quote_ident(k.conname), pg_get_constraintdef(k.oid),
       array(SELECT format('COMMENT ON CONSTRAINT %%I ON %%s IS %%L', k.conname, k.conrelid::regclass, d)
               FROM obj_description(k.oid, 'pg_constraint') d WHERE d IS NOT NULL),
       k.confrelid::regclass::text,
       array(SELECT quote_ident(a.attname) FROM unnest(k.conkey) WITH ORDINALITY u(n, o)
              JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.o),
       array(SELECT quote_ident(a.attname) FROM unnest(k.confkey) WITH ORDINALITY u(n, o)
              JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.o)
  FROM pg_constraint k
 WHERE k.conrelid = %s AND k.contype = 'f' AND k.conparentid = 0 ORDER BY k.oid
"""
_TRIGGERS = """
WITH RECURSIVE clone AS (
  SELECT t.oid AS origin, 0 AS level, t.oid, t.tgrelid, t.tgname, t.tgenabled, false AS differs
    FROM pg_trigger t WHERE t.tgrelid = %s AND NOT t.tgisinternal AND t.tgenabled <> 'D'
   UNION ALL
  SELECT c.origin, c.level + 1, t.oid, t.tgrelid, t.tgname, t.tgenabled, t.tgenabled <> c.tgenabled
    FROM clone c JOIN pg_trigger t ON t.tgparentid = c.oid
)
SELECT quote_ident(o.tgname), o.tgenabled::text,
       array(SELECT format('ALTER TABLE %%s %%s TRIGGER %%I', c.tgrelid::regclass,
                           CASE c.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'A' THEN 'ENABLE ALWAYS'
                                            WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE' END, c.tgname)
               FROM clone c WHERE c.origin = o.oid AND c.differs ORDER BY c.level, c.oid)
  FROM clone o WHERE o.level = 0 ORDER BY o.tgname
"""


def read_table(session: Session, name: str) -> LoadedTable:
    """What the catalogs say about the table that SQL calls ``name``. Raises WorkloadError, also for names
    with control characters, because no script could hold them."""
    try:
        found = session.execute(_RELATION, (name,)).fetchone()
    except psycopg.Error as error:
        raise WorkloadError(f'"{name}" is not the name of a table: {str(error).strip()}') from error
    if found is None:
        near = session.execute(_NEAR, (name, name)).fetchone()
        raise WorkloadError(
            f'table "{name}" does not exist',
            hint="Write the name as in SQL: schema.table."
            if near is None
            else f"Capitals need quotes: {visible(near[0])}.",
        )
    oid, full, kind, is_referenced, is_unlogged, partition_of = found
    if kind not in ("r", "p"):
        raise WorkloadError(
            f'"{name}" is not a table', detail=f"pg_class.relkind is {kind}; expected r or p."
        )
    columns = tuple(LoadedColumn(*row) for row in session.execute(_COLUMNS, (oid,)))
    if not columns:
        raise WorkloadError(f'table "{name}" has no column that a load could fill')
    table = LoadedTable(
        name=str(full),
        columns=columns,
        keys=tuple(tuple(row[0]) for row in session.execute(_KEYS, (oid,)) if row[0]),
        indexes=_with_index(session, _INDEXES, oid),
        key_constraints=_with_index(session, _CONSTRAINTS, oid),
        foreign_keys=tuple(
            ForeignKey(Definition(name, sql, tuple(then)), tuple(columns), target, tuple(theirs))
            for name, sql, then, target, columns, theirs in session.execute(_FOREIGN_KEYS, (oid,))
        ),
        triggers=tuple(
            LoadedTrigger(name, enabled, tuple(then))
            for name, enabled, then in session.execute(_TRIGGERS, (oid,))
        ),
        is_partitioned=kind == "p",
        is_referenced=bool(is_referenced),
        is_unlogged=bool(is_unlogged),
        partition_of=partition_of,
    )
    _check(table)
    return table


def _with_index(session: Session, query: str, table: int) -> tuple[Definition, ...]:
    """The indexes of a table, or its constraints that have one, with what goes with each."""
    return tuple(
        Definition(name, sql, tuple(str(row[0]) for row in session.execute(_THEN.encode(), (index, index))))
        for name, sql, index in session.execute(query.encode(), (table,)).fetchall()
    )


def _check(table: LoadedTable) -> None:
    """Raises WorkloadError for names and definitions that no script for psql can hold."""
    definitions = [*table.indexes, *table.key_constraints, *(key.constraint for key in table.foreign_keys)]
    named = [("table", table.name), *(("column", column.name) for column in table.columns)]
    named += [("index or constraint", definition.name) for definition in definitions]
    named += [("trigger", trigger.name) for trigger in table.triggers]
    named += [("type", column.type) for column in table.columns]
    for key in table.foreign_keys:
        named += [
            ("table", key.target),
            *(("column", column) for column in (*key.columns, *key.target_columns)),
        ]
    for kind, name in named:
        if has_control(name):
            raise WorkloadError(
                f"the name of {kind} {visible(name)} holds a control character",
                detail=f"Found while reading table {visible(table.name)}.",
                hint="Rename it: psql reads scripts line by line, and could take what follows for a command.",
            )
    made = [(definition.name, (definition.sql, *definition.then)) for definition in definitions]
    made += [(trigger.name, trigger.then) for trigger in table.triggers]
    for name, statements in made:
        try:
            for sql in statements:
                statement(sql)
        except SqlError as error:
            raise WorkloadError(
                f"the definition of {name} cannot stand in a script for psql: {error.message}",
                detail=error.detail,
            ) from error
