"""A word in every place where a server writes somebody's data into its WAL, and the search for it."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psycopg
import pyarrow as pa

from tests.wal.restarts import lose_a_continuation, switch_timeline
from tests.wal.server import Server
from walproof.units import Lsn
from walproof.wal import records

WORD = "kNrYq7Zw"
"""Eight bytes that no server writes by itself."""
_BYTES = WORD.encode()
_NUMBER = int.from_bytes(_BYTES, "little")
_FLOAT = struct.unpack("<d", _BYTES)[0]
_SINGLES = struct.unpack("<ff", _BYTES)
_TELLING = [_BYTES[at : at + 5] for at in range(4)]
MB = 1 << 20

_CARRIERS = {
    "XLOG": "RESTORE_POINT FPI FPI_FOR_HINT",
    "Transaction": "PREPARE COMMIT_PREPARED ABORT_PREPARED",
    "Tablespace": "CREATE",
    "Heap2": "MULTI_INSERT",
    "Heap": "INSERT DELETE UPDATE HOT_UPDATE INPLACE INSERT+INIT",
    "Btree": "INSERT_LEAF SPLIT_R",
    "Gin": "INSERT INSERT_LISTPAGE UPDATE_META_PAGE",
    "Gist": "PAGE_UPDATE",
    "SPGist": "ADD_LEAF PICKSPLIT",
    "BRIN": "SAMEPAGE_UPDATE",
    "Sequence": "LOG",
    "LogicalMessage": "MESSAGE",
}
"""On every version."""

_ROWS = (
    "INSERT INTO {0} SELECT i, '{1}' || md5(i::text), {2} - i %% 3, ARRAY['{1}' || i, '{1}'],"
    " box(point({3!r}, i), point({3!r}, i + 1)) FROM generate_series(%s::int, %s::int) i"
)


def finds(data: bytes) -> Iterator[int]:
    """Where five bytes of the word stand in a row."""
    for part in _TELLING:
        at = data.find(part)
        while at >= 0:
            yield at
            at = data.find(part, at + 1)


def left_in(folder: Path) -> list[str]:
    """Files that hold some of the word, in their names or, decompressed where they are, inside."""
    found = []
    for file in folder.rglob("*"):
        if file.is_file() and (any(finds(contents(file))) or any(finds(file.name.encode()))):
            found.append(file.name)
    return found


def contents(file: Path) -> bytes:
    """What is in it, decompressed: nothing could be found in the compressed bytes."""
    if file.suffix != ".zst":
        return file.read_bytes()
    data: bytes = pa.input_stream(file, compression="zstd").read()
    return data


def carriers(wal: Path, start: Lsn) -> Mapping[str, int]:
    """Operation -> records with the word in them, of one timeline."""
    places = sorted(_places(wal))
    found: Counter[str] = Counter()
    at = 0
    for record in records(wal, start=start):
        while at < len(places) and places[at] < record.lsn:
            at += 1
        if at < len(places) and places[at] < record.end:
            found[f"{record.rmgr}/{record.operation}"] += 1
    return found


def _places(wal: Path) -> Iterable[int]:
    for file in wal.iterdir():
        if len(file.name) == 24:
            start = int(file.name[8:16], 16) * (1 << 32) + int(file.name[16:], 16) * MB
            yield from (start + at for at in finds(file.read_bytes()))


def write_everywhere(server: Server) -> set[str]:
    """Rows, indexes, names, comments, messages, prepared transactions: all that a statement can bring.

    Returns the operations whose records hold the word then.
    """
    with server.connect() as connection:
        _rows(connection)
        _images(server, connection)
        _names(server, connection)
        _messages(connection)
        _prepared(connection)
        generic = {"Generic/Generic"} if _vectors(connection) else set()
    with server.connect() as connection:
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", (WORD,))
        with connection.transaction():
            connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
            connection.execute(f'DELETE FROM "{WORD}_t" WHERE id < 5')
        connection.execute("SELECT pg_replication_origin_session_reset()")
    _backup(server)
    return generic | {f"{rmgr}/{name}" for rmgr, names in _CARRIERS.items() for name in names.split()}


def _rows(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    table = f'"{WORD}_t"'
    rows = _ROWS.format(table, WORD, _NUMBER, _FLOAT)
    connection.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, v text, n bigint, tags text[], b box)"
        " WITH (fillfactor = 50)"
    )
    for method, column in (("btree", "v"), ("btree", "n"), ("hash", "v"), ("gin", "tags"), ("gist", "b"),
                           ("spgist", "v"), ("brin", "v"), ("brin", "n")):  # fmt: skip
        options = " WITH (pages_per_range = 1)" if method == "brin" else ""
        connection.execute(f"CREATE INDEX ON {table} USING {method} ({column}){options}")
    connection.execute(rows, (1, 3000))
    connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    for i in range(4000, 4040):
        connection.execute(rows, (i, i))
    connection.execute(f"SELECT gin_clean_pending_list('\"{WORD}_t_tags_idx\"')")
    connection.execute(
        f"UPDATE {table} SET b = box(point({_FLOAT!r}, 5), point(0, 0)) WHERE id %% 50 = 0", ()
    )
    connection.execute(f"UPDATE {table} SET v = '{WORD}' || v WHERE id %% 9 = 0", ())
    connection.execute(f"DELETE FROM {table} WHERE id %% 10 = 1", ())
    connection.execute(f"SELECT brin_summarize_new_values('\"{WORD}_t_v_idx3\"')")
    connection.execute(f"CREATE TABLE plain (v text); INSERT INTO plain VALUES ('{WORD}'), ('{WORD}')")
    connection.execute(f"UPDATE plain SET v = '{WORD}2'")
    with connection.cursor().copy("COPY plain FROM STDIN") as copy:
        for i in range(500):
            copy.write_row((f"{WORD} {i}",))
    connection.execute("CREATE TABLE long (v text); ALTER TABLE long ALTER v SET STORAGE EXTERNAL")
    connection.execute(f"INSERT INTO long VALUES (repeat('{WORD}', 5000))")
    connection.execute(f"CREATE SEQUENCE s; SELECT setval('s', {_NUMBER})")
    connection.execute(f"VACUUM ANALYZE {table}")


def _images(server: Server, connection: psycopg.Connection[tuple[object, ...]]) -> None:
    methods = ["off", "on"] + [name for name in ("lz4", "zstd") if server.accepts("wal_compression", name)]
    for method in methods:
        connection.execute("CHECKPOINT")
        connection.execute(f"SET wal_compression = '{method}'")
        connection.execute(f"UPDATE plain SET v = '{WORD}' || '{method}'")
        connection.execute(f"INSERT INTO plain VALUES ('{WORD} hint')")
        connection.execute("CHECKPOINT")
        connection.execute("SELECT count(*) FROM plain")
        connection.execute("REINDEX TABLE pg_class")
        connection.execute("VACUUM FULL plain")
    connection.execute("RESET wal_compression")


def _names(server: Server, connection: psycopg.Connection[tuple[object, ...]]) -> None:
    connection.execute(f"COMMENT ON TABLE plain IS '{WORD}'")
    connection.execute(f"CREATE ROLE \"{WORD}_r\" PASSWORD '{WORD}'")
    connection.execute(f"CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$SELECT '{WORD}'$$")
    connection.execute(f'CREATE PUBLICATION "{WORD}_p" FOR TABLE long')
    connection.execute("SELECT pg_replication_origin_create(%s)", (WORD,))
    place = server.new_folder(f"{WORD}_place")
    connection.execute(f"CREATE TABLESPACE \"{WORD}_s\" LOCATION '{place}'")
    connection.execute(f'CREATE TABLE elsewhere (v text) TABLESPACE "{WORD}_s"; DROP TABLE elsewhere')
    connection.execute(f'DROP TABLESPACE "{WORD}_s"')
    connection.execute(f'CREATE DATABASE "{WORD}_d"')
    connection.execute(f'DROP DATABASE "{WORD}_d"')
    connection.execute(f'CREATE TABLE "{WORD}_u" (i int); TRUNCATE "{WORD}_u"; DROP TABLE "{WORD}_u"')
    connection.execute("VACUUM FULL pg_class")


def _messages(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    for transactional in ("true", "false"):
        connection.execute(
            f"SELECT pg_logical_emit_message({transactional}, '{WORD}', repeat('{WORD}', 9000))"
        )
    connection.execute(f"SELECT pg_create_restore_point('{WORD}')")


def _prepared(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    for end in ("COMMIT", "ROLLBACK"):
        connection.execute(f"BEGIN; INSERT INTO plain VALUES ('{WORD}'); PREPARE TRANSACTION '{WORD} {end}'")
        connection.execute(f"{end} PREPARED '{WORD} {end}'")


def _vectors(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Generic records, where an extension is there whose index holds what the rows do; whether it is."""
    is_there = bool(
        connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchall()
    )
    if is_there:
        values = f"ARRAY[{_SINGLES[0]!r}, {_SINGLES[1]!r}, i]::float4[]"
        connection.execute("CREATE EXTENSION vector; CREATE TABLE v (e vector(3))")
        connection.execute(f"INSERT INTO v SELECT {values} FROM generate_series(1, 100) i")
        connection.execute("CREATE INDEX ON v USING ivfflat (e vector_l2_ops) WITH (lists = 2)")
        connection.execute(f"INSERT INTO v SELECT {values} FROM generate_series(1, 50) i")
    return is_there


def _backup(server: Server) -> None:
    """Its label goes into a file in pg_wal."""
    begin, end = (
        ("pg_backup_start(%s, true)", "pg_backup_stop(false)")
        if server.major >= 15
        else ("pg_start_backup(%s, true, false)", "pg_stop_backup(false, false)")
    )
    with server.connect() as connection:
        connection.execute(f"SELECT {begin}", (WORD,))
        connection.execute(f"SELECT {end}")
    (server.wal / "000000010000000000000001.00000028.backup").write_text(f"LABEL: {WORD}\n")


def crash_and_branch(server: Server) -> None:
    """Lose the end of a record that is full of the word, then begin a timeline, the word as its reason."""
    lose_a_continuation(server, MB, WORD)
    switch_timeline(server)
    with server.connect() as connection:
        connection.execute(f"INSERT INTO plain VALUES ('{WORD} after')")
    server.insert_lsn()
    history = server.wal / "00000002.history"
    # What a recovery that ended at a restore point of that name writes.
    reason = f'at restore point "{WORD}"'
    history.write_text(history.read_text().replace("no recovery target specified", reason))
