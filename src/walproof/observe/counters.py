"""What a server has counted, under one name in every version from 13 to 19.

Every query reads one view or calls one function, so that a right that is missing costs its own figures alone.
Manual, "The Cumulative Statistics System"; where a column moved, the version says from which view it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CounterQuery:
    """One query that returns one row; its columns are the counters' names."""

    about: str
    """What is missing if it is refused."""
    sql: str
    since: int = 13
    until: int = 99


_CHECKPOINTER = """
    SELECT num_timed AS checkpoints_timed, num_requested AS checkpoints_requested,
           write_time AS checkpoint_write_ms, sync_time AS checkpoint_sync_ms,
           buffers_written AS checkpoint_buffers
    FROM pg_stat_checkpointer"""
# num_timed counts those that an idle server skips (CheckpointerMain, checkpointer.c); num_done does not.
_CHECKPOINTER_18 = _CHECKPOINTER.replace(
    "num_timed AS", "greatest(0, least(num_timed, num_done - num_requested)) AS"
)
_BGWRITER_BEFORE_17 = """
    SELECT checkpoints_timed, checkpoints_req AS checkpoints_requested,
           checkpoint_write_time AS checkpoint_write_ms, checkpoint_sync_time AS checkpoint_sync_ms,
           buffers_checkpoint AS checkpoint_buffers, buffers_backend AS backend_buffers,
           buffers_backend_fsync AS backend_fsyncs
    FROM pg_stat_bgwriter"""
_WAL = "SELECT wal_records, wal_fpi, wal_bytes, wal_buffers_full FROM pg_stat_wal"
_WAL_19 = "SELECT wal_records, wal_fpi, wal_bytes, wal_fpi_bytes, wal_buffers_full FROM pg_stat_wal"
_WAL_FLUSHES = "SELECT wal_sync AS wal_flushes, wal_sync_time AS wal_flush_ms FROM pg_stat_wal"
_WAL_FLUSHES_IO = """
    SELECT sum(fsyncs) AS wal_flushes, sum(fsync_time) AS wal_flush_ms
    FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'"""
_BACKEND_IO = """
    SELECT sum(writes) AS backend_buffers, sum(fsyncs) AS backend_fsyncs
    FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'"""
_DATABASES = """
    SELECT sum(xact_commit) AS commits, sum(xact_rollback) AS rollbacks, sum(tup_inserted) AS rows_inserted,
           sum(tup_updated) AS rows_updated, sum(tup_deleted) AS rows_deleted,
           sum(checksum_failures) AS checksum_failures
    FROM pg_stat_database"""
# Asked without taking one.
_IDS = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS next_xid"
_ARCHIVER = """
    SELECT archived_count AS archived, failed_count AS archive_failures,
           extract(epoch FROM last_archived_time) AS last_archived_at,
           extract(epoch FROM last_failed_time) AS last_archive_failure_at
    FROM pg_stat_archiver"""

_QUERIES = (
    CounterQuery("checkpoints", _BGWRITER_BEFORE_17, until=16),
    CounterQuery("checkpoints", _CHECKPOINTER, since=17, until=17),
    CounterQuery("checkpoints", _CHECKPOINTER_18, since=18),
    CounterQuery("WAL", _WAL, since=14, until=18),
    CounterQuery("WAL", _WAL_19, since=19),
    CounterQuery("flushes of WAL", _WAL_FLUSHES, since=14, until=17),
    CounterQuery("flushes of WAL", _WAL_FLUSHES_IO, since=18),
    CounterQuery("writes of backends", _BACKEND_IO, since=17),
    CounterQuery("transactions", _DATABASES),
    CounterQuery("the archiver", _ARCHIVER),
    CounterQuery("transaction ids", _IDS),
)


def counter_queries(major: int) -> Iterator[CounterQuery]:
    """The queries that a version has."""
    return (query for query in _QUERIES if query.since <= major <= query.until)
