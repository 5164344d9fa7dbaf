"""A load that makes every resource manager write: what the decoder is compared with pg_waldump on.

``size`` is the number of rows of the usual table; everything else follows from it.
"""

from __future__ import annotations

import contextlib

import psycopg

from tests.wal.rare import run_rare
from tests.wal.server import Server

_INDEXES = [
    ("btree", "a"),
    ("hash", "h"),
    ("gin", "tags"),
    ("gist", "b"),
    ("spgist", "p"),
    ("brin", "n"),
]


def run_load(server: Server, size: int) -> None:
    """Everything below, one after the other."""
    with server.connect() as connection:
        _heap_and_indexes(connection, size)
        _transactions(connection, size)
        _logical(connection, server.setting("wal_level"))
        _catalog(connection, server.major)
        _extension(connection, size)
    _multixacts(server)
    _origin(server)
    _database(server)
    run_rare(server)
    with server.connect() as connection:
        _maintenance(connection)


def run_small_load(server: Server, size: int) -> None:
    """Without what writes megabytes at any size: databases, catalogs rewritten, everything frozen."""
    with server.connect() as connection:
        _heap_and_indexes(connection, size)
        _transactions(connection, size)
        _logical(connection, server.setting("wal_level"))
    _multixacts(server)
    _origin(server)


def _heap_and_indexes(connection: psycopg.Connection[tuple[object, ...]], size: int) -> None:
    connection.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, a int, h text, n bigint, tags int[], b box, p point,"
        " filler text) WITH (fillfactor = 70)"
    )
    row = (
        "INSERT INTO t (a, h, n, tags, b, p, filler)"
        " SELECT (i * 7919) %% 1000, md5(i::text), i, ARRAY[i %% 17, i %% 5, i],"
        " box(point(i %% 97, i %% 89), point(i %% 97 + 1, i %% 89 + 1)), point(i %% 101, i %% 103),"
        " repeat('x', i %% 200)"
        " FROM generate_series(%s::int, %s::int) i"
    )
    connection.execute(row, (1, size // 2))
    for method, column in _INDEXES:
        options = " WITH (pages_per_range = 2, autosummarize = off)" if method == "brin" else ""
        connection.execute(f"CREATE INDEX t_{method} ON t USING {method} ({column}){options}")
    # One small GIN index without a pending list, for direct insertion into its posting trees.
    connection.execute("CREATE INDEX t_gin_direct ON t USING gin (tags) WITH (fastupdate = off)")
    connection.execute(row, (size // 2 + 1, size))
    for i in range(5):
        connection.execute("INSERT INTO t (a, h) VALUES (%s, %s)", (i, f"single {i}"))
    connection.execute("CHECKPOINT")
    connection.execute("UPDATE t SET filler = 'hot' WHERE id % 10 = 0")
    connection.execute("UPDATE t SET a = a + 1, h = h || 'u', p = point(id, 1) WHERE id % 7 = 0")
    connection.execute("SELECT count(*) FROM t WHERE id % 10 = 0")  # prunes, sets hint bits
    connection.execute("SELECT id FROM t WHERE id % 50 = 0 FOR UPDATE")
    connection.execute("DELETE FROM t WHERE id %% 3 = 0 OR id BETWEEN %s AND %s", (size // 4, size // 2))
    connection.execute("VACUUM t")
    connection.execute("SELECT brin_summarize_new_values('t_brin'), brin_desummarize_range('t_brin', 0)")
    connection.execute("SELECT gin_clean_pending_list('t_gin')")
    connection.execute(row, (1, size // 3))
    connection.execute("VACUUM (FREEZE) t")
    with connection.cursor().copy("COPY t (a, h, filler) FROM STDIN") as copy:
        for i in range(size):
            copy.write_row((i, f"copy {i}", "y" * (i % 300)))
    connection.execute("CREATE TABLE few (id int)")
    connection.execute("INSERT INTO few SELECT generate_series(1, 10)")
    connection.execute("TRUNCATE few")
    connection.execute("CREATE UNLOGGED TABLE unlogged AS SELECT * FROM t LIMIT 100")
    connection.execute("CREATE TABLE copy_of_t AS SELECT * FROM t")
    connection.execute("ALTER TABLE copy_of_t REPLICA IDENTITY FULL")
    connection.execute("DELETE FROM copy_of_t WHERE id % 2 = 0")
    # Speculative insertion: confirmed, and abandoned in favour of an update.
    for _ in range(2):
        connection.execute(
            "INSERT INTO t (id, a) SELECT i, 0 FROM generate_series(900000, 900020) i"
            " ON CONFLICT (id) DO UPDATE SET a = t.a + 1"
        )


def _transactions(connection: psycopg.Connection[tuple[object, ...]], size: int) -> None:
    connection.execute("CREATE TABLE x (id int, note text)")
    with connection.transaction():
        for i in range(70):  # more than 64: an assignment record
            with connection.transaction(), contextlib.suppress(ZeroDivisionError):
                connection.execute("INSERT INTO x VALUES (%s, 'sub')", (i,))
    connection.execute("BEGIN; INSERT INTO x VALUES (1, 'gone'); ROLLBACK")
    for name, end in (("kept", "COMMIT"), ("dropped", "ROLLBACK")):
        connection.execute(f"BEGIN; INSERT INTO x VALUES (2, '{name}'); PREPARE TRANSACTION '{name}'")
        connection.execute(f"{end} PREPARED '{name}'")
    # Pages of the commit log and of commit timestamps begin every 32768 and 819 transactions.
    burnt = 900 if size < 2000 else 40000
    connection.execute(
        "DO $$ BEGIN FOR i IN 1.." + str(burnt) + " LOOP BEGIN INSERT INTO x VALUES (i, 'burnt');"
        " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
    )
    connection.execute("CREATE SEQUENCE s CACHE 5; SELECT nextval('s') FROM generate_series(1, 100)")
    connection.execute("SELECT setval('s', 1000)")


def _logical(connection: psycopg.Connection[tuple[object, ...]], wal_level: str) -> None:
    connection.execute("SELECT pg_logical_emit_message(true, 'walproof', repeat('m', 20000))")
    connection.execute("SELECT pg_logical_emit_message(false, 'walproof', 'short')")
    if wal_level != "minimal":
        connection.execute("SELECT pg_create_restore_point('here')")
    connection.execute("SELECT pg_switch_wal()")


def _catalog(connection: psycopg.Connection[tuple[object, ...]], major: int) -> None:
    connection.execute("VACUUM FULL pg_class")  # a mapped relation
    connection.execute("CREATE TABLE d (id int PRIMARY KEY, v text)")
    connection.execute("ALTER TABLE d ADD COLUMN w int DEFAULT 7, ALTER COLUMN v TYPE varchar(10)")
    connection.execute("CLUSTER t USING t_pkey; REINDEX TABLE d; DROP TABLE d")
    if major >= 15:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE place LOCATION ''")
        connection.execute("ALTER TABLE few SET TABLESPACE place")
        connection.execute("DROP TABLE few")
        connection.execute("DROP TABLESPACE place")


def _extension(connection: psycopg.Connection[tuple[object, ...]], size: int) -> None:
    """Generic records, from whichever extension with an index of its own is there."""
    names = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
    if ("bloom",) in names:
        connection.execute("CREATE EXTENSION bloom; CREATE INDEX t_bloom ON t USING bloom (a)")
        connection.execute("INSERT INTO t (a) SELECT generate_series(1, %s::int)", (size // 10,))
    elif ("vector",) in names:
        connection.execute("CREATE EXTENSION vector; CREATE TABLE v (e vector(3))")
        connection.execute("INSERT INTO v SELECT ARRAY[i, i %% 7, 1] FROM generate_series(1, 300) i", ())
        connection.execute("CREATE INDEX ON v USING ivfflat (e vector_l2_ops) WITH (lists = 5)")
        connection.execute("INSERT INTO v SELECT ARRAY[i, i %% 7, 1] FROM generate_series(1, 50) i", ())


def _multixacts(server: Server) -> None:
    with server.connect() as first, server.connect() as two:
        for lock in ("FOR SHARE", "FOR KEY SHARE"):
            first.execute("BEGIN")
            two.execute("BEGIN")
            first.execute(f"SELECT id FROM t WHERE id < 100 {lock}")
            two.execute("SELECT id FROM t WHERE id < 100 FOR KEY SHARE")
            first.execute("COMMIT")
            two.execute("UPDATE t SET a = 1 WHERE id < 50")
            two.execute("COMMIT")


def _origin(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("SELECT pg_replication_origin_create('elsewhere')")
        connection.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        with connection.transaction():
            connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
            connection.execute("INSERT INTO x VALUES (3, 'from elsewhere')")
        connection.execute("SELECT pg_replication_origin_session_reset()")
        connection.execute("SELECT pg_replication_origin_advance('elsewhere', '0/5678')")
        connection.execute("SELECT pg_replication_origin_drop('elsewhere')")


def _database(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("CREATE DATABASE other")
        if server.major >= 15:
            connection.execute("DROP DATABASE other")
            connection.execute("CREATE DATABASE other STRATEGY file_copy")
        connection.execute("DROP DATABASE other")


def _maintenance(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    connection.execute("DELETE FROM t WHERE id % 5 <> 0")
    connection.execute("VACUUM (FREEZE, ANALYZE)")
    connection.execute("CHECKPOINT")
    connection.execute("INSERT INTO t (a, h) SELECT i, md5(i::text) FROM generate_series(1, 50) i")
    connection.execute("DROP TABLE copy_of_t")
