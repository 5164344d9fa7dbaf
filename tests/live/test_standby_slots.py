"""Slots on a standby: those in step with its primary are unused on purpose; its own are lost by replay."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.test_transactions import advised, concerns, rule
from tests.postgres.replication import SETTINGS, query, run, running_primary, wait_until
from walproof.facts import Install
from walproof.observe.looking import Looker
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.probe.connection import connect_foreign

pytestmark = [pytest.mark.live, pytest.mark.pg(">= 16")]
LOGICAL = {**SETTINGS, "wal_level": "logical", "max_replication_slots": "10"}
SYNCED = "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary"


@contextmanager
def synchronising(primary: Cluster, workspace: Workspace) -> Iterator[Standby]:
    standby = Standby(primary, workspace, "standby")
    standby.build()
    try:
        standby.start(
            {
                **LOGICAL,
                "hot_standby_feedback": "on",
                "primary_slot_name": "standby",
                "sync_replication_slots": "on",
                "primary_conninfo": f"{standby.primary_conninfo} dbname=postgres",
            }
        )
        # The primary's slot has to move before the copy is good for a failover.
        wait_until(lambda: moved(primary) and query(standby, SYNCED) == "1")
        yield standby
    finally:
        standby.stop("immediate")


def moved(primary: Cluster) -> bool:
    run(
        primary,
        "SELECT pg_log_standby_snapshot()",
        "SELECT pg_replication_slot_advance('cdc', pg_current_wal_lsn())",
    )
    return True


@pytest.mark.pg(">= 17")
def test_a_slot_in_step_with_the_primary_is_kept(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    with running_primary(install, workspace, LOGICAL) as primary:
        run(
            primary,
            "CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
            "CREATE TABLE t (i int, filler text)",
            "SELECT pg_create_logical_replication_slot('cdc', 'pgoutput', failover => true)",
        )
        with synchronising(primary, workspace) as standby:
            written = run(
                primary, "INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 40000) i"
            )
            standby.wait_for_replay(written)
            with connect_foreign(f"{standby.conninfo} user=watcher") as session:
                (slot,) = Looker(session).look().slots
            assert (slot.name, slot.is_synced, slot.is_active) == ("cdc", True, False)
            told = advised(standby, tmp_path)
            assert not any(advice["rule"] == "slots" for advice in told["advice"])
            assert {"rule": "slots", "sentence": "1 slot in step with the primary, for a failover."} in told[
                "fine"
            ]
            assert concerns(standby, tmp_path) == {}
            # On the primary the same slot has a user to bring back.
            told = advised(primary, tmp_path)
            assert "pg_drop_replication_slot('cdc')" in rule(told, "slots")["steps"][-1]
            assert "1 standby: none is more than 1 GB behind." in [fine["sentence"] for fine in told["fine"]]


@pytest.mark.pg(ends=True)
def test_a_slot_that_replay_has_invalidated_is_told_why(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    with running_primary(install, workspace, LOGICAL) as primary:
        run(primary, "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        standby = Standby(primary, workspace, "standby")
        standby.build()
        try:
            standby.start(LOGICAL)
            with ThreadPoolExecutor(1) as pool:
                made = pool.submit(
                    query, standby, "SELECT pg_create_logical_replication_slot('below', 'pgoutput')"
                )
                # It waits for the primary to tell which transactions run.
                wait_until(lambda: bool(run(primary, "SELECT pg_log_standby_snapshot()")) and made.done())
                made.result()
            run(primary, "CREATE TABLE gone (i int)", "DROP TABLE gone", "VACUUM pg_class")
            wait_until(lambda: query(standby, "SELECT wal_status FROM pg_replication_slots") == "lost")
            told = rule(advised(standby, tmp_path), "slots")
            assert "replay has removed rows of catalogs that it needs" in told["evidence"][0]
            concern = concerns(standby, tmp_path)["slot below"]
            assert "replay has removed rows of catalogs that it needs" in concern["sentence"]
            assert concern["evidence"] == ["its wal_status is lost"]
            query(standby, told["steps"][-1])
            assert query(standby, "SELECT count(*) FROM pg_replication_slots") == "0"
        finally:
            standby.stop("immediate")
