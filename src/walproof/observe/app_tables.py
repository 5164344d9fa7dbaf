"""Reads the tables of a database: columns, keys, indexes, and what pg_stats says of the values.

No table is read, and no value of a row but how often each label of an enum, true and false come, and which
values that the schema itself names: in a default, a CHECK constraint, the predicate of a partial index. Of
all others only how often the most frequent ones come is read, not which these are.
Manual, "pg_stats", "System Catalogs".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from walproof.facts.application import AppColumn, AppIndex, AppKey, AppTable
from walproof.observe.app_index import index_of
from walproof.observe.asking import Asking, number_in
from walproof.sqltext import tokens

TABLES_MOST = 1000
"""How many tables are read: those that are used most."""
_COUNTED_ROWS = """
    greatest(CASE WHEN {x}.reltuples > 0 OR ({x}.reltuples = 0 AND {x}.relpages > 0)
                  THEN {x}.reltuples::float8
                  ELSE pg_relation_size({x}.oid) / (
                    SELECT 28 + coalesce(sum(CASE WHEN a.attlen > 0 THEN a.attlen ELSE 32 END), 0)
                    FROM pg_attribute a WHERE a.attrelid = {x}.oid AND a.attnum > 0 AND NOT a.attisdropped)
             END, 0)"""
"""Rows of {x}: as VACUUM or ANALYZE counted them, or else as the planner guesses them, from the size and the
types of the columns (src/backend/access/table/tableam.c, table_block_relation_estimate_size)."""
_ARE_THE_APPLICATIONS = """
          c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
          AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                          AND d.objid = c.oid AND d.deptype = 'e')"""
_TABLES = f"""
    SELECT c.oid, n.nspname, c.relname, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
           CASE WHEN c.relispartition THEN 'i' ELSE c.relkind::text END,
           CASE WHEN c.relkind = 'p'
                THEN (SELECT coalesce(sum({_COUNTED_ROWS.format(x="l")}), 0) FROM pg_partition_tree(c.oid) t
                      JOIN pg_class l ON l.oid = t.relid WHERE t.isleaf)
                ELSE {_COUNTED_ROWS.format(x="c")} END::bigint,
           CASE WHEN c.relkind = 'p'
                THEN (SELECT coalesce(sum(pg_table_size(t.relid)), 0) FROM pg_partition_tree(c.oid) t)
                ELSE pg_table_size(c.oid) END::bigint,
           coalesce(array_to_string(c.reloptions, ', '), ''), c.relpersistence = 'u',
           ARRAY(SELECT tgname::text FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal ORDER BY 1),
           CASE WHEN c.relkind = 'p'
                THEN (SELECT coalesce(sum(pg_relation_size(t.relid)), 0) FROM pg_partition_tree(c.oid) t)
                ELSE pg_relation_size(c.oid) END::bigint / current_setting('block_size')::int,
           s.n_tup_hot_upd::float8 / nullif(s.n_tup_upd, 0),
           coalesce(p.partstrat::text, ''),
           ARRAY(SELECT a.attname::text FROM unnest(p.partattrs::int2[]) WITH ORDINALITY u (number, place)
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number
                 WHERE p.partexprs IS NULL ORDER BY u.place),
           CASE WHEN c.relkind = 'p'
                THEN (SELECT count(*) FROM pg_partition_tree(c.oid) t WHERE t.isleaf) ELSE 0 END,
           CASE WHEN c.relkind = 'p'
                THEN (SELECT coalesce(sum(pg_relation_size(l.reltoastrelid)), 0)
                      FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid)
                ELSE coalesce(pg_relation_size(c.reltoastrelid), 0) END::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
         LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
         CROSS JOIN LATERAL (
           SELECT coalesce(s.n_tup_ins + s.n_tup_upd + s.n_tup_del + s.seq_scan, 0) + coalesce(s.idx_scan, 0)
           AS times) used
    WHERE {_ARE_THE_APPLICATIONS}
    -- Statements name partitioned tables, and what they do is counted at the partitions.
    ORDER BY c.relkind = 'p' AND NOT c.relispartition DESC, used.times > 0 DESC, c.relispartition,
             used.times DESC, c.oid
    LIMIT %s"""
_ALL_TABLES = f"""
    SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE {_ARE_THE_APPLICATIONS}"""
_DEFAULTS = """
    SELECT adrelid, pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = ANY(%s)"""
_COLUMNS = """
    WITH named AS MATERIALIZED (
      SELECT key::oid AS relid, ARRAY(SELECT jsonb_array_elements_text(value)) AS texts
      FROM jsonb_each(%s::jsonb)),
    sample AS MATERIALIZED (
      -- autovacuum analyses no partitioned table: its largest partition tells what it has not been asked.
      SELECT c.oid AS relid, n.nspname, l.relname
      FROM pg_class c, LATERAL (
             SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf
             ORDER BY pg_relation_size(t.relid) DESC, t.relid LIMIT 1) largest
           JOIN pg_class l ON l.oid = largest.relid JOIN pg_namespace n ON n.oid = l.relnamespace
      WHERE c.oid = ANY(%s) AND c.relkind = 'p')
    SELECT a.attrelid, a.attname,
           format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END,
                       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END),
           a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
           a.attidentity <> '' OR EXISTS (
             SELECT FROM pg_depend o JOIN pg_class q ON q.oid = o.objid AND q.relkind = 'S'
             WHERE o.refclassid = 'pg_class'::regclass AND o.refobjid = a.attrelid
                   AND o.refobjsubid = a.attnum AND o.classid = 'pg_class'::regclass AND o.deptype = 'a'),
           a.attgenerated <> '',
           CASE WHEN b.typtype = 'e' THEN ARRAY(SELECT enumlabel::text FROM pg_enum
                                                WHERE enumtypid = b.oid ORDER BY enumsortorder) END,
           s.n_distinct, s.null_frac, s.avg_width, s.correlation,
           CASE WHEN b.typtype = 'e' OR b.oid = 'bool'::regtype THEN s.most_common_vals::text::text[]
                WHEN b.typname IN ('text', 'varchar', 'name', 'int2', 'int4', 'int8')
                     AND b.typnamespace = 'pg_catalog'::regnamespace
                THEN ARRAY(SELECT CASE WHEN u.value = ANY(named.texts) THEN u.value END
                           FROM unnest((s.most_common_vals::text::text[])[1:100]) WITH ORDINALITY u (value, n)
                           ORDER BY u.n) END,
           s.most_common_freqs[1:100]
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         JOIN pg_type t ON t.oid = a.atttypid
         JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         LEFT JOIN sample ON sample.relid = c.oid
         LEFT JOIN named ON named.relid = c.oid
         LEFT JOIN LATERAL (
           SELECT * FROM pg_stats p
           WHERE p.attname = a.attname
                 AND (p.schemaname = n.nspname AND p.tablename = c.relname
                      OR p.schemaname = sample.nspname AND p.tablename = sample.relname)
           ORDER BY p.tablename = c.relname DESC, p.inherited DESC LIMIT 1) s ON true
    WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attrelid, a.attnum"""
_KEYS = """
    SELECT k.conrelid, k.contype::text,
           ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u (number, place)
                 JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.place),
           pg_get_constraintdef(k.oid),
           (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = k.confrelid),
           ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u (number, place)
                 JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.place),
           k.conname::text
    FROM pg_constraint k WHERE k.conrelid = ANY(%s) AND k.contype IN ('p', 'u', 'f', 'c', 'x')
          -- A foreign key to a partitioned table has a copy for each of its partitions.
          AND NOT EXISTS (SELECT FROM pg_constraint p WHERE p.oid = k.conparentid AND p.conrelid = k.conrelid)
    ORDER BY k.conrelid, k.contype = 'f', k.conname"""
_INDEXES = """
    SELECT i.indrelid, pg_get_indexdef(i.indexrelid),
           ARRAY(SELECT a.attname::text FROM pg_attribute a
                 WHERE a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
                 ORDER BY array_position(i.indkey::int2[], a.attnum)),
           (SELECT count(*) FROM unnest(i.indkey::int2[]) k WHERE k = 0),
           i.indisunique,
           EXISTS (SELECT FROM pg_constraint k
                   WHERE k.conindid = i.indexrelid AND k.contype NOT IN ('f', 'x')),
           CASE WHEN x.relkind = 'I'
                THEN (SELECT coalesce(sum(pg_relation_size(t.relid)), 0) FROM pg_partition_tree(x.oid) t)
                ELSE pg_relation_size(x.oid) END::bigint / current_setting('block_size')::int
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = ANY(%s) AND i.indisvalid
    ORDER BY i.indrelid, i.indexrelid"""


def read_tables(asking: Asking, inserted: Mapping[int, float] | None = None) -> tuple[AppTable, ...]:
    """The tables that are used most, ``TABLES_MOST`` of them. ``inserted``: oid -> rows that were inserted
    between two looks."""
    rows = asking.rows("tables", _TABLES, [TABLES_MOST])
    if len(rows) == TABLES_MOST and (count := int(asking.value("tables", _ALL_TABLES) or 0)) > TABLES_MOST:
        asking.lack("tables", f"only {TABLES_MOST:,} of {count:,} were read, those that are used most")
    oids = [row[0] for row in rows]
    keys: dict[int, list[AppKey]] = defaultdict(list)
    others: dict[int, list[str]] = defaultdict(list)
    for oid, kind, names, definition, other, other_columns, conname in asking.rows(
        "constraints", _KEYS, [oids]
    ):
        if kind in ("c", "x"):
            others[oid].append(definition)
        else:
            keys[oid].append(AppKey(kind, tuple(names), definition, other, tuple(other_columns), conname))
    index_rows = asking.rows("indexes", _INDEXES, [oids])
    definitions = defaultdict(list, {oid: list(others[oid]) for oid in oids})
    for oid, definition, *_ in [*index_rows, *asking.rows("defaults", _DEFAULTS, [oids])]:
        definitions[oid].append(definition)
    named = {oid: _constants_in(found) for oid, found in definitions.items()}
    columns: dict[int, list[AppColumn]] = defaultdict(list)
    for oid, name, type_, not_null, default, identity, generated, labels, *stats in asking.rows(
        "columns", _COLUMNS, [json.dumps(named), oids, oids]
    ):
        distinct, nulls, width, correlation, usual, shares = stats
        columns[oid].append(
            AppColumn(
                name, type_, not_null, default, identity, generated,
                None if labels is None else tuple(labels),
                number_in(distinct), float(nulls or 0.0), width, number_in(correlation), tuple(usual or ()),
                tuple(shares or ()),
            )
        )  # fmt: skip
    counts = {row[0]: int(row[5]) for row in rows}
    indexes: dict[int, list[AppIndex]] = defaultdict(list)
    pages: dict[int, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
    for oid, definition, names, expressions, is_unique, is_of_key, count in index_rows:
        pages[oid].append((tuple(names), count))
        if not is_of_key:
            indexes[oid].append(
                index_of(
                    definition,
                    tuple(names),
                    expressions,
                    columns[oid],
                    keys[oid],
                    is_unique=is_unique,
                    rows=counts[oid],
                )
            )
    return tuple(
        AppTable(
            schema, relation, name, kind, rows_, size, tuple(columns[oid]), tuple(keys[oid]),
            tuple(indexes[oid]), options, tuple(triggers), tuple(others[oid]), is_unlogged,
            heap, tuple(pages[oid]), number_in(hot), by, tuple(key), parts, toast, (inserted or {}).get(oid),
        )
        for (oid, schema, relation, name, kind, rows_, size, options, is_unlogged, triggers, heap, hot, by,
             key, parts, toast) in rows
    )  # fmt: skip


def _constants_in(definitions: Iterable[str]) -> list[str]:
    """What stands in quotes, and whole numbers, in what the catalog writes."""
    found = set()
    for definition in definitions:
        for token in tokens(definition):
            if token.kind == "literal" and token.text.startswith("'"):
                found.add(token.text[1:-1].replace("''", "'"))
            elif token.kind == "number" and token.text.isdecimal():
                found.add(token.text)
    return sorted(found)
