"""Looks at real servers: one name for a counter in every version, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.replication import running_primary
from walproof.errors import ProbeError
from walproof.facts import Install
from walproof.facts.codec import from_json, to_json
from walproof.facts.server import OTHER_INDEXES, OTHER_TABLES, ServerOverride, ServerWindow
from walproof.observe import objects
from walproof.observe.scans import standby_scans
from walproof.observe.server import ServerObserver
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace

pytestmark = pytest.mark.live
EVERYWHERE = {
    "checkpoints_timed", "checkpoints_requested", "checkpoint_write_ms", "checkpoint_sync_ms",
    "backend_buffers", "commits", "rows_inserted", "archived", "archive_failures", "next_xid",
}  # fmt: skip
SINCE_14 = {"wal_records", "wal_fpi", "wal_bytes", "wal_buffers_full", "wal_flushes", "wal_flush_ms"}


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    settings = {"max_replication_slots": "4", "wal_level": "logical"}
    with running_primary(install, workspace, settings) as made:
        yield made


def _execute(cluster: Cluster, *statements: str) -> None:
    with cluster.connect() as session:
        for statement in statements:
            session.execute(statement.encode())


def test_every_version_counts_by_the_same_names(cluster: Cluster) -> None:
    _execute(
        cluster,
        "CREATE TABLE t (id int PRIMARY KEY, note text)",
        "CREATE INDEX t_note ON t (note)",
        "CREATE TABLE frozen AS SELECT 1 AS i",
        "VACUUM (FREEZE) frozen",
        "CREATE TABLE toasted (note text) WITH (toast.autovacuum_freeze_max_age = 100000)",
        "CREATE UNLOGGED TABLE u AS SELECT 1",
        "CREATE UNLOGGED TABLE hollow (note text)",
        "SELECT pg_create_physical_replication_slot('idle', true)",
        "ALTER DATABASE postgres SET commit_siblings = 7",
        "ALTER ROLE postgres SET application_name = 'secret'",
    )
    with (
        ServerObserver(cluster.conninfo) as observer,
        psycopg.connect(cluster.conninfo, autocommit=True) as other,
    ):
        other.execute("CREATE TEMPORARY TABLE passing AS SELECT 1 AS i")
        other.execute("CREATE INDEX ON passing (i)")
        other.execute("BEGIN; INSERT INTO passing VALUES (2)")
        _execute(
            cluster,
            "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i",
            "UPDATE t SET note = 'y' WHERE id <= 10",
            "SET enable_seqscan = off",
            "SELECT note FROM t WHERE id = 5",
            "CHECKPOINT",
        )
        observer.wait(1.2, lambda: False)
        window = observer.window()
    assert (window.lacks, window.role_lacks) == ((), ())
    assert window.overrides == (ServerOverride(None, "postgres", "commit_siblings", "7"),)
    (table,) = (seen for seen in window.tables if seen.name == "public.t")
    assert table.filenode > 0
    assert table.freeze_age is not None
    assert table.freeze_share == pytest.approx(table.freeze_age / 200_000_000, abs=1e-7)
    (frozen,) = (seen for seen in window.tables if seen.name == "public.frozen")
    assert frozen.frozen_bytes == (8192 if window.version_num >= 180000 else None)
    # The lower limit of its TOAST table counts.
    (toasted,) = (seen for seen in window.tables if seen.name == "public.toasted")
    assert toasted.freeze_share == pytest.approx((toasted.freeze_age or 0) / 100_000, abs=1e-4)
    scans, counted_s = standby_scans(cluster.conninfo, window.system_identifier, window.database)
    assert 0 < (counted_s or 0.0) < 30 * 86400
    assert scans["public.t_pkey"] >= 1
    assert scans["public.t_note"] == 0
    with pytest.raises(ProbeError, match="is not a standby of it"):
        standby_scans(cluster.conninfo, "1", window.database)
    assert window.version == cluster.install.version
    names = set(window.looks[-1].counters)
    assert names >= EVERYWHERE, EVERYWHERE - names
    assert (names >= SINCE_14) is (window.version_num >= 140000)
    assert (window.looks[-1].lsn or 0) > (window.looks[0].lsn or 0) > 0
    assert window.looks[-1].redo is not None
    assert (window.looks[-1].pg_wal_bytes or 0) >= 16 << 20
    assert window.looks[-1].unarchived == 0
    tables = {table.name: table for table in window.tables}
    assert tables["public.u"].is_unlogged
    assert (tables["public.u"].rows_bytes, tables["public.hollow"].rows_bytes) == (8192, 0)
    seen = [table.name for table in window.tables] + [index.name for index in window.indexes]
    assert not any("passing" in name for name in seen)
    assert not tables["public.t"].is_unlogged
    indexes = {index.name: index for index in window.indexes}
    assert indexes["public.t_pkey"].is_needed
    assert not indexes["public.t_note"].is_needed
    # Made a few transactions ago.
    assert indexes["public.t_note"].is_valid
    assert 0 < (indexes["public.t_note"].age or 0) < 1000
    assert [(slot.name, slot.is_active) for slot in window.slots] == [("idle", False)]
    assert (window.slots[0].retained_bytes or 0) > 0
    assert window.slots[0].was_used is False
    assert {"postgres", "template1"} <= {database.name for database in window.databases}
    assert [(one.kind, one.state) for one in window.horizon] == [("session", "idle in transaction")]
    assert window.settings["fsync"].value == "on"
    assert window.base("max_wal_size") == 1024
    assert from_json(ServerWindow, to_json(window)) == window


@pytest.mark.pg(ends=True)
def test_what_is_left_out_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    _execute(
        cluster,
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 10000)",
        "CREATE TABLE small (id int PRIMARY KEY)",
    )
    with ServerObserver(cluster.conninfo) as observer:
        monkeypatch.setattr(objects, "INDEXES_MOST", 2)
        monkeypatch.setattr(objects, "TABLES_MOST", 2)
        assert observer.window().lacks == (), "these are all"
        monkeypatch.setattr(objects, "INDEXES_MOST", 1)
        window = observer.window()
        assert [index.name for index in window.indexes] == ["public.t_pkey"]
        assert window.lacks == (f"{OTHER_INDEXES}: only the 1 largest are read",)
        monkeypatch.setattr(objects, "TABLES_MOST", 1)
        assert window.lacks_of(OTHER_TABLES) is None
        assert "the 1 with the most changes" in (observer.window().lacks_of(OTHER_TABLES) or "")


def test_a_look_writes_nothing_and_takes_no_transaction_id(cluster: Cluster) -> None:
    _execute(cluster, "CREATE ROLE looker LOGIN", "GRANT pg_monitor TO looker", "CHECKPOINT")
    with psycopg.connect(cluster.conninfo, autocommit=True) as session:
        session.execute("SET default_transaction_read_only = on")
        before = session.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        with ServerObserver(f"{cluster.conninfo} user=looker") as observer:
            observer.wait(1.2, lambda: False)
            window = observer.window()
        assert (window.lacks, window.role_lacks) == ((), ("REPLICATION",))
        assert session.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() == before
        left = session.execute("SELECT count(*) FROM pg_replication_slots").fetchone()
    assert left == (0,)


def test_texts_that_may_hold_secrets_are_not_read(cluster: Cluster) -> None:
    _execute(
        cluster,
        "ALTER SYSTEM SET primary_conninfo = 'host=a password=canary'",
        "ALTER SYSTEM SET archive_cleanup_command = 'echo canary'",
        "SELECT pg_reload_conf()",
        "SELECT pg_sleep(0.2)",
    )
    with cluster.connect() as session:
        assert session.execute("SHOW primary_conninfo").fetchone() == ("host=a password=canary",)
    with ServerObserver(cluster.conninfo) as observer:
        window = observer.window()
    assert window.settings["primary_conninfo"].value == ""
    assert (window.settings["archive_command"].value, window.is_archive_void) == ("", False)
    assert "canary" not in to_json(window)


def test_what_is_not_granted_is_named(cluster: Cluster) -> None:
    _execute(cluster, "CREATE ROLE nobody_special LOGIN")
    with ServerObserver(f"{cluster.conninfo} user=nobody_special") as observer:
        window = observer.window()
    assert any(lack.startswith("the size of pg_wal: ") for lack in window.lacks), window.lacks
    assert window.role_lacks == ("REPLICATION", "pg_monitor")
    assert window.looks[-1].pg_wal_bytes is None
    # In 13 the collector of statistics tells of them later.
    assert "commits" in window.looks[-1].counters


@pytest.mark.pg(ends=True)
def test_a_locked_table_is_read_all_the_same(cluster: Cluster) -> None:
    _execute(
        cluster,
        "CREATE TABLE locked (id int PRIMARY KEY, note text)",
        "INSERT INTO locked SELECT i, 'x' FROM generate_series(1, 10000) i",
        "VACUUM ANALYZE locked",
        "CREATE UNLOGGED TABLE u AS SELECT 1",
    )
    with psycopg.connect(cluster.conninfo) as holder, ServerObserver(cluster.conninfo) as observer:
        before = {table.name: table.bytes for table in observer.window().tables}
        # REINDEX locks the index alone, TRUNCATE a table with all that belongs to it.
        holder.execute("TRUNCATE u")
        holder.execute("REINDEX INDEX locked_pkey")
        holder.execute("LOCK TABLE locked")
        window = observer.window()
    assert window.lacks == ()
    sizes = {table.name: table.bytes for table in window.tables}
    assert set(sizes) == set(before)
    # Without its maps of free space and visibility.
    assert 0.8 * before["public.locked"] < sizes["public.locked"] <= before["public.locked"]
    (index,) = (seen for seen in window.indexes if seen.name == "public.locked_pkey")
    assert index.bytes > 100_000
