"""What is read once of a server: settings, slots, standbys, tables, indexes."""

from __future__ import annotations

from typing import Any

from walproof.facts.server import (
    OTHER_INDEXES,
    OTHER_TABLES,
    UNSHOWN_STANDBYS,
    ServerDatabase,
    ServerIndex,
    ServerOverride,
    ServerSetting,
    ServerSlot,
    ServerStandby,
    ServerTable,
)
from walproof.observe.asking import Asking, count_in, number_in, text_in
from walproof.observe.slot_columns import invalidation_column, synced_column
from walproof.probe.pair_queries import STANDBY_END

TABLES_MOST = 200
"""How many tables are reported: those with the most changed rows; as many unlogged and old ones."""
INDEXES_MOST = 500
_OLDEST = 2**31 - 1

TEXTS = ("server_version", "synchronous_standby_names")
"""Text settings whose values are read. Others may hold anything: primary_conninfo a password; commands and
settings of extensions, keys."""
_SETTINGS = """
    SELECT name,
           CASE WHEN vartype = 'string' AND name <> ALL (%s) THEN '' ELSE current_setting(name, true) END,
           CASE WHEN vartype <> 'string' THEN boot_val END, CASE WHEN vartype <> 'string' THEN setting END,
           source, context, pending_restart, sourcefile,
           coalesce(enumvals, '{}')
    FROM pg_settings"""
END = "the position in the WAL"
_END = f"CASE WHEN pg_is_in_recovery() THEN {STANDBY_END} ELSE pg_current_wal_lsn() END"
_SLOTS = """
    SELECT slot_name, slot_type, active, temporary,
           {end} - least(restart_lsn, coalesce(confirmed_flush_lsn, restart_lsn)),
           wal_status, {inactive}, {synced}, {invalidation}
    FROM pg_replication_slots"""
_INACTIVE = "extract(epoch FROM now() - inactive_since)"
# A logical walsender confirms a replay position, too, and pg_receivewal, barman and backups confirm none:
# nobody fails over to them. A role without rights sees names, and no state.
_STANDBYS = """
    SELECT r.application_name, r.state, r.sync_state, {end} - r.replay_lsn
    FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
    WHERE r.application_name <> 'pg_basebackup' AND s.slot_type IS DISTINCT FROM 'logical'
      AND (r.state IS NULL OR r.replay_lsn IS NOT NULL)"""
# Functions that tell sizes wait for whoever locks the relation, and everybody else would wait after them: of
# what is locked like that, or about to be, the size is that of the last VACUUM or ANALYZE. Statements
# begin with SELECT: whoever reads the server's log sees that they change nothing.
_LOCKED = """
    SELECT * FROM (WITH locked AS MATERIALIZED (
        SELECT relation FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation IS NOT NULL
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""
_TABLE_BYTES = """
           CASE WHEN EXISTS (SELECT FROM locked l
                              WHERE l.relation IN (c.oid, c.reltoastrelid) OR l.relation IN
                                    (SELECT indexrelid FROM pg_index WHERE indrelid = c.reltoastrelid))
                THEN (SELECT sum(h.relpages) FROM pg_class h WHERE h.oid IN (c.oid, c.reltoastrelid))
                     * current_setting('block_size')::int
                ELSE pg_table_size(c.oid) END"""
# A table's own limit counts only where it is lower (table_recheck_autovac, autovacuum.c).
_FREEZE_SHARE = """
           (SELECT max(greatest(
                age(nullif(f.relfrozenxid, '0'))
                / least(current_setting('autovacuum_freeze_max_age')::float8,
                        (SELECT option_value::float8 FROM pg_options_to_table(f.reloptions)
                         WHERE option_name = 'autovacuum_freeze_max_age')),
                mxid_age(nullif(f.relminmxid, '0'))
                / least(current_setting('autovacuum_multixact_freeze_max_age')::float8,
                        (SELECT option_value::float8 FROM pg_options_to_table(f.reloptions)
                         WHERE option_name = 'autovacuum_multixact_freeze_max_age'))))
            FROM pg_class f WHERE f.oid IN (c.oid, c.reltoastrelid))"""
_FROZEN_BYTES = "c.relallfrozen * current_setting('block_size')::int8"
_ROWS_BYTES = """
           CASE WHEN EXISTS (SELECT FROM locked l WHERE l.relation = c.oid)
                THEN c.relpages::int8 * current_setting('block_size')::int ELSE pg_relation_size(c.oid) END"""
# Temporary tables of other sessions are nobody else's to change, and write no WAL.
_TABLES = f"""{_LOCKED}
    SELECT quote_ident(s.schemaname) || '.' || quote_ident(s.relname), {_TABLE_BYTES},
           c.relpersistence = 'u', s.n_tup_ins, s.n_tup_upd, s.n_tup_hot_upd, s.n_tup_del, s.n_live_tup,
           coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions)
                     WHERE option_name = 'fillfactor'), 100), {{moved}},
           coalesce(pg_relation_filenode(s.relid), 0), age(nullif(c.relfrozenxid, '0')), {_FREEZE_SHARE},
           {{frozen}}, {_ROWS_BYTES}
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    WHERE c.relpersistence <> 't'
    ORDER BY s.n_tup_ins + s.n_tup_upd + s.n_tup_del DESC, 1 LIMIT %s) AS found"""
_UNLOGGED = f"""{_LOCKED}
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), {_TABLE_BYTES},
           true, 0, 0, 0, 0, greatest(c.reltuples, 0)::bigint, 100, NULL,
           coalesce(pg_relation_filenode(c.oid), 0), age(nullif(c.relfrozenxid, '0')), {_FREEZE_SHARE},
           {{frozen}}, {_ROWS_BYTES}
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relpersistence = 'u' AND c.relkind = 'r'
    ORDER BY 2 DESC LIMIT %s) AS found"""
# Tables that are only read are not among those with changes, and are frozen as a whole when their time comes.
_OLD = f"""{_LOCKED}
    SELECT quote_ident(s.schemaname) || '.' || quote_ident(s.relname), {_TABLE_BYTES},
           c.relpersistence = 'u', s.n_tup_ins, s.n_tup_upd, s.n_tup_hot_upd, s.n_tup_del, s.n_live_tup,
           100, NULL, coalesce(pg_relation_filenode(s.relid), 0), age(c.relfrozenxid), {_FREEZE_SHARE},
           {{frozen}}, {_ROWS_BYTES}
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    WHERE c.relpersistence <> 't' AND c.relfrozenxid <> '0' ORDER BY 13 DESC, 2 DESC, 1 LIMIT %s) AS found"""
_OVERRIDES = """
    SELECT quote_ident(r.rolname), quote_ident(d.datname), p.name, split_part(one.setting, '=', 2)
    FROM pg_db_role_setting s
    LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase,
         unnest(s.setconfig) AS one (setting)
    JOIN pg_settings p ON p.name = split_part(one.setting, '=', 1) AND p.vartype <> 'string'
    ORDER BY 1, 2, 3"""
_DATABASES = """
    SELECT quote_ident(datname), age(datfrozenxid), mxid_age(datminmxid)
    FROM pg_database WHERE datconnlimit <> -2  -- an interrupted DROP left it, which holds nothing back
    ORDER BY greatest(age(datfrozenxid), mxid_age(datminmxid)) DESC, 1 LIMIT 20"""
# An index that a constraint, a foreign key or logical replication needs is no candidate for dropping, however
# seldom it is read; nor is a part of a partitioned one.
_INDEXES = f"""{_LOCKED}
    SELECT quote_ident(s.schemaname) || '.' || quote_ident(s.indexrelname),
           quote_ident(s.schemaname) || '.' || quote_ident(s.relname),
           CASE WHEN EXISTS (SELECT FROM locked l WHERE l.relation = s.indexrelid)
                THEN (SELECT sum(h.relpages) FROM pg_class h WHERE h.oid = s.indexrelid)
                     * current_setting('block_size')::int
                ELSE pg_relation_size(s.indexrelid) END,
           s.idx_scan,
           i.indisunique OR i.indisprimary OR i.indisexclusion OR i.indisreplident
             OR EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = s.indexrelid)
             OR EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = s.indexrelid),
           coalesce((SELECT a.atttypid = 'uuid'::regtype FROM pg_attribute a
                     WHERE a.attrelid = s.indexrelid AND a.attnum = 1), false),
           coalesce(pg_relation_filenode(s.indexrelid), 0), age(c.xmin), i.indisvalid
    FROM pg_stat_user_indexes s JOIN pg_index i ON i.indexrelid = s.indexrelid
         JOIN pg_class c ON c.oid = s.indexrelid
    WHERE c.relpersistence <> 't'
    ORDER BY 3 DESC, 1 LIMIT %s) AS found"""


def read_settings(ask: Asking) -> dict[str, ServerSetting]:
    """Every setting that the role may see."""
    return {
        str(name): ServerSetting(
            str(value), text_in(boot), text_in(base), str(source), str(context), bool(pending), text_in(file),
            tuple(map(str, values)),
        )
        for name, value, boot, base, source, context, pending, file, values in ask.rows(
            "settings", _SETTINGS, [list(TEXTS)]
        )
    }  # fmt: skip


def read_slots(ask: Asking) -> tuple[ServerSlot, ...]:
    """Every replication slot but walproof's own."""
    query = _SLOTS.format(
        end=_end(ask),
        inactive=_INACTIVE if ask.major >= 17 else "NULL",
        synced=synced_column(ask.major),
        invalidation=invalidation_column(ask.major),
    )
    found = tuple(
        ServerSlot(
            str(name), str(kind), bool(active), bool(temporary), _count(retained), text_in(status),
            number_in(inactive), bool(synced), text_in(reason),
        )
        for name, kind, active, temporary, retained, status, inactive, synced, reason
        in ask.rows("slots", query)
        if not str(name).startswith("walproof_")
    )  # fmt: skip
    if found and ask.is_refused(END):
        ask.lack("slots", "how much they hold is not known without the position in the WAL")
    return found


def read_standbys(ask: Asking) -> tuple[ServerStandby, ...]:
    """Who replays its WAL as it streams: its standbys."""
    query = _STANDBYS.format(end=_end(ask))
    rows = [row for row in ask.rows("standbys", query) if not str(row[0]).startswith("walproof")]
    if any(state is None for _, state, _, _ in rows):
        ask.lack("standbys", UNSHOWN_STANDBYS)
    elif rows and ask.is_refused(END):
        ask.lack("standbys", "how far they are behind is not known without the position in the WAL")
    return tuple(
        ServerStandby(str(name), str(state), str(sync), _count(behind))
        for name, state, sync, behind in rows
        if state is not None
    )


def read_tables(ask: Asking) -> tuple[ServerTable, ...]:
    """Tables of the database with the most changes, its unlogged ones, and those frozen longest ago."""
    found: dict[str, ServerTable] = {}
    moved = "s.n_tup_newpage_upd" if ask.major >= 16 else "NULL"
    frozen = _FROZEN_BYTES if ask.major >= 18 else "NULL"
    for query in (_TABLES, _UNLOGGED, _OLD):
        asked = query.format(moved=moved, frozen=frozen)
        rows = ask.rows("tables", asked, [TABLES_MOST + 1])
        if len(rows) > TABLES_MOST:
            ask.lack(
                OTHER_TABLES,
                f"only the {TABLES_MOST} with the most changes, the {TABLES_MOST} largest unlogged ones and "
                f"the {TABLES_MOST} that were frozen longest ago are read",
            )
        for row in rows[:TABLES_MOST]:
            name, size, unlogged, inserted, updated, hot, deleted, live, fill, *others = row
            gone, node, age, share, kept, rows_bytes = others
            found.setdefault(
                str(name),
                ServerTable(
                    str(name), int(size or 0), bool(unlogged), int(inserted), int(updated), int(hot),
                    int(deleted), int(live), int(fill), count_in(gone), int(node), _count(age),
                    number_in(share), _count(kept), _count(rows_bytes),
                ),
            )  # fmt: skip
    return tuple(found.values())


def read_overrides(ask: Asking) -> tuple[ServerOverride, ...]:
    """What roles and databases have set for themselves, except texts, which may hold anything."""
    return tuple(
        ServerOverride(text_in(role), text_in(database), str(name), str(value))
        for role, database, name, value in ask.rows("settings of roles and databases", _OVERRIDES)
    )


def read_databases(ask: Asking) -> tuple[ServerDatabase, ...]:
    """Databases of the cluster, those frozen longest ago first."""
    return tuple(
        ServerDatabase(str(name), max(0, int(age)), max(0, int(multixacts)))
        for name, age, multixacts in ask.rows("databases", _DATABASES)
    )


def read_indexes(ask: Asking) -> tuple[ServerIndex, ...]:
    """The largest indexes of the database."""
    rows = ask.rows("indexes", _INDEXES, [INDEXES_MOST + 1])
    if len(rows) > INDEXES_MOST:
        ask.lack(OTHER_INDEXES, f"only the {INDEXES_MOST} largest are read")
    return tuple(
        ServerIndex(
            str(name),
            str(table),
            int(size or 0),
            int(scans or 0),
            bool(needed),
            bool(uuid),
            int(filenode),
            # A row that is older than ids reach back, two billion, has a negative age.
            int(age) if age >= 0 else _OLDEST,
            bool(valid),
        )
        for name, table, size, scans, needed, uuid, filenode, age, valid in rows[:INDEXES_MOST]
    )


def _end(ask: Asking) -> str:
    """SQL for the end of WAL; NULL where the server does not tell it."""
    return "NULL::pg_lsn" if ask.is_refused(END) else _END


def _count(value: Any) -> int | None:
    return None if value is None else max(0, int(value))
