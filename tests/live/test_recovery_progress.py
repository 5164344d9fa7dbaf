"""``walproof recovery progress`` on servers that recover, stand still, or do not run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from tests.cli.command import environment, walproof
from tests.live.crash_sync import fill
from tests.schemas import assert_valid
from walproof.facts import Install
from walproof.facts.recovering import RecoveryPhase
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.processes import startup_pid
from walproof.probe.recovering import RecoveringServer
from walproof.probe.syncing import walk_synced
from walproof.settings.server_conf import server_conf

pytestmark = pytest.mark.live
SETTINGS = {
    "fsync": "off", "shared_buffers": "16MB", "max_wal_size": "10GB", "checkpoint_timeout": "1h",
    "full_page_writes": "off", "autovacuum": "off", "wal_compression": "off", "restart_after_crash": "on",
}  # fmt: skip
ROWS = 400_000


@pytest.fixture
def loaded(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    """A server whose recovery would take a while: small records, after its last checkpoint."""
    folder = workspace.make_folder("recovering")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start(SETTINGS)
    with cluster.connect() as session:
        session.execute(b"CREATE TABLE t (k int PRIMARY KEY, v int) WITH (fillfactor = 50)")
        session.execute(f"INSERT INTO t SELECT n, 0 FROM generate_series(1, {ROWS}) n".encode())
        session.execute(b"CHECKPOINT")
        for _ in range(2):
            session.execute(b"UPDATE t SET v = v + 1")
    try:
        yield cluster
    finally:
        cluster.stop("immediate")
        workspace.remove_folder(folder)


@pytest.fixture
def held(loaded: Cluster) -> Iterator[tuple[Cluster, int]]:
    """The server, killed and started again; a handle of its startup process, which is stopped in its redo."""
    crashed = loaded
    crashed.kill()
    crashed.forget_postmaster()
    crashed.launch(SETTINGS)
    deadline = time.monotonic() + 60
    while not (crashed.data / "postmaster.pid").exists():
        assert time.monotonic() < deadline
    server = RecoveringServer(crashed.data)
    while (sight := server.look()).phase is RecoveryPhase.BEFORE_REDO:
        assert time.monotonic() < deadline
    assert sight.phase is RecoveryPhase.REDO
    found = startup_pid(crashed.pid)
    assert found is not None
    startup = os.pidfd_open(found)
    signal.pidfd_send_signal(startup, signal.SIGSTOP)
    try:
        yield crashed, startup
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(startup, signal.SIGCONT)
        os.close(startup)


@pytest.mark.pg(ends=True)
def test_a_recovery_is_followed_to_its_end(held: tuple[Cluster, int], tmp_path: Path) -> None:
    cluster, startup = held
    command = ["recovery", "progress", str(cluster.data)]
    # It stands still: somebody who waits for it should know.
    stuck = walproof(*command, "--check", "--every", "0.5s", cwd=tmp_path)
    assert (stuck.returncode, stuck.stdout[:4], stuck.stderr) == (1, "redo", "")
    told = walproof(*command, "--once", "--every", "0.5s", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("redo ")
    assert " of WAL; ready in " in told.stdout
    assert "not known" not in told.stderr
    signal_file = cluster.data / "recovery.signal"
    signal_file.touch()
    endless = walproof(*command, "--once", "--every", "0.5s", cwd=tmp_path)
    signal_file.unlink()
    assert (endless.returncode, "its end is not known" in endless.stdout) == (0, True)
    assert endless.stderr.startswith("recovery.signal is there: WAL comes from elsewhere")
    lines = tmp_path / "lines"
    with lines.open("wb") as stream:
        following = _follow(cluster, "--every", "0.2s", "--shared-buffers", "16MB", "--json", stdout=stream)
    deadline = time.monotonic() + 60
    while not lines.read_text():
        assert time.monotonic() < deadline
        assert following.poll() is None
        time.sleep(0.05)
    signal.pidfd_send_signal(startup, signal.SIGCONT)
    assert following.wait(120) == 0
    seen = [json.loads(line) for line in lines.read_text().splitlines()]
    for line in seen:
        assert_valid("recovery-progress", line)
    phases = [line["phase"] for line in seen]
    order = [phase.value for phase in RecoveryPhase]
    assert [order.index(phase) for phase in phases] == sorted(order.index(phase) for phase in phases)
    assert phases[0] == "redo"
    assert phases[-1] == "over"
    shares = [line["done"] for line in seen]
    assert shares == sorted(shares)
    assert seen[0]["left_s"] > 0
    assert seen[0]["wal_bytes"] > 50e6
    assert seen[-1]["left_s"] == 0
    cluster.wait_until_ready(60)
    ready = walproof(*command, "--check", cwd=tmp_path)
    assert (ready.returncode, ready.stdout[:6]) == (0, "ready:")


@pytest.mark.pg(ends=True)
def test_settings_of_a_server_that_recovers_are_those_that_it_has(
    held: tuple[Cluster, int], tmp_path: Path
) -> None:
    """What it was started with, before it takes connections; what it says itself, when it does."""
    cluster, startup = held
    found = server_conf(cluster.data, RecoveringServer(cluster.data).command())
    conf = cluster.data / "walproof.conf"
    conf.rename(conf.with_suffix(".away"))
    (cluster.data / "postgresql.auto.conf").write_text("broken line here\n")
    told = walproof("recovery", "progress", str(cluster.data), "--once", "--every", "0.2s", cwd=tmp_path)
    assert told.returncode == 0
    assert "settings are not known, its defaults count: syntax error in file" in told.stderr
    (cluster.data / "postgresql.auto.conf").write_text("")
    conf.with_suffix(".away").rename(conf)
    signal.pidfd_send_signal(startup, signal.SIGCONT)
    cluster.wait_until_ready(60)
    with cluster.connect() as session:
        rows = session.execute(b"SELECT name, setting FROM pg_file_settings WHERE applied").fetchall()
    assert sorted(found.items()) == sorted(rows, key=str)
    assert found["shared_buffers"] == "16MB"


@pytest.mark.pg(">= 18")
def test_a_server_that_ends_is_an_error(held: tuple[Cluster, int]) -> None:
    cluster, _ = held
    following = _follow(cluster, "--every", "0.2s", stdout=subprocess.PIPE)
    assert following.stdout is not None
    assert following.stdout.readline().startswith(b"redo ")
    cluster.kill()
    assert following.wait(60) == 2
    following.stdout.close()


@pytest.mark.pg(ends=True)
def test_a_postmaster_may_recover_without_a_new_start(loaded: Cluster) -> None:
    """A session crashed: the same postmaster ends the others and recovers."""
    server = RecoveringServer(loaded.data)
    assert server.look().phase is RecoveryPhase.OVER
    assert server.look().running_s is None
    with loaded.connect() as session:
        os.kill(session.info.backend_pid, signal.SIGKILL)
    phases: list[RecoveryPhase] = []
    deadline = time.monotonic() + 60
    while RecoveryPhase.REDO not in phases or phases[-1] is not RecoveryPhase.OVER:
        assert time.monotonic() < deadline, phases
        sight = server.look()
        phases.append(sight.phase)
    assert sight.running_s is not None
    loaded.wait_until_ready(60)


@pytest.mark.pg(ends=True)
def test_the_sync_is_seen_file_by_file(loaded: Cluster, tmp_path: Path) -> None:
    """The places of the files that a start flushes, in the order of ours, never go back."""
    fill(loaded, 5000)
    loaded.kill()
    loaded.forget_postmaster()
    loaded.launch({**SETTINGS, "fsync": "on"})
    deadline = time.monotonic() + 60
    while not (loaded.data / "postmaster.pid").exists():
        assert time.monotonic() < deadline
    server = RecoveringServer(loaded.data)
    sights = [server.look()]
    while sights[-1].sync is None or not sights[-1].sync.is_flushed:
        assert time.monotonic() < deadline
        assert sights[-1].phase is RecoveryPhase.BEFORE_REDO
        sights.append(server.look())
    startup = startup_pid(loaded.pid)
    assert startup is not None
    os.kill(startup, signal.SIGSTOP)
    try:
        walk = walk_synced(loaded.data, time.time())
        assert len(walk.places) > 5000
        told = walproof("recovery", "progress", str(loaded.data), "--once", "--every", "0.2s", cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("before redo for ")
        assert " files" in told.stdout
        assert "; ready in " in told.stdout
    finally:
        os.kill(startup, signal.SIGCONT)
    while sights[-1].phase is RecoveryPhase.BEFORE_REDO:
        assert time.monotonic() < deadline
        sights.append(server.look())
    places = [walk.places[sight.sync.path] for sight in sights if sight.sync and sight.sync.is_flushed]
    assert places == sorted(places)
    assert len(set(places)) > 20
    assert places[-1] > 0.5 * len(walk.places)
    loaded.wait_until_ready(60)


def _follow(cluster: Cluster, *options: str, stdout: IO[bytes] | int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "walproof", "recovery", "progress", str(cluster.data), *options],
        stdout=stdout, stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
