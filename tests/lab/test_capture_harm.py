"""What becomes of the server when walproof is stopped, killed or cut off, or its disk is full."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.command import environment, start
from tests.lab.network import network
from tests.lab.recorded import (
    Writer,
    conninfo_of,
    is_streaming,
    prepare,
    recorded_server,
    segments,
    slots,
    take,
    wait_for,
)
from tests.wal.server import BINDIRS, Server
from walproof.facts import Install
from walproof.lab.capture import CaptureOrder
from walproof.postgres.workspace import Workspace
from walproof.wal import stats
from walproof.wal.recording import RECORDING_FILE, UNFINISHED, read_recording

pytestmark = pytest.mark.live


@pytest.mark.pg(newest=True)
def test_the_server_gives_a_stopped_capture_up(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    """Under load and without; the one that goes on says so, and keeps what it received."""
    with recorded_server(install, workspace) as cluster, cluster.connect() as connection:
        command = [sys.executable, "-m", "tests.lab.capturing", conninfo_of(cluster)]
        with Writer(cluster.connect), _started([*command, str(tmp_path / "a"), "3"]) as busy:
            wait_for(lambda: slots(connection) == [(True, True)], 60)
            time.sleep(1)
            busy.send_signal(signal.SIGSTOP)
            wait_for(lambda: slots(connection) == [], 60)
            busy.send_signal(signal.SIGCONT)
            said, _ = busy.communicate(timeout=60)
            assert "walproof did not answer for" in said
            assert read_recording(tmp_path / "a").ended_because == said
        with _started([*command, str(tmp_path / "b"), "3"]) as idle:
            wait_for(lambda: is_streaming(connection), 60)
            idle.send_signal(signal.SIGSTOP)
            wait_for(lambda: slots(connection) == [], 60)


@pytest.mark.pg(newest=True)
def test_a_server_that_is_stopped_ends_the_recording(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    """Its processes are stopped, so its kernel answers for it: the query of the other session, too."""
    with recorded_server(install, workspace) as cluster:
        folder = tmp_path / "recording"
        command = [sys.executable, "-m", "tests.lab.capturing", conninfo_of(cluster), str(folder), "3"]
        with _started(command) as process, cluster.connect() as connection:
            wait_for(lambda: slots(connection) == [(True, True)], 60)
            time.sleep(2)
            with cluster.suspended():
                said, _ = process.communicate(timeout=60)
        assert said == "the server said nothing for 3 s"
        assert read_recording(folder).ended_because == said


def test_the_command_stopped_cut_off_and_killed(tmp_path: Path) -> None:
    """Each with its own slot, under load, with the time-outs that the command has, at the same time."""
    with network() as net, Server(BINDIRS["18"], namespace=net.namespace, segment_mb=1) as server:
        server.configure({"listen_addresses": net.address, "wal_keep_size": "0", "max_wal_size": "32MB"})
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all,replication all samenet trust\n")
        server.stop()
        server.start()
        with server.connect() as connection:
            prepare(connection)
        away = f"host={net.address} user=recorder dbname=postgres"
        near = f"host={server.folder} user=recorder dbname=postgres"
        # A relay would make the others wait for the one that is cut off.
        processes = {
            name: start(["wal", "capture", dsn, "--to", name], tmp_path, tmp_path / f"{name}.err")
            for name, dsn in (("stopped", near), ("cut", away), ("killed", away))
        }
        try:
            with server.connect() as connection:
                wait_for(lambda: len(slots(connection)) == 3, 60)
                # Where a recording begins is known before anything is written.
                wait_for(lambda: _looks(connection) == 3, 60, "a first look")
                with Writer(server.connect):
                    kept = [tmp_path / "cut", tmp_path / "killed"]
                    wait_for(lambda: all(segments(folder) for folder in kept), 60, "a segment")
                    wait_for(
                        lambda: all((one / RECORDING_FILE).exists() for one in kept), 60, "what is known"
                    )
                    processes["killed"].kill()
                    wait_for(lambda: len(slots(connection)) == 2, 10, "a killed one")
                    processes["stopped"].send_signal(signal.SIGSTOP)
                    net.cut()
                    wait_for(lambda: slots(connection) == [], 60, "one that was stopped or cut off")
                # What was kept for them is recycled.
                connection.execute("CHECKPOINT")
                row = connection.execute("SELECT sum(size)::int8 FROM pg_ls_waldir()").fetchone()
                assert row is not None
                assert int(str(row[0])) < 256 << 20
                # Nor does the cut one wait for ever.
                assert processes["cut"].wait(60) == 1
                wait_for(lambda: _sessions(server) == 1, 60, "the sessions that ask")
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        assert "ended early: " in (tmp_path / "cut.err").read_text()
        for folder in kept:
            began = read_recording(folder).began.lsn
            assert stats(folder, start=began, partial=True).error is None
        assert read_recording(tmp_path / "killed").ended_because == UNFINISHED


def _looks(connection: psycopg.Connection[Any]) -> int:
    """How many users have asked for the position since all of them stream."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'recorder' "
        "AND backend_type = 'client backend' AND query LIKE '%pg_current_wal_insert_lsn%' AND query_start > "
        "(SELECT max(backend_start) FROM pg_stat_activity WHERE backend_type = 'walsender')"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _sessions(server: Server) -> int:
    """How many the users have; one that is stopped keeps its idle one."""
    with server.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walproof'"
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


@pytest.mark.pg(">= 18")
def test_a_full_disk_ends_the_recording_and_keeps_it(
    install: Install, workspace: Workspace, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small filesystem is mounted, which needs root")
    with recorded_server(install, workspace) as cluster, _small_disk(tmp_path / "disk", "24m") as disk:
        folder = disk / "recording"
        with Writer(cluster.connect):
            made = take(CaptureOrder(conninfo_of(cluster), 600, folder, least_free_bytes=0))
        assert made.ended_because == "disk"
        assert read_recording(folder) == made
        assert made.bytes > 16 << 20
        wal = stats(folder, start=made.began.lsn, end=made.ended.lsn)
        assert wal.totals.records > 0
        with cluster.connect() as connection:
            assert slots(connection) == []
        assert json.loads((folder / "relations.json").read_text())


@contextmanager
def _small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()
