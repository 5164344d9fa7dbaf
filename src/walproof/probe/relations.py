"""Which relation a file belongs to: asks the catalogs of every database of a running server. An ordinary user
may do this for the databases that it may connect to. Nothing is written."""

from __future__ import annotations

import time

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError, one_line
from walproof.probe.connection import connect_foreign
from walproof.wal.relations import Relation, RelationMap

_KINDS = {
    "r": "table", "i": "index", "t": "toast table", "S": "sequence", "m": "materialized view", "I": "index",
}  # fmt: skip

# Catalogs that all databases share have database 0 in the WAL; mapped ones have their file number elsewhere,
# which pg_relation_filenode knows. A toast table's owner is found from its table, that of a toast index
# through both. pg_class has no index on reltoastrelid: a join reads it once, a subquery once a relation.
_QUERY = """
SELECT coalesce(nullif(c.reltablespace, 0), d.dattablespace)::bigint,
       CASE WHEN c.relisshared THEN 0 ELSE d.oid END::bigint,
       pg_relation_filenode(c.oid)::bigint,
       n.nspname || '.' || c.relname,
       c.relkind::text,
       am.amname::text,
       CASE WHEN m.nspname IN ('public', 'pg_catalog') THEN '' ELSE quote_ident(m.nspname) || '.' END
         || quote_ident(o.relname),
       i.indexrelid IS NOT NULL AND t.oid IS NOT NULL,
       pg_stat_get_numscans(c.oid),
       CASE WHEN c.relispartition AND c.relkind = 'r' THEN ARRAY(
         SELECT s.nspname || '.' || p.relname
         FROM pg_partition_ancestors(c.oid) WITH ORDINALITY x (relid, place)
         JOIN pg_class p ON p.oid = x.relid AND p.oid <> c.oid
         JOIN pg_namespace s ON s.oid = p.relnamespace
         ORDER BY x.place)
       ELSE '{}' END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN (SELECT oid, dattablespace FROM pg_database WHERE datname = current_database()) d
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_am am ON am.oid = c.relam AND c.relkind = 'i'
LEFT JOIN pg_class t ON t.reltoastrelid = coalesce(i.indrelid, c.oid)
LEFT JOIN pg_inherits h ON h.inhrelid = c.oid AND c.relispartition
LEFT JOIN pg_class o ON o.oid = coalesce(t.oid, i.indrelid, h.inhparent)
LEFT JOIN pg_namespace m ON m.oid = o.relnamespace
WHERE pg_relation_filenode(c.oid) IS NOT NULL
"""


def read_relations(conninfo: str) -> RelationMap:
    """The relations of every database of a cluster that the user may connect to. Raises ProbeError."""
    relations: dict[tuple[int, int, int], Relation] = {}
    left_out = []
    with connect_foreign(conninfo) as connection:
        try:
            row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
            databases = connection.execute(
                "SELECT datname::text FROM pg_database WHERE datallowconn"
                " ORDER BY datname <> current_database(), datname"
            ).fetchall()
        except psycopg.Error as error:
            raise ProbeError("could not ask which databases there are", detail=one_line(error)) from error
        assert row is not None
        version_num = connection.info.server_version
    for (name,) in databases:
        try:
            with connect_foreign(psycopg.conninfo.make_conninfo(conninfo, dbname=name)) as connection:
                found = _of_database(connection, name)
        except ProbeError as error:
            left_out.append(f"{name}: {error.detail or error.message}")
            continue
        for relation in found:
            relations.setdefault((relation.tablespace, relation.database, relation.relation), relation)
    if not relations:
        raise ProbeError("could not read the catalogs of any database", detail="\n".join(left_out))
    return RelationMap(
        system_identifier=int(row[0]) % 2**64,  # the server shows it as a signed number
        version_num=version_num,
        taken_at=time.time(),
        relations=tuple(relations.values()),
        left_out=tuple(left_out),
    )


def _of_database(connection: psycopg.Connection[TupleRow], name: str) -> list[Relation]:
    try:
        rows = connection.execute(_QUERY).fetchall()
    except psycopg.Error as error:
        raise ProbeError(
            f'could not read the catalogs of database "{name}"', detail=one_line(error)
        ) from error
    return [
        Relation(
            tablespace=space, database=database, relation=filenode,
            database_name=name if database else "", name=relation,
            kind="toast index" if of_toast else _KINDS.get(kind, str(kind)),
            method=method, owner=owner, idx_scan=scans if kind == "i" else None, ancestors=tuple(above),
        )
        for space, database, filenode, relation, kind, method, owner, of_toast, scans, above in rows
    ]  # fmt: skip
