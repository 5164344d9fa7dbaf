"""``walproof replica watch`` as a user runs it: its result, and every mistake as one clear error."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import start, walproof
from tests.live.pair import Pair, running_pair, watcher
from tests.postgres.replication import query, run, running_primary, wait_until
from tests.schemas import assert_valid
from walproof.facts import Install
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def pair(embedded: Install, work: Path) -> Iterator[Pair]:
    with Workspace(work, server_user()) as workspace, running_pair(embedded, workspace) as pair:
        yield pair


def test_json_is_a_line_a_window_without_connection_strings(pair: Pair, tmp_path: Path) -> None:
    pair.catch_up()
    done = walproof(
        "replica", "watch", "--primary", watcher(pair.primary) + " password=hunter2",
        "--standby", watcher(pair.standby), "--json", "--for", "4s", "--every", "1s", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    windows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(windows) >= 2
    for window in windows:
        assert_valid("replica-watch", window)
        assert [stage["stage"] for stage in window["stages"]] == [
            "generation", "network", "write", "flush", "replay", "conflict", "apply delay",
        ]  # fmt: skip
        assert sum(stage["lag_bytes"] for stage in window["stages"]) == window["lag_bytes"]
    assert "hunter2" not in done.stdout + done.stderr
    assert str(pair.primary.sockets) not in done.stdout


def test_check_makes_a_cause_the_exit_status(pair: Pair, tmp_path: Path) -> None:
    arguments = (
        "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(pair.standby),
        "--once", "--every", "1s", "--check",
    )  # fmt: skip
    query(pair.standby, "SELECT pg_wal_replay_pause()")
    try:
        done = walproof(*arguments, cwd=tmp_path)
    finally:
        query(pair.standby, "SELECT pg_wal_replay_resume()")
    assert done.returncode == 1, done.stderr
    assert "replay paused" in done.stdout
    assert "pg_wal_replay_resume()" in done.stdout


def test_check_makes_a_concern_the_exit_status(pair: Pair, tmp_path: Path) -> None:
    """Commits hang although the pair itself keeps up."""
    arguments = (
        "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(pair.standby),
        "--once", "--every", "1s", "--check",
    )  # fmt: skip
    pair.catch_up()
    done = walproof(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    run(pair.primary, "ALTER SYSTEM SET synchronous_standby_names = 'nope'", "SELECT pg_reload_conf()")
    try:
        done = walproof(*arguments, cwd=tmp_path)
        lines = walproof(*arguments, "--json", cwd=tmp_path)
        query(pair.standby, "SELECT pg_wal_replay_pause()")
        both = walproof(*arguments, "--json", cwd=tmp_path)
    finally:
        query(pair.standby, "SELECT pg_wal_replay_resume()")
        run(pair.primary, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    assert done.returncode == 1
    assert "Commits hang" in done.stdout
    assert lines.returncode == 1
    assert "primary: Commits hang" in lines.stderr
    assert len(lines.stdout.splitlines()) == 1
    # A cause of the pair's own does not hide it.
    assert both.returncode == 1
    assert json.loads(both.stdout)["causes"] != []
    assert "primary: Commits hang" in both.stderr


def test_a_role_that_may_not_list_pg_wal_sees_the_rest(pair: Pair, tmp_path: Path) -> None:
    pair.catch_up()
    run(pair.primary, "REVOKE EXECUTE ON FUNCTION pg_ls_waldir() FROM pg_monitor")
    try:
        done = walproof(
            "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(pair.standby),
            "--once", "--every", "1s", "--json", cwd=tmp_path,
        )  # fmt: skip
    finally:
        run(pair.primary, "GRANT EXECUTE ON FUNCTION pg_ls_waldir() TO pg_monitor")
    assert done.returncode == 0, done.stderr
    window = json.loads(done.stdout)
    assert_valid("replica-watch", window)
    assert window["causes"] == []
    assert 'Role "watcher" may not list pg_wal on the upstream' in " ".join(window["notes"])


def _watch(primary: str, standby: str, tmp_path: Path) -> str:
    done = walproof("replica", "watch", "--primary", primary, "--standby", standby, "--once", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "walproof: error: " in done.stderr
    return done.stderr


def test_two_servers_that_are_no_pair(pair: Pair, workspace: Workspace, tmp_path: Path) -> None:
    primary, standby = watcher(pair.primary), watcher(pair.standby)
    assert "Swap the two" in _watch(standby, primary, tmp_path)
    assert "is not a standby" in _watch(primary, primary, tmp_path)
    assert "name the same server" in _watch(standby, standby, tmp_path)
    special = standby.replace("user=watcher", "user=nobody_special")
    assert 'GRANT pg_monitor TO "nobody_special"' in _watch(primary, special, tmp_path)
    assert "could not connect to the standby" in _watch(primary, standby + "_absent", tmp_path)
    assert "could not connect to the primary" in _watch("host=/nonexistent", standby, tmp_path)
    assert "could not connect to the primary" in _watch("not a dsn", standby, tmp_path)
    assert (
        "expected at least 0.5 s"
        in walproof(
            "replica", "watch", "--primary", primary, "--standby", standby, "--every", "10ms", cwd=tmp_path
        ).stderr
    )
    with running_primary(pair.primary.install, workspace, is_new=True) as stranger:
        run(stranger, "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        assert "System identifier of --primary" in _watch(watcher(stranger), standby, tmp_path)


def test_the_standby_of_a_cascade_is_promoted(pair: Pair, workspace: Workspace, tmp_path: Path) -> None:
    last = Standby(pair.standby, workspace, "last")
    last.build()
    last.start(pair.settings)
    try:
        last.promote()
        assert "has been promoted" in _watch(watcher(pair.standby), watcher(last), tmp_path)
    finally:
        last.stop("immediate")


def test_a_promotion_while_it_is_watched_is_said_at_once(
    pair: Pair, workspace: Workspace, tmp_path: Path
) -> None:
    last = Standby(pair.primary, workspace, "promoted")
    last.build()
    last.start(pair.settings)
    errors = tmp_path / "errors"
    command = ("replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(last),
               "--every", "1s")  # fmt: skip
    process = start(command, tmp_path, errors)
    try:
        time.sleep(3)
        last.promote()
        wait_until(lambda: "two primaries" in errors.read_text())
        said = errors.read_text()
        assert said.count("two primaries of one system. The server of --primary writes timeline 1") == 1
        assert process.poll() is None, "the standby may come back"
        # A standby of the new primary has another history than the old one.
        follower = Standby(last, workspace, "follower")
        follower.build()
        follower.start(pair.settings)
        try:
            assert "follows another primary" in _watch(watcher(pair.primary), watcher(follower), tmp_path)
        finally:
            follower.stop("immediate")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        last.stop("immediate")


def test_a_standby_that_has_written_nothing_yet_is_not_silent(
    pair: Pair, workspace: Workspace, tmp_path: Path
) -> None:
    """written_lsn is NULL until the first write."""
    last = Standby(pair.primary, workspace, "idle")
    last.build()
    last.start(pair.settings)
    try:
        wait_until(lambda: query(last, "SELECT count(*) FROM pg_stat_wal_receiver") == "1")
        done = walproof(
            "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(last), "--once",
            "--every", "1s", "--json", cwd=tmp_path,
        )  # fmt: skip
    finally:
        last.stop("immediate")
    window = json.loads(done.stdout)
    assert window["positions"]["standby_written"] != "0/0"
    assert [cause["cause"] for cause in window["causes"]] == []


def test_a_standby_that_follows_a_twin_of_the_primary(
    pair: Pair, workspace: Workspace, tmp_path: Path
) -> None:
    """Clones of a data directory share its system identifier; only the missing walsender tells them apart."""
    with running_primary(pair.primary.install, workspace) as twin:
        run(twin, "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        done = walproof(
            "replica", "watch", "--primary", watcher(twin), "--standby", watcher(pair.standby),
            "--once", "--every", "1s", cwd=tmp_path,
        )  # fmt: skip
    assert "not from the server of --primary" in done.stdout


def test_a_standby_whose_settings_do_not_tell_its_walsender(
    pair: Pair, workspace: Workspace, tmp_path: Path
) -> None:
    """Its name there comes from the server's environment, and it has no slot: --application-name tells it."""
    last = Standby(pair.primary, workspace, "unclear", slot=False, environment={"PGAPPNAME": "unclear"})
    last.build()
    last.start({**pair.settings, "primary_conninfo": pair.primary.route})
    command = (
        "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(last), "--once",
        "--every", "1s", "--json",
    )  # fmt: skip
    windows = {}
    try:
        for name in ("", "unclear", "nobody"):
            done = walproof(*command, *(["--application-name", name] if name else []), cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            windows[name] = json.loads(done.stdout)
    finally:
        last.stop("immediate")
    assert windows["unclear"]["sender"]["application_name"] == "unclear"
    assert "--primary" not in " ".join(windows["unclear"]["notes"])
    for name in ("", "nobody"):
        assert windows[name]["sender"] is None
        assert "not from the server of --primary" in " ".join(windows[name]["notes"])


def test_a_pair_of_two_versions(pair: Pair, workspace: Workspace, tmp_path: Path) -> None:
    older = reachable_install(find("embedded-16"), server_user())
    with running_primary(older, workspace) as stranger:
        run(stranger, "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        said = _watch(watcher(stranger), watcher(pair.standby), tmp_path)
    assert f"--primary is PostgreSQL {older.version} and --standby {pair.standby.install.version}" in said


def test_a_standby_that_takes_no_connections(pair: Pair, tmp_path: Path) -> None:
    pair.standby.stop("fast")
    try:
        pair.standby.start({**pair.settings, "hot_standby": "off"})
        assert "hot_standby = on" in _watch(watcher(pair.primary), watcher(pair.standby), tmp_path)
    finally:
        pair.standby.stop("fast")
        pair.standby.start(pair.settings)
