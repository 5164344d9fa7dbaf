"""Operations that a usual load does not reach, each by the shortest way there.

What no server of 13 to 19 can be made to write stays out: XLOG/NOOP, Heap/HOT_UPDATE+INIT (a HOT update never
begins a page) and CommitTs/SETTS (13; nothing in that version asks for it).
"""

from __future__ import annotations

import time

import psycopg

from tests.wal.server import Server

Connection = psycopg.Connection[tuple[object, ...]]

# Index scans that visit deleted rows mark their entries as dead, which sequential and bitmap scans do not.
_INDEX_SCANS_ONLY = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off"


def run_rare(server: Server) -> None:
    """All of them, except what takes a restart (tests/wal/restarts.py) or a million transactions."""
    with server.connect() as connection:
        connection.execute(_INDEX_SCANS_ONLY)
        _brin_tuples_that_move(connection)
        _btree_with_a_fast_root(connection)
        _gin_posting_tree(connection)
        _gist_pages(connection)
        _hash_buckets(connection)
        _spgist_text(connection)
        _toast(connection)
    _locked_through_an_update(server)
    _prepared_with_everything(server)
    _tablespace(server)
    if server.setting("wal_level") == "minimal":
        _skipped_wal(server)
    else:
        _backup(server)
    if server.setting("wal_level") == "logical":
        _logical_rewrite(server)
    if server.setting("wal_level") == "replica" and server.major >= 19:
        _logical_decoding_on_demand(server)


def _brin_tuples_that_move(connection: Connection) -> None:
    """A summary that grows beyond its page moves to another (UPDATE), or to a new one (UPDATE+INIT)."""
    connection.execute("CREATE TABLE brin_text (id int, v text) WITH (fillfactor = 20)")
    connection.execute(
        "INSERT INTO brin_text SELECT i, lpad(i::text, 200, 'k') FROM generate_series(1, 2000) i"
    )
    connection.execute("CREATE INDEX ON brin_text USING brin (v) WITH (pages_per_range = 1)")
    for part in range(4):
        connection.execute(
            "UPDATE brin_text SET v = 'z' || (SELECT string_agg(md5((id * j)::text), '')"
            " FROM generate_series(1, 20) j) WHERE id %% 12 = %s",
            (part,),
        )


def _btree_with_a_fast_root(connection: Connection) -> None:
    """Three levels of which only the right edge stays; then the one leaf left splits again."""
    connection.execute("CREATE TABLE tall (v text)")
    connection.execute("ALTER TABLE tall ALTER v SET STORAGE PLAIN")
    connection.execute("CREATE INDEX tall_v ON tall (v)")
    row = (
        "INSERT INTO tall SELECT lpad(i::text, 8, '0') || repeat('w', 900)"
        " FROM generate_series(%s::int, %s::int) i"
    )
    connection.execute(row, (1, 600))
    connection.execute("DELETE FROM tall WHERE v < '00000598'")
    connection.execute("VACUUM tall")
    connection.execute("VACUUM tall")
    connection.execute(row, (1000, 1100))
    # Duplicates that were deleted, found dead by a scan, and removed when their page fills up.
    connection.execute("CREATE TABLE dead (k int)")
    connection.execute("CREATE INDEX dead_k ON dead (k) WITH (deduplicate_items = off)")
    for _ in range(3):
        connection.execute("INSERT INTO dead SELECT i FROM generate_series(1, 350) i")
        connection.execute("DELETE FROM dead")
        connection.execute("SELECT count(*) FROM dead WHERE k > 0")


def _gin_posting_tree(connection: Connection) -> None:
    """One key in so many rows that its posting tree has pages to lose."""
    connection.execute("CREATE TABLE posting (id int, tags int[])")
    connection.execute("CREATE INDEX ON posting USING gin (tags)")
    with connection.cursor().copy("COPY posting FROM STDIN") as copy:
        for i in range(40_000):
            copy.write_row((i, "{1}"))
    connection.execute("VACUUM posting")
    connection.execute("DELETE FROM posting WHERE id BETWEEN 8000 AND 32000")
    connection.execute("VACUUM posting")


def _gist_pages(connection: Connection) -> None:
    """Entries found dead by a scan and removed for room; pages emptied, deleted and used again."""
    connection.execute("CREATE TABLE boxes (id int, b box)")
    connection.execute("CREATE INDEX ON boxes USING gist (b)")
    row = (
        "INSERT INTO boxes SELECT i, box(point(i, 0), point(i + 1, 1))"
        " FROM generate_series(%s::int, %s::int) i"
    )
    connection.execute(row, (1, 2000))
    connection.execute("DELETE FROM boxes WHERE id %% 3 <> 0", ())
    connection.execute("SELECT count(*) FROM boxes WHERE b && box '(0,0),(3000,1)'")
    connection.execute(row, (1, 2000))
    connection.execute("DELETE FROM boxes WHERE id < 1500")
    for _ in range(3):  # empties leaves, deletes them, and then may offer them again
        connection.execute("VACUUM boxes")
        connection.execute("INSERT INTO boxes VALUES (9999, '(0,0),(1,1)')")
    connection.execute(row, (1, 3000))


def _hash_buckets(connection: Connection) -> None:
    """Overflow pages emptied in part, and entries found dead by a scan."""
    connection.execute("CREATE TABLE bucket (id int, k int)")
    connection.execute("CREATE INDEX bucket_k ON bucket USING hash (k)")
    connection.execute("INSERT INTO bucket SELECT i, i %% 2 FROM generate_series(1, 6000) i", ())
    connection.execute("DELETE FROM bucket WHERE id % 3 = 0")
    connection.execute("VACUUM bucket")
    for _ in range(3):
        connection.execute("INSERT INTO bucket SELECT i, 7 FROM generate_series(1, 500) i")
        connection.execute("DELETE FROM bucket WHERE k = 7")
        connection.execute("SELECT count(*) FROM bucket WHERE k = 7")


def _spgist_text(connection: Connection) -> None:
    """A radix tree with a common prefix, which a value without it splits, and a letter not seen before."""
    connection.execute("CREATE TABLE words (w text)")
    connection.execute("CREATE INDEX ON words USING spgist (w)")
    for prefix in ("a common prefix that is long enough ", "a common exception ", "z", "a common prefix "):
        for letter in "bcd":
            connection.execute(
                "INSERT INTO words SELECT %s || md5(i::text) FROM generate_series(1, 400) i",
                (prefix + letter,),
            )
    connection.execute("INSERT INTO words SELECT chr(i) || 'x' FROM generate_series(33, 126) i")
    connection.execute("DELETE FROM words WHERE w LIKE 'a%'")
    connection.execute("VACUUM words")


def _toast(connection: Connection) -> None:
    """Values stored out of line, one of many pages, and compressed ones."""
    connection.execute("CREATE TABLE wide (v text)")
    connection.execute("ALTER TABLE wide ALTER v SET STORAGE EXTERNAL")
    connection.execute("INSERT INTO wide SELECT repeat('long ', 100000)")
    connection.execute("ALTER TABLE wide ALTER v SET STORAGE EXTENDED")
    connection.execute("INSERT INTO wide SELECT repeat(md5(i::text), 500) FROM generate_series(1, 20) i")
    connection.execute("DELETE FROM wide")
    connection.execute("VACUUM wide")


def _locked_through_an_update(server: Server) -> None:
    """A row is locked while another transaction has updated it and not yet committed."""
    with server.connect() as first, server.connect() as two:
        first.execute("CREATE TABLE locked (id int PRIMARY KEY, v int)")
        first.execute("INSERT INTO locked SELECT i, 0 FROM generate_series(1, 50) i")
        first.execute("BEGIN; UPDATE locked SET v = 1; UPDATE locked SET v = 2 WHERE id < 20")
        two.execute("BEGIN; SELECT * FROM locked FOR KEY SHARE")
        first.execute("COMMIT")
        two.execute("COMMIT")


def _prepared_with_everything(server: Server) -> None:
    """Two-phase commit of subtransactions, dropped files, catalog changes, a long name."""
    with server.connect() as connection:
        for name, end in (("g" * 199, "COMMIT"), ("short", "ROLLBACK")):
            connection.execute("CREATE TABLE goes (id int)")
            connection.execute("BEGIN; CREATE TABLE comes (id int PRIMARY KEY); DROP TABLE goes")
            for point in range(3):
                connection.execute(f"SAVEPOINT p{point}; INSERT INTO comes VALUES ({point})")
            connection.execute(f"PREPARE TRANSACTION '{name}'")
            connection.execute("CHECKPOINT")  # its state goes from the WAL to a file
            connection.execute(f"{end} PREPARED '{name}'")
            connection.execute("DROP TABLE IF EXISTS comes, goes")


def _tablespace(server: Server) -> None:
    place = server.new_folder("tablespace")
    with server.connect() as connection:
        connection.execute(f"CREATE TABLESPACE outside LOCATION '{place}'")
        connection.execute("CREATE TABLE there (id int PRIMARY KEY) TABLESPACE outside")
        connection.execute("INSERT INTO there SELECT generate_series(1, 500)")
        connection.execute("ALTER INDEX there_pkey SET TABLESPACE outside")
        connection.execute("ALTER TABLE there SET TABLESPACE pg_default")
        connection.execute("DROP TABLE there")
        connection.execute("DROP TABLESPACE outside")


def _backup(server: Server) -> None:
    begin, end = (
        ("pg_backup_start('b', true)", "pg_backup_stop(false)")
        if server.major >= 15
        else ("pg_start_backup('b', true, false)", "pg_stop_backup(false, false)")
    )
    with server.connect() as connection:
        connection.execute(f"SELECT {begin}")
        connection.execute("INSERT INTO locked SELECT i, 0 FROM generate_series(100, 150) i")
        connection.execute(f"SELECT {end}")


def _skipped_wal(server: Server) -> None:
    """What is made in one transaction is not logged under minimal, but synced or imaged at its end."""
    with server.connect() as connection, connection.transaction():
        for name, rows in (("small", 100), ("large", 30_000)):
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, b box)")
            connection.execute(f"CREATE INDEX ON {name} USING gist (b)")
            connection.execute(
                f"INSERT INTO {name} SELECT i, box(point(i, i), point(i, i))"
                f" FROM generate_series(1, {rows}) i"
            )
            connection.execute(f"TRUNCATE {name}")
            connection.execute(f"INSERT INTO {name} SELECT i FROM generate_series(1, {rows}) i")


def _logical_rewrite(server: Server) -> None:
    """A catalog is rewritten while a replication slot may still need the old places of its rows."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")
        connection.execute("CREATE TABLE seen (id int) WITH (user_catalog_table = true)")
        connection.execute("INSERT INTO seen SELECT generate_series(1, 300)")
        connection.execute("UPDATE seen SET id = id + 1")
        connection.execute("VACUUM FULL seen")
        connection.execute("SELECT pg_drop_replication_slot('slot')")


def _logical_decoding_on_demand(server: Server) -> None:
    """From 19 a logical slot switches logical decoding on below wal_level=logical, and its end off again."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")
        connection.execute("INSERT INTO locked SELECT i, 0 FROM generate_series(200, 250) i")
        connection.execute("SELECT pg_drop_replication_slot('slot')")
        deadline = time.monotonic() + 30
        while server.setting("effective_wal_level") != "replica" and time.monotonic() < deadline:
            time.sleep(0.05)  # the checkpointer switches it off, when it comes to it


def truncate_logs_of_transactions(server: Server) -> None:
    """So many transactions and multixacts, all frozen, that whole files of their logs are given up.

    One file holds 1,048,576 transactions or 65,536 multixacts. The transactions are parts of one, whose
    commit record becomes some megabytes long.
    """
    with server.connect() as first, server.connect() as two:
        first.execute(
            "CREATE UNLOGGED TABLE burnt (); DO $$ BEGIN FOR i IN 1..1100000 LOOP BEGIN"
            " INSERT INTO burnt DEFAULT VALUES; EXCEPTION WHEN division_by_zero THEN NULL;"
            " END; END LOOP; END $$"
        )
        first.execute("CREATE TABLE many (id int PRIMARY KEY, v int)")
        first.execute("INSERT INTO many SELECT i, 0 FROM generate_series(1, 70000) i")
        first.execute("BEGIN; SELECT id FROM many FOR KEY SHARE")
        # Each lock in a subtransaction of its own makes another pair of lockers.
        two.execute(
            "DO $$ BEGIN FOR i IN 1..70000 LOOP BEGIN PERFORM 1 FROM many WHERE id = i FOR SHARE;"
            " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
        )
        first.execute("COMMIT")
        first.execute("UPDATE pg_database SET datallowconn = true WHERE datname = 'template0'")
    for database in ("template0", "template1", "postgres"):
        with server.connect(database) as connection:
            connection.execute("SET vacuum_freeze_min_age = 0; SET vacuum_multixact_freeze_min_age = 0")
            connection.execute("VACUUM (FREEZE)")
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
