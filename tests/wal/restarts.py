"""WAL that only restarts write: after a crash in mid-record, on new timelines, with new settings."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psycopg

from tests.wal.server import Server
from walproof.units import Lsn


def lose_a_continuation(server: Server, segment_size: int, content: str = "x") -> Lsn:
    """Crash with a record, full of ``content``, of which only the beginning reached the disk, and recover.

    The server (13.5, 14.1 and later) marks the lost rest as overwritten. This is PostgreSQL's own test
    026_overwrite_contrecord.pl. Returns where the record that was given up begins.
    """
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS filling (v text)")
        while _offset(connection, segment_size) < segment_size - 60_000:
            connection.execute("INSERT INTO filling SELECT repeat('z', 500) FROM generate_series(1, 20)")
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        start = Lsn.parse(str(row[0]))
        count = 100_000 // len(content)
        connection.execute("SELECT pg_logical_emit_message(true, 'lost', repeat(%s, %s))", (content, count))
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_insert_lsn())").fetchone()
        assert row is not None
    server.stop(signal.SIGQUIT)
    lost = server.wal / str(row[0])
    for file in sorted(server.wal.iterdir()):  # the segment with the rest, and those kept for later
        if file.is_file() and file.name >= lost.name:
            file.unlink()
    server.start()
    assert b"could not find" not in Path(server.log).read_bytes()[-200:]
    with server.connect() as connection:
        # More than was lost: pg_waldump of 13 wants room for the record before it sees that it was given up.
        connection.execute("INSERT INTO filling SELECT repeat('a', 500) FROM generate_series(1, 200)")
        connection.execute("CHECKPOINT")
    return start


def _offset(connection: psycopg.Connection[tuple[object, ...]], segment_size: int) -> int:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0])) % segment_size


def switch_timeline(server: Server) -> None:
    """Recover as if from an archive, which begins a new timeline."""
    server.stop()
    server.configure({"restore_command": "false"})
    (server.data / "recovery.signal").touch()
    server.start()
    with server.connect() as connection:
        # It may answer before it has promoted itself: 19 does.
        deadline = time.monotonic() + 60
        while connection.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
            assert time.monotonic() < deadline, server.log.read_text()[-2000:]
            time.sleep(0.05)
        connection.execute("CREATE TABLE after_recovery AS SELECT generate_series(1, 1000) AS i")


def promote(server: Server) -> None:
    """Start as a standby of nobody and promote it, which begins a new timeline without a checkpoint first."""
    server.stop()
    server.configure({"restore_command": "false"})
    (server.data / "standby.signal").touch()
    server.start()
    with server.connect() as connection:
        promoted = connection.execute("SELECT pg_promote(true, 60)").fetchone()
        assert promoted == (True,), server.log.read_text()[-2000:]
        connection.execute("CREATE TABLE after_promotion AS SELECT generate_series(1, 1000) AS i")


def change_settings(server: Server) -> None:
    """Settings whose changes are WAL: full_page_writes while running, max_connections by a restart."""
    for value in ("off", "on"):
        server.configure({"full_page_writes": value})
        with server.connect() as connection:
            connection.execute("CHECKPOINT; SELECT pg_reload_conf()")
            connection.execute("SELECT pg_sleep(0.3)")  # the checkpointer notices by its latch, and writes
            connection.execute("UPDATE t SET a = a + 1 WHERE id % 100 = 0")
    server.stop()
    server.configure({"max_connections": "90"})
    server.start()


def timeline_switches(server: Server) -> list[Lsn]:
    """Where each timeline ended, oldest first."""
    newest = max(server.wal.glob("*.history"))
    return [Lsn.parse(line.split()[1]) for line in newest.read_text().splitlines() if line.strip()]
