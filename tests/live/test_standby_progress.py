"""``walproof recovery progress`` on servers that go on replaying: standbys, and a recovery to a target."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.postgres.replication import SETTINGS, query, run, running_primary, wait_until
from tests.schemas import assert_valid
from walproof.facts import Install
from walproof.facts.recovering import RecoveryPhase
from walproof.postgres.base_backup import take_base_backup
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.probe.processes import children, read_title
from walproof.probe.recovering import RecoveringServer

pytestmark = pytest.mark.live
ENDS = ("SELECT pg_wal_replay_resume()", "SELECT pg_promote()")
"""Of a recovery that is paused at its target."""


def told(cluster: Cluster, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return walproof("recovery", "progress", str(cluster.data), *options, cwd=folder)


def assert_told(cluster: Cluster, folder: Path, phase: str, words: str) -> None:
    """Followed, and asked by a probe several times: it is said at once, with the status 0."""
    for options in ((), ("--check", "--every", "1s"), ("--check", "--every", "1s"), ("--check",)):
        done = told(cluster, folder, *options)
        assert (done.returncode, done.stdout, done.stderr) == (0, words + "\n", ""), options
    line = json.loads(told(cluster, folder, "--json").stdout)
    assert_valid("recovery-progress", line)
    assert (line["phase"], line["stalled_s"], line["left_s"]) == (phase, 0.0, None)


@pytest.mark.pg(ends=True)
def test_a_hot_standby_is_ready(install: Install, workspace: Workspace, tmp_path: Path) -> None:
    with running_primary(install, workspace) as primary:
        standby = Standby(primary, workspace, "hot")
        standby.build()
        try:
            standby.start(SETTINGS)
            assert query(standby, "SELECT pg_is_in_recovery()") == "True"
            assert_told(
                standby, tmp_path, "hot standby",
                "ready: a hot standby, which accepts read-only connections; whether it replays, "
                "walproof replica watch says",
            )  # fmt: skip
            server = RecoveringServer(standby.data)
            standby.promote()
            wait_until(lambda: server.look().phase is RecoveryPhase.OVER)
            done = told(standby, tmp_path, "--check")
            assert (done.returncode, done.stdout[:37]) == (0, "ready: the server accepts connections")
        finally:
            standby.stop("immediate")


@pytest.mark.pg(ends=True)
def test_a_warm_standby_takes_no_connections(install: Install, workspace: Workspace, tmp_path: Path) -> None:
    with running_primary(install, workspace) as primary:
        standby = Standby(primary, workspace, "warm")
        standby.build()
        try:
            standby.start({**SETTINGS, "hot_standby": "off"})
            assert_told(
                standby, tmp_path, "warm standby",
                "a standby that replays WAL and accepts no connections (hot_standby = off)",
            )  # fmt: skip
            server = RecoveringServer(standby.data)
            standby.promote()
            wait_until(lambda: server.look().phase is RecoveryPhase.OVER)
        finally:
            standby.stop("immediate")


@contextmanager
def restored(primary: Cluster, workspace: Workspace, **settings: str) -> Iterator[Cluster]:
    """A server that recovers from a backup to a target, with segments behind it."""
    cluster = Cluster(primary.install, workspace, workspace.make_folder("restored"))
    take_base_backup(primary, cluster.data)
    target = run(primary, "CREATE TABLE before AS SELECT generate_series(1, 1000) i")
    run(primary, "CREATE TABLE after AS SELECT generate_series(1, 1000) i", "SELECT pg_switch_wal()")
    with acting_as(cluster.user):
        (cluster.data / "recovery.signal").touch(mode=0o600)
    restoring = {"restore_command": f"cp {primary.data}/pg_wal/%f %p", "recovery_target_lsn": str(target)}
    try:
        cluster.launch({**SETTINGS, **restoring, **settings})
        yield cluster
    finally:
        cluster.stop("immediate")


@pytest.mark.pg(newest=True)
@pytest.mark.parametrize("end", ENDS)
def test_a_recovery_that_is_paused_at_its_target(
    install: Install, workspace: Workspace, tmp_path: Path, end: str
) -> None:
    with (
        running_primary(install, workspace, {**SETTINGS, "wal_keep_size": "1GB"}) as primary,
        restored(primary, workspace) as cluster,
    ):
        cluster.wait_until_ready(60)
        wait_until(lambda: query(cluster, "SELECT pg_is_wal_replay_paused()") == "True")
        for _ in range(2):
            done = told(cluster, tmp_path, "--check", "--every", "1s")
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("recovery to a target for ")
            assert re.search(r"accepts read-only connections, at [0-9A-F]+/[0-9A-F]+\n$", done.stdout)
        # Whichever end follows, this takes twelve seconds and says the same.
        if end == ENDS[0]:
            quiet = told(cluster, tmp_path, "--once", "--every", "12s")
            assert quiet.returncode == 0
            assert "; nothing has advanced for 1" in quiet.stdout
            assert "it may be paused at its target: SELECT pg_get_wal_replay_pause_state()" in quiet.stdout
        server = RecoveringServer(cluster.data)
        line = json.loads(told(cluster, tmp_path, "--once", "--every", "1s", "--json").stdout)
        assert_valid("recovery-progress", line)
        assert line["phase"] == "read-only recovery"
        query(cluster, end)
        phases = follow(server)
        assert RecoveryPhase.HOT_STANDBY not in phases
        assert query(cluster, "SELECT pg_is_in_recovery()") == "False"


@pytest.mark.pg(ends=True)
def test_a_recovery_to_a_target_that_takes_no_connections_meanwhile(
    install: Install, workspace: Workspace
) -> None:
    """With hot_standby = off the status is ``standby`` from the begin of redo on."""
    with (
        running_primary(install, workspace, {**SETTINGS, "wal_keep_size": "1GB"}) as primary,
        restored(
            primary, workspace, hot_standby="off", recovery_target_action="promote",
            restore_command=f"sleep 1; cp {primary.data}/pg_wal/%f %p",
        ) as cluster,
    ):  # fmt: skip
        wait_until(lambda: status(cluster) == "standby")
        server = RecoveringServer(cluster.data)
        assert server.look().phase not in (RecoveryPhase.OVER, RecoveryPhase.WARM_STANDBY)
        assert not {RecoveryPhase.WARM_STANDBY, RecoveryPhase.READ_ONLY} & set(follow(server))
        assert query(cluster, "SELECT pg_is_in_recovery()") == "False"


@pytest.mark.pg(newest=True)
def test_a_restore_that_is_slow_is_followed_from_segment_to_segment(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    with (
        running_primary(install, workspace, {**SETTINGS, "wal_keep_size": "1GB"}) as primary,
        restored(
            primary, workspace, hot_standby="off", recovery_target_action="promote",
            restore_command=f"sleep 4; cp {primary.data}/pg_wal/%f %p",
        ) as cluster,
    ):  # fmt: skip
        wait_until(lambda: "waiting for" in startup_title(cluster))
        line = json.loads(told(cluster, tmp_path, "--once", "--every", "1s", "--json").stdout)
        assert_valid("recovery-progress", line)
        assert (line["phase"], line["sync_files"]) == ("redo", None)
        assert len(line["awaited"]) == 24
        assert line["target"].startswith("recovery_target_lsn = ")


def startup_title(cluster: Cluster) -> str:
    path = cluster.data / "postmaster.pid"
    pid = path.read_text().split()[:1] if path.exists() else []
    titles = [read_title(child) for child in (children(int(pid[0])) if pid else [])]
    return next((title for title in titles if "startup" in title), "")


def status(cluster: Cluster) -> str:
    path = cluster.data / "postmaster.pid"
    lines = path.read_text().splitlines() if path.exists() else []
    return lines[7].strip() if len(lines) >= 8 else ""


def follow(server: RecoveringServer) -> list[RecoveryPhase]:
    """The phases until it accepts connections."""
    phases = [server.look().phase]
    deadline = time.monotonic() + 60
    while phases[-1] is not RecoveryPhase.OVER:
        assert time.monotonic() < deadline, phases
        phases.append(server.look().phase)
    return phases
