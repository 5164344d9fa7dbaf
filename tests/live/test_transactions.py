"""Transactions that do not end on real servers: what `advise` and `watch` say of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import walproof
from tests.postgres.replication import SETTINGS, query, run, running_primary, wait_until
from walproof.facts import Install
from walproof.facts.transactions import STALLED_S, SynchronousWait
from walproof.observe.looking import Looker
from walproof.observe.server import ServerObserver
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.probe.connection import connect_foreign

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]
LIST = "synchronous_standby_names"
SERVING = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def primary(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    with running_primary(install, workspace) as primary:
        run(
            primary,
            "CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
            "CREATE ROLE nobody_special LOGIN",
            "CREATE TABLE t (i int)",
        )
        yield primary


def advised(primary: Cluster, folder: Path, user: str = "watcher") -> dict[str, Any]:
    done = walproof("advise", f"{primary.conninfo} user={user}", "--for", "1s", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rule(told: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (advice for advice in told["advice"] if advice["rule"] == name)
    assert isinstance(found, dict)
    return found


def concerns(primary: Cluster, folder: Path, user: str = "watcher") -> dict[str, Any]:
    done = walproof("watch", f"{primary.conninfo} user={user}", "--json", "--once", "--no-stream", cwd=folder)
    assert done.returncode == 0, done.stderr
    return {concern["key"]: concern for concern in json.loads(done.stdout)["concerns"]}


@pytest.mark.pg(newest=True)
def test_commits_that_hang_are_named_until_a_standby_serves(
    primary: Cluster, workspace: Workspace, tmp_path: Path
) -> None:
    names = 'FIRST 1 ("Near", elsewhere)'
    primary.reload({**SETTINGS, LIST: names, "synchronous_commit": "local"})
    wait_until(lambda: query(primary, f"SHOW {LIST}") == names)
    told = rule(advised(primary, tmp_path), "synchronous_commit")
    assert (told["changes"], told["apply"]) == ([], None)
    assert "would hang every commit" in told["evidence"][-1]
    assert concerns(primary, tmp_path) == {}

    primary.reload({**SETTINGS, LIST: names})
    wait_until(lambda: query(primary, "SHOW synchronous_commit") == "on")
    with primary.connect() as writer, ThreadPoolExecutor(1) as pool:
        commit = pool.submit(writer.execute, "INSERT INTO t VALUES (0)")
        try:
            wait_until(lambda: query(primary, WAITING) == "1")
            assert_hanging(primary, tmp_path)
            standby = Standby(primary, workspace, "near")
            standby.build()
            try:
                standby.start(SETTINGS)
                commit.result(30)
                assert_serving(primary, tmp_path, {**SETTINGS, LIST: names})
            finally:
                standby.stop("immediate")
        finally:
            writer.cancel()


@pytest.mark.pg(newest=True)
def test_commits_that_a_connected_standby_does_not_confirm_are_named(
    primary: Cluster, workspace: Workspace, tmp_path: Path
) -> None:
    settings = {**SETTINGS, LIST: "near", "synchronous_commit": "remote_apply"}
    standby = Standby(primary, workspace, "near")
    standby.build()
    try:
        standby.start(SETTINGS)
        primary.reload(settings)
        wait_until(lambda: query(primary, SERVING) == "1")
        run(primary, "INSERT INTO t VALUES (0)")
        query(standby, "SELECT pg_wal_replay_pause()")
        with primary.connect() as writer, primary.connect() as waiter, ThreadPoolExecutor(2) as pool:
            writer.execute("BEGIN")
            writer.execute("INSERT INTO t VALUES (1)")
            commits = [pool.submit(writer.execute, "commit"),
                       pool.submit(waiter.execute, "INSERT INTO t VALUES (2)")]  # fmt: skip
            try:
                wait_until(
                    lambda: query(primary, f"{WAITING} AND query_start < now() - '11 s'::interval") == "2"
                )
                with connect_foreign(f"{primary.conninfo} user=watcher") as session:
                    looker = Looker(session)
                    first, begun_s = looker.look().synchronous, time.monotonic()
                    assert_one_is_stalled(primary, tmp_path)
                    time.sleep(max(0.0, begun_s + STALLED_S - time.monotonic()))
                    assert_both_are_stalled(first, looker.look().synchronous)
            finally:
                query(standby, "SELECT pg_wal_replay_resume()")
            for commit in commits:
                commit.result(30)
        assert "synchronous standbys" not in concerns(primary, tmp_path)
    finally:
        standby.stop("immediate")


def test_a_commit_that_is_cancelled_while_it_waits_is_reported_as_done(
    primary: Cluster, tmp_path: Path
) -> None:
    primary.reload({**SETTINGS, LIST: "nobody"})
    wait_until(lambda: query(primary, f"SHOW {LIST}") == "nobody")
    with primary.connect() as writer, ThreadPoolExecutor(1) as pool:
        commit = pool.submit(writer.execute, "INSERT INTO t VALUES (0)")
        wait_until(lambda: query(primary, WAITING) == "1")
        assert "Cancel no session" in rule(advised(primary, tmp_path), "synchronous_commit")["costs"][-1]
        writer.cancel()
        assert commit.result(30).statusmessage == "INSERT 0 1"
    assert query(primary, "SELECT count(*) FROM t") == "1"


def assert_one_is_stalled(primary: Cluster, folder: Path) -> None:
    """One look tells it of a COMMIT, and not of a statement that may have worked so long."""
    concern = concerns(primary, folder)["synchronous standbys"]
    assert concern["sentence"].startswith("Commits hang: one has waited for its standbys for 1")
    assert any(text.startswith("1 of them has waited") for text in concern["evidence"])
    told = rule(advised(primary, folder), "synchronous_commit")
    assert (told["weight"], told["changes"]) == ("danger", [])
    assert told["title"].startswith("Let the standbys that commits wait for confirm again")


def assert_both_are_stalled(first: SynchronousWait | None, last: SynchronousWait | None) -> None:
    """Looks that are ten seconds apart tell it of every statement."""
    assert first is not None
    assert last is not None
    assert (first.waiting, first.stalled, last.stalled) == (2, 1, 2)
    assert last.stalled_s > first.stalled_s > STALLED_S


def assert_hanging(primary: Cluster, folder: Path) -> None:
    told = rule(advised(primary, folder), "synchronous_commit")
    assert (told["weight"], told["changes"]) == ("danger", [])
    assert told["evidence"][-1].startswith("1 session waits in SyncRep; the statement of the oldest began")
    # Each of these looks for ten seconds at a statement that waits.
    with ThreadPoolExecutor(3) as pool:
        seen = pool.submit(concerns, primary, folder)
        seen_by_nobody = pool.submit(concerns, primary, folder, "nobody_special")
        server = f"{primary.conninfo} user=watcher"
        checked = pool.submit(walproof, "watch", server, "--check", "--no-stream", cwd=folder)
    assert seen.result()["synchronous standbys"]["severity"] == 2
    # Whoever sees no more than names sees that there are none.
    assert "synchronous standbys" in seen_by_nobody.result()
    done = checked.result()
    assert (done.returncode, "Commits hang" in done.stdout) == (2, True), done.stdout


def assert_serving(primary: Cluster, folder: Path, settings: dict[str, str]) -> None:
    assert concerns(primary, folder) == {}
    primary.reload({**settings, "synchronous_commit": "local"})
    wait_until(lambda: query(primary, "SHOW synchronous_commit") == "local")
    told = rule(advised(primary, folder), "synchronous_commit")
    assert told["apply"] is not None
    assert any("do not free sessions that already wait" in cost for cost in told["costs"])
    assert any('"near" is connected' in sentence for sentence in told["evidence"])
    # What may not be seen gives no line.
    assert rule(advised(primary, folder, "nobody_special"), "synchronous_commit")["apply"] is None


def test_a_prepared_transaction_is_seen_by_everybody(primary: Cluster) -> None:
    primary.stop()
    primary.start({**SETTINGS, "max_prepared_transactions": "2"})
    run(primary, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'it''s\\mine'")
    conninfo = f"{primary.conninfo} user=nobody_special"
    with ServerObserver(conninfo) as observer:
        (seen,) = observer.window().prepared
    with connect_foreign(conninfo) as session:
        (watched,) = Looker(session).look().prepared
    assert (seen.gid, seen.owner, seen.database) == (watched.gid, "postgres", "postgres")
    assert 0 <= seen.age_s < 600
    assert seen.freeze_age >= 1
    # Its identifier is written so that the lines work.
    run(primary, f"ROLLBACK PREPARED {seen.gid}")
    assert query(primary, "SELECT count(*) FROM pg_prepared_xacts") == "0"
