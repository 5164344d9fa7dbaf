"""Recordings of running servers: whole, with no more rights than needed, and without anything left behind."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command import start, walproof
from tests.lab.recorded import (
    SETTINGS,
    Writer,
    conninfo_of,
    recorded_server,
    segments,
    slots,
    take,
    wait_for,
)
from tests.schemas import assert_valid
from walproof.errors import DiskError, ProbeError, WalError, WalproofError
from walproof.facts import Install
from walproof.lab.capture import Beginning, CaptureOrder
from walproof.postgres.cluster import Cluster
from walproof.postgres.link import Link
from walproof.postgres.workspace import Workspace
from walproof.wal import read_map, stats
from walproof.wal.recording import UNFINISHED, Recording, read_recording

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    with recorded_server(install, workspace) as made:
        yield made


def test_a_recording_holds_all_that_was_written_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    seen: list[tuple[float, int, int]] = []
    told: list[Beginning] = []

    def watch(passed_s: float, received: int, free: int) -> None:
        seen.append((passed_s, received, free))
        with cluster.connect() as connection:
            assert slots(connection) == [(True, True)]

    with Writer(cluster.connect):
        made = take(CaptureOrder(conninfo_of(cluster), 4, folder), watch=watch, tell=told.append)
    assert made.ended_because == "time"
    assert made.bytes > 3 << 20, "several segments, and more than one checkpoint"
    assert seen[-1][1] > 0
    assert [state.max_slot_wal_keep_size for state in told] == ["-1"]
    assert read_recording(folder) == made
    assert made.settings["max_wal_size"] == "32MB"
    assert [position.lsn for position in made.positions] == sorted(
        position.lsn for position in made.positions
    )
    assert read_map(folder / "relations.json").system_identifier == made.system_identifier
    # The decoder reads it to the end that was reported, without a gap.
    wal = stats(folder, start=made.began.lsn, partial=True)
    assert wal.error is None
    assert int(wal.end) >= int(made.ended.lsn) - 8192
    assert not [path for path in folder.iterdir() if "secret" in path.read_bytes().decode("latin-1")]
    with cluster.connect() as connection:
        assert slots(connection) == []


@pytest.mark.pg(">= 18")
def test_what_is_known_is_on_the_disk_while_it_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a walproof that is killed leaves a recording, of what had reached the disk."""
    monkeypatch.setattr("walproof.lab.capture._NOTE_S", 1.0)
    monkeypatch.setattr("walproof.lab.receiver._FLUSH_S", 0.5)
    folder = tmp_path / "recording"
    seen: list[Recording] = []

    def watch(_passed_s: float, _received: int, _free: int) -> None:
        seen.append(read_recording(folder))

    with Writer(cluster.connect):
        made = take(CaptureOrder(conninfo_of(cluster), 6, folder), watch=watch)
    assert {one.ended_because for one in seen} == {UNFINISHED}
    assert seen[-1].bytes > 0
    assert 1 < len(seen[-1].positions) < len(made.positions)
    assert seen[-1].positions == made.positions[: len(seen[-1].positions)]
    assert read_recording(folder) == made


def test_it_holds_the_bytes_of_the_server(install: Install, workspace: Workspace, tmp_path: Path) -> None:
    """Whole segments are equal, the last one up to its end; both decode to the same."""
    with recorded_server(install, workspace, {**SETTINGS, "wal_keep_size": "10GB"}) as cluster:
        folder = tmp_path / "recording"
        is_written: list[float] = []

        def write(passed_s: float, _received: int, _free: int) -> None:
            if not is_written:
                with cluster.connect() as connection:
                    connection.execute(
                        "INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 30000) g"
                    )
                is_written.append(passed_s)

        made = take(CaptureOrder(conninfo_of(cluster), 60, folder), lambda: bool(is_written), write)
        assert made.ended_because == "interrupted"
        ours, server = segments(folder), cluster.data / "pg_wal"
        assert len(ours) > 5
        assert [path.name for path in ours if path.read_bytes() != (server / path.name).read_bytes()] == []
        (part,) = folder.glob("*.partial")
        data, end = part.read_bytes(), int(made.ended.lsn) % made.segment_bytes
        assert len(data) == made.segment_bytes
        assert data[:end] == (server / part.stem).read_bytes()[:end]
        mine, theirs = (stats(place, start=made.began.lsn, end=made.ended.lsn) for place in (folder, server))
        assert mine.totals == theirs.totals
        assert mine.totals.records > 30000
        assert (mine.start, mine.end) == (theirs.start, theirs.end)


@pytest.mark.pg(">= 18")
def test_a_recording_ends_when_it_is_asked_and_before_the_disk_is_full(
    cluster: Cluster, tmp_path: Path
) -> None:
    conninfo = conninfo_of(cluster)
    began = time.monotonic()
    assert take(CaptureOrder(conninfo, 600, tmp_path / "a"), lambda: True).ended_because == "interrupted"
    step = 64 << 20
    full = CaptureOrder(
        conninfo, 600, tmp_path / "b", least_free_bytes=shutil.disk_usage(tmp_path).free - step
    )
    with (tmp_path / "filler").open("wb") as filler:

        def fill() -> bool:
            """Take more of the disk each time that it is asked; others may give some back meanwhile."""
            os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, step)
            return False

        assert take(full, fill).ended_because == "disk"
    (tmp_path / "filler").unlink()
    assert time.monotonic() - began < 100


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_stops_ends_the_recording(cluster: Cluster, tmp_path: Path, mode: str) -> None:
    """Nor does the recording keep it from stopping: it waits until all that it wrote is confirmed."""
    took: list[float] = []

    def end_the_server(_passed_s: float, _received: int, _free: int) -> None:
        if cluster.is_running():
            began = time.monotonic()
            assert cluster.stop(mode)
            took.append(time.monotonic() - began)

    order = CaptureOrder(conninfo_of(cluster), 600, tmp_path / "c")
    made = take(order, watch=end_the_server)
    assert took[0] < order.timeout_s / 2, "before the server gave a silent client up"
    reasons = ("the server shut down", "terminating connection", "closed the connection unexpectedly")
    assert any(reason in made.ended_because for reason in reasons), made.ended_because
    assert "\n" not in made.ended_because
    assert read_recording(tmp_path / "c") == made


def test_a_recording_ends_when_the_server_keeps_too_much(
    cluster: Cluster, workspace: Workspace, tmp_path: Path
) -> None:
    most = 8 << 20
    with Link(workspace, cluster, bytes_per_s=256 << 10) as link, Writer(cluster.connect):
        conninfo = f"{link.route} user=recorder dbname=postgres"
        made = take(CaptureOrder(conninfo, 600, tmp_path / "slow", max_retained_bytes=most))
        assert "MB of WAL for the recording, more than 8.00 MB (--max-retained)" in made.ended_because
        with cluster.connect() as connection:
            assert slots(connection) == []
    assert stats(tmp_path / "slow", partial=True).error is None, "what was received is kept"
    # What the server keeps for its own recovery does not count.
    again = CaptureOrder(conninfo_of(cluster), 2, tmp_path / "b", max_retained_bytes=most)
    assert take(again).ended_because == "time"


def test_a_recording_that_waits_for_the_rest_ends_when_the_server_keeps_too_much(
    cluster: Cluster, workspace: Workspace, tmp_path: Path
) -> None:
    with (
        ExitStack() as writing,
        Link(workspace, cluster, bytes_per_s=32 << 10) as link,
        cluster.connect() as connection,
    ):

        def end_before_it_is_received() -> bool:
            """Write more than the link carries in time: the rest of a segment may be next to nothing."""
            connection.execute("INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 3000) g")
            writing.enter_context(Writer(cluster.connect))
            return True

        conninfo = f"{link.route} user=recorder dbname=postgres"
        order = CaptureOrder(conninfo, 600, tmp_path / "end", max_retained_bytes=8 << 20)
        assert "--max-retained" in take(order, end_before_it_is_received).ended_because


@pytest.mark.pg(">= 18")
def test_from_the_command_line(cluster: Cluster, tmp_path: Path) -> None:
    """No more slots and processes than before, also after kill -9."""
    arguments = ("wal", "capture", conninfo_of(cluster), "--max-retained", "512MB")
    done = walproof(*arguments, "--to", "short", "--for", "2s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "recorded " in done.stdout
    assert "into short" in done.stdout
    assert "more than 512 MB of WAL" in done.stderr
    assert "max_slot_wal_keep_size is -1 (no limit)" in done.stderr
    done = walproof(*arguments, "--to", "told", "--for", "1s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert_valid("wal-capture", told)
    recorded = read_recording(tmp_path / "told")
    assert (told["folder"], told["wal_bytes"]) == ("told", recorded.bytes)
    assert (told["began_lsn"], told["ended_because"]) == (str(recorded.began.lsn), "time")
    process = start([*arguments, "--to", "killed", "--for", "1h"], tmp_path, tmp_path / "errors")
    with cluster.connect() as connection:
        wait_for(lambda: slots(connection) == [(True, True)], 60)
        process.kill()
        process.wait()
        wait_for(lambda: slots(connection) == [], 10)


@pytest.mark.pg(">= 18")
def test_what_cannot_be_recorded_is_said(cluster: Cluster, tmp_path: Path) -> None:
    conninfo = conninfo_of(cluster)

    def refuse(order: CaptureOrder, message: str, kind: type[WalproofError] = ProbeError) -> None:
        with pytest.raises(kind, match=message) as caught:
            take(order)
        assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"

    refuse(CaptureOrder(conninfo_of(cluster, "nobody"), 5, tmp_path / "b"), "could not connect")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refuse(CaptureOrder(conninfo, 5, tmp_path / "full"), "is not empty", DiskError)
    no_room = CaptureOrder(conninfo, 5, tmp_path / "c", least_free_bytes=1 << 60)
    refuse(no_room, "is nearly full", DiskError)
    few = CaptureOrder(conninfo, 5, tmp_path / "d", max_retained_bytes=1 << 20)
    refuse(few, "--max-retained is 1.00 MB, expected at least 2.00 MB")
    with pytest.raises(WalError, match="is not a recording"):
        read_recording(tmp_path)


@pytest.mark.pg(">= 18")
def test_no_commit_waits_for_a_recording(cluster: Cluster, tmp_path: Path) -> None:
    """A walsender that synchronous_standby_names matches counts as a standby: at the start, and later."""
    order = CaptureOrder(conninfo_of(cluster), 60, tmp_path / "a")
    # The one that commits here must not wait, either.
    everybody = {**SETTINGS, "synchronous_standby_names": "*", "synchronous_commit": "local"}

    def change(_passed_s: float, _received: int, _free: int) -> None:
        cluster.reload(everybody)

    assert "synchronous_standby_names" in take(order, watch=change).ended_because
    with pytest.raises(ProbeError, match="a synchronous standby of the recording"):
        take(CaptureOrder(conninfo_of(cluster), 60, tmp_path / "b"))
    with cluster.connect() as connection:
        assert slots(connection) == []
