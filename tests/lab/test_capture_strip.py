"""Recordings that are stripped while they are taken: on every version, beside what the server itself kept."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.lab.recorded import take
from tests.wal.canary import WORD, left_in, write_everywhere
from tests.wal.server import Server
from walproof.facts import Install
from walproof.lab.capture import CaptureOrder
from walproof.wal import stats
from walproof.wal.images import IMAGES_FILE, ImageSamples, read_images
from walproof.wal.recording import RECORDING_FILE, read_recording
from walproof.wal.whatif import Target, simulate

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]
_SAMPLING = 0.05
"""By which sums over different samples of the same images may differ."""


def _left_while_it_is_written(folder: Path) -> list[str]:
    """All is looked at again when a segment that is whole got its last name meanwhile."""
    for _ in range(10):
        with suppress(FileNotFoundError):
            return left_in(folder)
    raise AssertionError(f"files of {folder} get other names all the time")


def test_contents_never_reach_the_disk(install: Install, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    with Server(Path(install.bindir), segment_mb=1, checksums=True) as server:
        seen: list[list[str]] = []

        def write(_passed_s: float, _received: int, _free: int) -> None:
            if not seen:
                write_everywhere(server)
            else:
                with server.connect() as connection:
                    connection.execute("CHECKPOINT")
                    connection.execute(f"UPDATE plain SET v = v || '{WORD}'")
            seen.append(_left_while_it_is_written(folder))

        conninfo = f"host={server.folder} user=postgres dbname=postgres"
        order = CaptureOrder(conninfo, 120, folder, is_stripped=True)
        made = take(order, lambda: len(seen) > 2, write)
        assert made.ended_because == "interrupted"
        assert seen == [[], [], []], "nor while it is recorded"
        assert left_in(folder) == []
        others = {file.name for file in folder.iterdir() if not file.name.startswith("00")}
        assert others == {RECORDING_FILE, IMAGES_FILE}, "no names"
        assert read_recording(folder).positions == made.positions
        kept, other = (stats(path, start=made.began.lsn, end=made.ended.lsn) for path in (server.wal, folder))
        assert kept.totals.records > 10_000
        assert (kept.totals, kept.relations, kept.accounting) == (
            other.totals,
            other.relations,
            other.accounting,
        )

        methods = ("off", "pglz", "lz4", "zstd")
        targets = [Target(max_wal_size_mb=16, wal_compression=method) for method in methods]  # type: ignore[arg-type]
        whole, stripped = (
            simulate(path, targets=targets, start=made.began.lsn, end=made.ended.lsn)
            for path in (server.wal, folder)
        )
        assert stripped.tells_compression
        assert stripped.sample.count > 50
        for before, after in zip(whole.outcomes, stripped.outcomes, strict=True):
            # Other sizes move the checkpoints a little, and so which pages are logged again.
            assert after.images == pytest.approx(before.images, rel=_SAMPLING)
            assert after.image_bytes == pytest.approx(before.image_bytes, rel=_SAMPLING)
        sizes = [outcome.image_bytes for outcome in stripped.outcomes]
        assert min(sizes[1:]) < 0.8 * sizes[0], "compressing saves something"
        told = read_images([folder])
        assert stripped.sample.methods["lz4"].nanoseconds == told.nanoseconds[1] > 0
        assert stripped.sample.count == sum(sums[0] for _, sums in told.forks)


@pytest.mark.pg(">= 18")
def test_a_record_that_is_longer_than_segments(install: Install, tmp_path: Path) -> None:
    """A message of many segments arrives in pieces, and is held in memory until it can be blanked out."""
    with Server(Path(install.bindir), segment_mb=1) as server:
        sizes: list[int] = []

        def write(_passed_s: float, _received: int, _free: int) -> None:
            with server.connect() as connection:
                connection.execute(f"SELECT pg_logical_emit_message(true, 'm', repeat('{WORD}', 5000000))")
            sizes.append(40_000_000)

        conninfo = f"host={server.folder} user=postgres dbname=postgres"
        order = CaptureOrder(conninfo, 120, tmp_path / "long", is_stripped=True)
        made = take(order, lambda: len(sizes) > 1, write)
        assert made.bytes > sum(sizes)
        assert left_in(tmp_path / "long") == []
        wal = stats(tmp_path / "long", start=made.began.lsn, end=made.ended.lsn)
        assert wal.rmgrs["LogicalMessage"].totals.record_bytes > sum(sizes)


@pytest.mark.pg(">= 18")
def test_from_the_command_line(install: Install, tmp_path: Path) -> None:
    """A recording that the server's end breaks off keeps no word of the server's."""
    with Server(Path(install.bindir), segment_mb=1) as server:
        conninfo = f"host={server.folder} user=postgres dbname=postgres"
        done = walproof("wal", "capture", conninfo, "--strip", "--to", "cut", "--for", "2s", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        seen: list[float] = []

        def end(passed_s: float, _received: int, _free: int) -> None:
            if not seen:
                server.stop(signal.SIGQUIT)
            seen.append(passed_s)

        made = take(CaptureOrder(conninfo, 60, tmp_path / "ended", is_stripped=True), watch=end)
        assert made.ended_because not in ("time", "interrupted")
        assert read_recording(tmp_path / "ended").ended_because == "ended early"
    for name in ("cut", "ended"):
        assert sorted(file.name for file in (tmp_path / name).glob("*.json")) == [IMAGES_FILE, RECORDING_FILE]
        assert stats(tmp_path / name, partial=True).error is None
    done = walproof("wal", "strip", "ended", "--to", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_recording(tmp_path / "again") == read_recording(tmp_path / "ended")
    assert read_images([tmp_path / "again"]) == read_images([tmp_path / "ended"]) != ImageSamples()
