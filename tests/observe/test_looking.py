"""One look at real servers of every version: everything is read with pg_monitor, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.postgres.replication import run, running_primary
from walproof.errors import ProbeError
from walproof.facts import Install
from walproof.facts.codec import from_json, to_json
from walproof.facts.watch import WatchLook
from walproof.observe.looking import Looker
from walproof.observe.watch_queries import ARRIVAL, SETTINGS_READ
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.connection import connect_foreign
from walproof.settings.server_conf import server_conf

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    settings = {"archive_mode": "on", "archive_command": "false", "max_replication_slots": "4"}
    with running_primary(install, workspace, settings) as made:
        run(
            made,
            "CREATE ROLE looker LOGIN IN ROLE pg_monitor",
            "SELECT pg_create_physical_replication_slot('idle', true)",
            "SELECT pg_switch_wal()",
        )
        yield made


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
    assert (look.since(first.lsn or 0) or 0) > 0
    assert look.seen_s > first.seen_s
    assert look.checkpoint is not None
    assert first.checkpoint is not None
    assert look.checkpoint.redo > first.checkpoint.redo
    assert (look.pg_wal_bytes or 0) >= 16 << 20
    assert look.archiver is not None
    assert (look.archiver.ready or 0) >= 1
    assert look.archiver.ready_since is not None
    assert abs(look.at - look.archiver.ready_since) < 600
    assert look.archiver.is_unset is False
    assert [(slot.name, slot.is_active) for slot in look.slots] == [("idle", False)]
    assert look.slots[0].restart is not None
    # In 13 the collector of statistics tells of them later.
    assert "checkpoints_requested" in look.counters
    since_15 = {"recovery_prefetch"} if look.major < 15 else set()
    since_14 = {"recovery_init_sync_method"} if look.major < 14 else set()
    assert set(SETTINGS_READ) - set(look.settings) == since_15 | since_14
    assert look.size("max_wal_size") == 1 << 30
    assert look.size("max_slot_wal_keep_size") is None
    assert look.seconds("checkpoint_timeout") == 300
    assert from_json(WatchLook, to_json(look)) == look


def test_every_version_tells_how_wal_arrives(cluster: Cluster) -> None:
    """A primary has neither a walreceiver nor a startup process."""
    with connect_foreign(f"{cluster.conninfo} user=looker") as session:
        assert session.execute(ARRIVAL.encode()).fetchone() == (False, False, False, None, False)


def test_an_empty_archive_command_is_seen_and_no_other_is_read(cluster: Cluster) -> None:
    with cluster.connect() as session:
        session.execute("ALTER SYSTEM SET archive_command = ''")
        session.execute("SELECT pg_reload_conf()")
    with connect_foreign(f"{cluster.conninfo} user=looker") as session:
        looker = Looker(session)
        until_s = time.monotonic() + 10
        while session.execute("SHOW archive_command").fetchone() != ("",) and time.monotonic() < until_s:
            time.sleep(0.1)
        look = looker.look()
    assert look.archiver is not None
    assert look.archiver.is_unset is True
    assert look.lacks == ()


@pytest.mark.pg(">= 18")
def test_a_server_that_goes_away_ends_the_session(cluster: Cluster) -> None:
    with connect_foreign(cluster.conninfo) as session:
        looker = Looker(session)
        looker.look()
        cluster.stop("immediate")
        with pytest.raises(ProbeError):
            looker.look()


@pytest.mark.pg(ends=True)
def test_conf_files_are_read_as_the_server_reads_them(cluster: Cluster) -> None:
    """A tree of files, as pg_file_settings shows what each of them sets."""
    for name, text in {
        "postgresql.conf": "\ninclude_dir 'conf.d'\nWal_Writer_Flush_After '512kB' # kept\n",
        "conf.d/3-last.conf": "log_line_prefix = 'it''s \\'%m\\' '\ninclude '../more/of.conf'\n",
        "conf.d/20-first.conf": "max_wal_size = 3GB\nlog_line_prefix = 'none'\n",
        "conf.d/no.confusion": "broken line here\n",
        "more/of.conf": "max_wal_size=2GB\ninclude_if_exists 'none.conf'\nmy.own = yes\n",
    }.items():
        path = cluster.data / name
        path.parent.mkdir(exist_ok=True)
        path.parent.chmod(0o755 if path.parent != cluster.data else 0o700)
        with path.open("a") as file:
            file.write(text)
        path.chmod(0o644)
    with cluster.connect() as session:
        session.execute("ALTER SYSTEM SET wal_compression = 'on'")
        rows = session.execute("SELECT name, setting, error FROM pg_file_settings ORDER BY seqno").fetchall()
    assert {error for *_, error in rows} <= {None, "setting could not be applied"}
    expected = {str(name).lower(): setting for name, setting, _ in rows}
    assert server_conf(cluster.data, ["postgres"]) == expected
    assert expected["max_wal_size"] == "2GB"
    assert expected["log_line_prefix"] == "it's '%m' "
