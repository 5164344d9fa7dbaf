"""One look at real servers of every version: everything is read with pg_monitor, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from walproof.errors import ProbeError
from walproof.facts import Install
from walproof.facts.codec import from_json, to_json
from walproof.facts.watch import WatchLook
from walproof.observe.looking import Looker
from walproof.observe.watch_queries import SETTINGS_READ
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.connection import connect_foreign
from walproof.settings.conf import AS_ONE_FILE, read_conf

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    folder = workspace.make_folder("looked-at")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder)
    made = Cluster(install, workspace, folder)
    made.start({"archive_mode": "on", "archive_command": "false", "max_replication_slots": "4"})
    with made.connect() as session:
        session.execute("CREATE ROLE looker LOGIN IN ROLE pg_monitor")
        session.execute("SELECT pg_create_physical_replication_slot('idle', true)")
        session.execute("SELECT pg_switch_wal()")
    yield made
    made.stop("immediate")


def test_every_version_is_read_whole(cluster: Cluster) -> None:
    with connect_foreign(f"{cluster.conninfo} user=looker") as session:
        looker = Looker(session)
        first = looker.look()
        with cluster.connect() as writer:
            writer.execute("CREATE TABLE t AS SELECT generate_series(1, 10000) i")
            writer.execute("CHECKPOINT")
        look = looker.look()
    assert look.lacks == ()
    assert look.version == cluster.install.version
    assert look.lsn > first.lsn
    assert look.seen_s > first.seen_s
    assert look.checkpoint is not None
    assert first.checkpoint is not None
    assert look.checkpoint.redo > first.checkpoint.redo
    assert (look.pg_wal_bytes or 0) >= 16 << 20
    assert look.archiver is not None
    assert (look.archiver.ready or 0) >= 1
    assert [(slot.name, slot.is_active) for slot in look.slots] == [("idle", False)]
    assert look.slots[0].restart is not None
    # In 13 the collector of statistics tells of them later.
    assert look.counters["checkpoints_requested"] >= 0
    since_15 = {"recovery_prefetch"} if look.major < 15 else set()
    since_14 = {"recovery_init_sync_method"} if look.major < 14 else set()
    assert set(SETTINGS_READ) - set(look.settings) == since_15 | since_14
    assert look.size("max_wal_size") == 1 << 30
    assert look.size("max_slot_wal_keep_size") is None
    assert look.seconds("checkpoint_timeout") == 300
    assert from_json(WatchLook, to_json(look)) == look


@pytest.mark.pg(">= 18")
def test_a_server_that_goes_away_ends_the_session(cluster: Cluster) -> None:
    with connect_foreign(cluster.conninfo) as session:
        looker = Looker(session)
        looker.look()
        cluster.stop("immediate")
        with pytest.raises(ProbeError):
            looker.look()


@pytest.mark.pg(ends=True)
def test_one_file_of_a_server_with_several_is_what_it_has(cluster: Cluster, tmp_path: Path) -> None:
    """The query that is shown where a file includes another: values with their units, names and quotes."""
    with cluster.connect() as session:
        session.execute("ALTER SYSTEM SET max_wal_size = '3GB'")
        session.execute("ALTER SYSTEM SET log_line_prefix = 'it''s %m '")
        session.execute("ALTER SYSTEM SET wal_writer_flush_after = '512kB'")
        session.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 30
        while session.execute("SHOW max_wal_size").fetchone() != ("3GB",) and time.monotonic() < deadline:
            time.sleep(0.05)
        lines = [str(line) for (line,) in session.execute(AS_ONE_FILE).fetchall()]
    (tmp_path / "one.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = read_conf(tmp_path / "one.conf")
    assert found["max_wal_size"] == "3GB"
    assert found["wal_writer_flush_after"] == "512kB"
    assert found["log_line_prefix"] == "it's %m "
