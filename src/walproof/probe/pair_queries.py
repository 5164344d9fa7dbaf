"""What is asked of a pair, version by version (manual, "The Cumulative Statistics System", "Recovery Control
Functions"). Positions come as bytes, times as seconds.
"""

from __future__ import annotations

import psycopg
from psycopg import conninfo
from psycopg.rows import TupleRow

from walproof.facts.replication import RECOVERY_TARGETS, RUNNING, Receiver

CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"

# Of a recovery target only whether there is one: its name may be anything.
SETTINGS = f"""
    SELECT name, CASE WHEN name = ANY ('{{{",".join(RECOVERY_TARGETS)}}}') THEN (setting <> '')::text
                      ELSE setting END
      FROM pg_settings WHERE name = ANY ('{{{",".join(RECOVERY_TARGETS)}}}') OR name IN (
        'primary_conninfo', 'primary_slot_name', 'restore_command', 'cluster_name', 'archive_mode',
        'recovery_min_apply_delay', 'max_standby_streaming_delay', 'max_standby_archive_delay',
        'hot_standby_feedback', 'recovery_prefetch', 'maintenance_io_concurrency', 'shared_buffers',
        'wal_receiver_status_interval', 'wal_receiver_timeout', 'wal_sender_timeout', 'wal_keep_size',
        'max_slot_wal_keep_size', 'synchronous_standby_names', 'synchronous_commit', 'full_page_writes',
        'wal_compression', 'max_connections', 'max_worker_processes', 'max_wal_senders',
        'max_prepared_transactions', 'max_locks_per_transaction', 'idle_replication_slot_timeout')
    """

SENDERS = """
    SELECT r.pid, r.application_name, r.state, r.sync_state, (r.sent_lsn - '0/0')::int8,
           extract(epoch FROM r.write_lag)::float8, extract(epoch FROM r.flush_lag)::float8,
           extract(epoch FROM r.replay_lag)::float8,
           extract(epoch FROM clock_timestamp() - r.reply_time)::float8, s.slot_name::text
      FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
     WHERE r.state <> 'backup'
    """

IN_RECOVERY = "SELECT pg_is_in_recovery()"

SLOTS = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"

SLOT_NAME = """
    SELECT coalesce(
        (SELECT nullif(slot_name, '') FROM pg_stat_wal_receiver),
        nullif(current_setting('primary_slot_name'), ''))
    """

# Before its first write a walreceiver has written what was there when it began to stream; the server says
# NULL (src/backend/replication/walreceiver.c, pg_stat_get_wal_receiver).
RECEIVER = """
    SELECT pid, status, (coalesce(written_lsn, flushed_lsn, receive_start_lsn) - '0/0')::int8,
           (coalesce(flushed_lsn, receive_start_lsn) - '0/0')::int8,
           extract(epoch FROM clock_timestamp() - last_msg_receipt_time)::float8
      FROM pg_stat_wal_receiver WHERE pid IS NOT NULL
    """

_EVENT = f"coalesce(wait_event_type || '/' || wait_event, '{RUNNING}')"

PROCESSES = f"""
    SELECT backend_type, pid, {_EVENT}
      FROM pg_stat_activity WHERE backend_type IN ('startup', 'walreceiver')
    """

BLOCKERS = """
    SELECT pid, usename::text, application_name, state,
           extract(epoch FROM clock_timestamp() - xact_start)::float8
      FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
     ORDER BY xact_start LIMIT 3
    """

# In a cascade the upstream sends what it has received and flushed, or restored and replayed
# (src/backend/replication/walsender.c, GetStandbyFlushRecPtr).
_PRIMARY_END = "pg_current_wal_insert_lsn()"
STANDBY_END = "greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
"""End of the WAL that a server in recovery has. What it has replayed may lie far below, or stand still."""

OLDEST_SEGMENT = "SELECT min(substr(name, 9)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
"""The oldest segment in pg_wal, without its timeline. The list may be long."""


def upstream(is_in_recovery: bool) -> str:
    """Clock, end of WAL, end of what may be sent."""
    end = STANDBY_END if is_in_recovery else _PRIMARY_END
    flushed = STANDBY_END if is_in_recovery else "pg_current_wal_flush_lsn()"
    return f"""
        SELECT extract(epoch FROM clock_timestamp())::float8, ({end} - '0/0')::int8,
               ({flushed} - '0/0')::int8
        """


def tick(is_in_recovery: bool) -> str:
    """End of WAL, and what the walsender, which is a parameter, waits for."""
    end = STANDBY_END if is_in_recovery else _PRIMARY_END
    return f"SELECT ({end} - '0/0')::int8, (SELECT {_EVENT} FROM pg_stat_activity WHERE pid = %s::int)"


def standby(version_num: int) -> str:
    """Clock, received, replayed, last commit, pause, startup's reads, conflicts, prefetch.

    From 19 on, the three that pg_stat_recovery has are of one moment. It is empty once a standby is promoted;
    then the functions answer, or complain, as they do before 19."""
    pause = (
        "pg_get_wal_replay_pause_state()"
        if version_num >= 140000
        else "CASE WHEN pg_is_wal_replay_paused() THEN 'paused' ELSE 'not paused' END"
    )
    replayed, committed, source = "pg_last_wal_replay_lsn()", "pg_last_xact_replay_timestamp()", ""
    if version_num >= 190000:
        replayed = f"coalesce(r.last_replayed_end_lsn, {replayed})"
        committed = f"coalesce(r.recovery_last_xact_time, {committed})"
        pause = f"CASE WHEN r.pause_state IS NULL THEN {pause} ELSE r.pause_state END"
        source = "FROM (SELECT 1) AS always LEFT JOIN pg_stat_recovery r ON true"
    reads = "NULL"
    if version_num >= 160000:
        reads = "(SELECT sum(reads)::int8 FROM pg_stat_io WHERE backend_type = 'startup'"
        reads += " AND object = 'relation')"
    slot = ", 'logical slot', sum(confl_active_logicalslot)" if version_num >= 160000 else ""
    prefetch = "NULL"
    if version_num >= 150000:
        prefetch = """(SELECT jsonb_build_object('prefetch', prefetch, 'hit', hit, 'skip_init', skip_init,
            'skip_new', skip_new, 'skip_fpw', skip_fpw, 'skip_rep', skip_rep, 'wal_distance', wal_distance,
            'block_distance', block_distance, 'io_depth', io_depth) FROM pg_stat_recovery_prefetch)"""
    return f"""
        SELECT extract(epoch FROM clock_timestamp())::float8,
               (pg_last_wal_receive_lsn() - '0/0')::int8,
               ({replayed} - '0/0')::int8,
               extract(epoch FROM {committed})::float8,
               {pause}, {reads},
               (SELECT jsonb_build_object('tablespace', sum(confl_tablespace), 'lock', sum(confl_lock),
                    'snapshot', sum(confl_snapshot), 'bufferpin', sum(confl_bufferpin),
                    'deadlock', sum(confl_deadlock){slot}) FROM pg_stat_database_conflicts),
               {prefetch}
          {source}
        """


def receiver_of(row: TupleRow) -> Receiver:
    """Read a row of RECEIVER. A walreceiver that has not connected yet shows no positions."""
    return Receiver(row[0], row[1], row[2] or 0, row[3] or 0, row[4])


def walsender_name(primary_conninfo: str, cluster_name: str) -> str:
    """A standby's application_name: from primary_conninfo, else cluster_name, else ``walreceiver``.

    src/backend/replication/libpqwalreceiver; cluster_name since 12.
    """
    try:
        named = conninfo.conninfo_to_dict(primary_conninfo).get("application_name")
    except psycopg.ProgrammingError:
        # Parameters of a newer libpq than ours.
        named = None
    return str(named or cluster_name or "walreceiver")
