"""Recordings of running servers: whole, with no more rights than needed, and without anything left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import start, walproof
from walproof.errors import ProbeError, WalError
from walproof.facts import Install
from walproof.lab.capture import CaptureOrder, capture, find_receiver, server_version
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover
from walproof.postgres.workspace import Workspace
from walproof.wal import read_map, stats
from walproof.wal.recording import read_recording

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ("--wal-segsize=1",)), folder, flush=False)
    made = Cluster(install, workspace, folder)
    made.start({"fsync": "off", "max_wal_size": "32MB", "min_wal_size": "2MB", "wal_level": "replica"})
    with made.connect() as connection:
        connection.execute("CREATE ROLE recorder LOGIN REPLICATION PASSWORD 'secret'")
        connection.execute("GRANT pg_monitor TO recorder")
        connection.execute("CREATE TABLE t (i int, s text)")
    yield made
    made.stop("immediate")


def _conninfo(cluster: Cluster, user: str = "recorder") -> str:
    return f"host={cluster.sockets} port={cluster.port} user={user} dbname=postgres password=secret"


class _Writer:
    """Writes WAL, much more than max_wal_size, until it is told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self._ending = threading.Event()
        self._cluster = cluster
        self.rows = 0
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self._cluster.connect() as connection:
            while not self._ending.is_set():
                connection.execute("INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 3000) g")
                connection.execute("CHECKPOINT")
                self.rows += 3000

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join(30)


def test_a_recording_holds_all_that_was_written_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    conninfo = _conninfo(cluster)
    program = find_receiver(discover(), server_version(conninfo))
    folder = tmp_path / "recording"
    seen: list[tuple[float, int, int]] = []
    with _Writer(cluster):
        made = capture(
            CaptureOrder(conninfo, 4, folder), program, lambda *now: seen.append(now), lambda: False
        )
    assert made.ended_because == "time"
    assert made.bytes > 3 << 20, "several segments, and more than one checkpoint"
    assert seen[-1][1] > 0
    assert read_recording(folder) == made
    assert made.settings["max_wal_size"] == "32MB"
    assert [one.lsn for one in made.positions] == sorted(one.lsn for one in made.positions)
    assert read_map(folder / "relations.json").system_identifier == made.system_identifier
    # The decoder reads it to the end that was reported, without a gap.
    wal = stats(folder, start=made.began.lsn, partial=True)
    assert wal.error is None
    assert int(wal.end) >= int(made.ended.lsn) - 8192
    assert "secret" not in (folder / "pg_receivewal.log").read_text()
    with cluster.connect() as connection:
        row = connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone()
    assert row == (0,)


@pytest.mark.pg(">= 18")
def test_a_recording_ends_when_it_is_asked_and_before_the_disk_is_full(
    cluster: Cluster, tmp_path: Path
) -> None:
    conninfo = _conninfo(cluster)
    program = find_receiver(discover(), server_version(conninfo))
    began = time.monotonic()
    asked = capture(CaptureOrder(conninfo, 600, tmp_path / "a"), program, lambda *_: None, lambda: True)
    assert asked.ended_because == "interrupted"
    step = 64 << 20
    full = CaptureOrder(
        conninfo, 600, tmp_path / "b", least_free_bytes=shutil.disk_usage(tmp_path).free - step
    )
    with (tmp_path / "filler").open("wb") as filler:

        def fill() -> bool:
            """Take more of the disk each time that it is asked; others may give some back meanwhile."""
            os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, step)
            return False

        assert capture(full, program, lambda *_: None, fill).ended_because == "disk"
    (tmp_path / "filler").unlink()
    assert time.monotonic() - began < 100

    def end_the_server(passed_s: float, _received: int, _free: int) -> None:
        if passed_s > 1 and cluster.is_running():
            cluster.stop("immediate")

    gone = capture(CaptureOrder(conninfo, 60, tmp_path / "c"), program, end_the_server, lambda: False)
    assert gone.ended_because not in ("time", "interrupted", "disk")
    assert read_recording(tmp_path / "c") == gone


@pytest.mark.pg(">= 18")
def test_nothing_outlives_a_killed_capture(cluster: Cluster, tmp_path: Path) -> None:
    """Neither the slot nor pg_receivewal; from the command line, whose output is checked as well."""
    arguments = ("wal", "capture", _conninfo(cluster), "--pg", cluster.install.bindir)
    done = walproof(*arguments, "--to", "short", "--for", "2s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "recorded " in done.stdout
    assert "into short" in done.stdout
    process = start([*arguments, "--to", "killed", "--for", "1h"], tmp_path, tmp_path / "errors")
    log = tmp_path / "killed" / "pg_receivewal.log"
    deadline = time.monotonic() + 30
    while not log.exists() or "starting log streaming" not in log.read_text():
        assert time.monotonic() < deadline, (tmp_path / "errors").read_text()
        time.sleep(0.05)
    assert _receivers()
    process.kill()
    process.wait()
    with cluster.connect() as connection:
        while _receivers() or connection.execute("SELECT * FROM pg_replication_slots").fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _receivers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = path.read_text().replace("\0", " ")
            if "pg_receivewal" in text.split(" ")[0] and "killed" in text:
                found.append(text)
    return found


@pytest.mark.pg(">= 18")
def test_what_cannot_be_recorded_is_said(cluster: Cluster, tmp_path: Path) -> None:
    conninfo = _conninfo(cluster)
    program = find_receiver(discover(), server_version(conninfo))

    def refuse(order: CaptureOrder, message: str) -> None:
        with pytest.raises(ProbeError, match=message) as caught:
            capture(order, program, lambda *_: None, lambda: False)
        assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"

    with cluster.connect() as connection:
        connection.execute("CREATE ROLE plain LOGIN PASSWORD 'secret'")
        connection.execute("GRANT pg_monitor TO plain")
    refuse(CaptureOrder(_conninfo(cluster, "plain"), 5, tmp_path / "a"), "temporary replication slot")
    refuse(CaptureOrder(_conninfo(cluster, "nobody"), 5, tmp_path / "b"), "could not connect")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refuse(CaptureOrder(conninfo, 5, tmp_path / "full"), "is not empty")
    refuse(CaptureOrder(conninfo, 5, tmp_path / "c", least_free_bytes=1 << 60), "is nearly full")
    with pytest.raises(ProbeError, match="no pg_receivewal for a server of version 19"):
        find_receiver(discover(), 190000)
    with pytest.raises(WalError, match="is not a recording"):
        read_recording(tmp_path)
