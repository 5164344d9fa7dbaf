"""Servers that look like a managed platform's: functions and settings as the platform has them."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.postgres.cluster import Cluster

_WAL_FUNCTIONS = {
    "pg_current_wal_lsn()": "pg_lsn",
    "pg_current_wal_insert_lsn()": "pg_lsn",
    "pg_current_wal_flush_lsn()": "pg_lsn",
    "pg_last_wal_receive_lsn()": "pg_lsn",
    "pg_last_wal_replay_lsn()": "pg_lsn",
}
# A server calls its own functions by their numbers: a new one has to take the name.
_RAISES = """
    ALTER FUNCTION pg_catalog.{name} RENAME TO {hidden};
    CREATE FUNCTION pg_catalog.{name} RETURNS {kind} LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'wal_level must be set to ''logical'' to use this function'
              USING ERRCODE = 'object_not_in_prerequisite_state';
    END $$"""


def hide_positions(cluster: Cluster) -> None:
    """As Aurora below wal_level = logical: functions about WAL raise an error (DataDog/integrations-core
    #20356, mackerelio/mackerel-agent-plugins #804)."""
    with cluster.connect() as session:
        for name, kind in _WAL_FUNCTIONS.items():
            hidden = name.replace("()", "_hidden")
            session.execute(_RAISES.format(name=name, kind=kind, hidden=hidden).encode())


def name_settings(cluster: Cluster, names: Sequence[str]) -> None:
    """Add settings to pg_settings, as a server that was built with them has them."""
    rows = " UNION ALL ".join(
        f"SELECT '{name}'::text, ''::text, NULL, 'c', 'd', NULL, 'sighup', 'string', 'default', NULL, NULL, "
        "NULL::text[], ''::text, ''::text, NULL, NULL::int, false"
        for name in names
    )
    with cluster.connect() as session:
        session.execute("SET allow_system_table_mods = on")
        session.execute(
            "CREATE OR REPLACE VIEW pg_catalog.pg_settings AS "
            f"SELECT * FROM pg_catalog.pg_show_all_settings() AS a UNION ALL {rows}".encode()
        )
