"""What is asked of a server that is watched, at every look, for versions 13 to 19.

Each query reads one view or calls one function, so that a right that is missing costs its own panel alone.
Manual, "The Cumulative Statistics System", "System Administration Functions". Positions come as bytes, times
as seconds.
"""

from __future__ import annotations

from walproof.facts.replication import RECOVERY_TARGETS
from walproof.observe.slot_columns import invalidation_column, synced_column
from walproof.probe.pair_queries import STANDBY_END

SETTINGS_READ = (
    "archive_mode", "archive_timeout", "autovacuum", "checkpoint_completion_target", "checkpoint_timeout",
    "full_page_writes", "maintenance_io_concurrency", "max_prepared_transactions",
    "max_slot_wal_keep_size", "max_wal_senders", "max_wal_size", "min_wal_size", "port",
    "recovery_init_sync_method", "recovery_prefetch", "shared_buffers", "synchronous_standby_names",
    "wal_compression", "wal_keep_size", "wal_level", "wal_receiver_timeout", "wal_segment_size",
)  # fmt: skip
"""None of them can hold a secret."""
SETTINGS = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)"

_NOW = """
    SELECT extract(epoch FROM clock_timestamp())::float8, pg_is_in_recovery(), {end},
           extract(epoch FROM pg_postmaster_start_time())::float8"""
NOW = _NOW.format(
    end=f"(CASE WHEN pg_is_in_recovery() THEN {STANDBY_END} ELSE pg_current_wal_lsn() END - '0/0')::int8"
)
CLOCK = _NOW.format(end="NULL::int8")
"""For servers that do not tell their position: Aurora raises an error below wal_level = logical."""
# After a promotion the function is refused.
REPLAY = f"""
    SELECT (pg_last_wal_replay_lsn() - '0/0')::int8,
           CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() END,
           EXISTS (SELECT FROM pg_settings WHERE name = ANY ('{{{",".join(RECOVERY_TARGETS)}}}')
                                                 AND setting <> '')"""
WHO = "SELECT current_setting('server_version'), current_setting('server_version_num')::int"
SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"
CHECKPOINT = """
    SELECT (redo_lsn - '0/0')::int8, extract(epoch FROM checkpoint_time)::float8, timeline_id
      FROM pg_control_checkpoint()"""
PG_WAL = "SELECT sum(size)::int8 FROM pg_ls_waldir()"
READY = """
    SELECT count(*), extract(epoch FROM min(modification))::float8
      FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"""
# The command itself may hold a secret, so it stays on the server. 13 and 14 have no archive_library.
UNSET = """
    SELECT setting = ''
           AND coalesce((SELECT setting = '' FROM pg_settings WHERE name = 'archive_library'), true)
      FROM pg_settings WHERE name = 'archive_command'"""
ARCHIVER = """
    SELECT archived_count, failed_count, last_archived_wal, extract(epoch FROM last_archived_time)::float8,
           last_failed_wal, extract(epoch FROM last_failed_time)::float8
      FROM pg_stat_archiver"""
_SLOTS = """
    SELECT slot_name, slot_type, active, temporary, (restart_lsn - '0/0')::int8, wal_status, safe_wal_size,
           {inactive}, database::text, (confirmed_flush_lsn - '0/0')::int8, active_pid, {synced},
           {invalidation}
      FROM pg_replication_slots ORDER BY slot_name"""
_INACTIVE = "extract(epoch FROM clock_timestamp() - inactive_since)::float8"
STANDBYS = """
    SELECT r.application_name, r.pid, r.state, r.sync_state, s.slot_name::text,
           (r.sent_lsn - '0/0')::int8, (r.write_lsn - '0/0')::int8, (r.flush_lsn - '0/0')::int8,
           (r.replay_lsn - '0/0')::int8, extract(epoch FROM clock_timestamp() - r.reply_time)::float8,
           coalesce(a.wait_event_type || '/' || a.wait_event, 'running'),
           coalesce(s.slot_type = 'logical', false), host(r.client_addr)
      FROM pg_stat_replication r
      LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
      LEFT JOIN pg_stat_activity a ON a.pid = r.pid
     ORDER BY r.application_name, r.pid"""
RECEIVER = """
    SELECT current_setting('cluster_name'),
           (SELECT setting FROM pg_settings WHERE name = 'primary_conninfo'),
           coalesce((SELECT nullif(slot_name, '') FROM pg_stat_wal_receiver),
                    (SELECT nullif(setting, '') FROM pg_settings WHERE name = 'primary_slot_name')),
           (SELECT sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming')"""
# A role without rights sees neither primary_conninfo nor the startup process, and of a walreceiver only that
# it is there. Before a walreceiver has connected it has no row. A promotion ends recovery before the startup
# process, so whether it is over is asked after that.
ARRIVAL = """
    SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE coalesce(status, 'streaming') = 'streaming'),
           (SELECT setting <> '' FROM pg_settings WHERE name = 'primary_conninfo'),
           (SELECT setting <> '' FROM pg_settings WHERE name = 'restore_command'),
           (SELECT coalesce(wait_event_type || '/' || wait_event, 'running')
              FROM pg_stat_activity WHERE backend_type = 'startup'),
           pg_is_in_recovery()"""
# The row of a worker that copies a table has a relid; that of the subscription may have no pid. Before 15 not
# everybody may read pg_subscription.oid, and of two with one name each is enabled only if both are.
_SUBSCRIPTIONS = """
    SELECT a.subname::text, bool_and(s.subenabled), max(s.subslotname::text),
           bool_or(a.pid IS NOT NULL AND a.relid IS NULL),
           min(extract(epoch FROM clock_timestamp() - a.last_msg_receipt_time))::float8, {errors},
           a.subid::int8
      FROM pg_stat_subscription a JOIN pg_subscription s ON {same}
     GROUP BY a.subid, a.subname ORDER BY 1"""
_ERRORS = "(SELECT apply_error_count FROM pg_stat_subscription_stats e WHERE e.subid = a.subid)"


def slots(major: int) -> str:
    """The replication slots."""
    return _SLOTS.format(
        inactive=_INACTIVE if major >= 17 else "NULL",
        synced=synced_column(major),
        invalidation=invalidation_column(major),
    )


def subscriptions(major: int) -> str:
    """All subscriptions of the server, whichever database they belong to."""
    same = "s.oid = a.subid" if major >= 15 else "s.subname = a.subname"
    return _SUBSCRIPTIONS.format(same=same, errors=_ERRORS if major >= 15 else "NULL::int8")
