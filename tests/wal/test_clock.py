"""Times beside the WAL: positions of a recording, and files of segments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.wal import stats
from walproof.wal.clock import segment_times
from walproof.wal.recording import Position, Recording, write_recording
from walproof.wal.whatif import Target, simulate

TIMED = Target(max_wal_size_mb=None, checkpoint_timeout_s=60)
BEGAN = 1_700_000_000


def quick_wal(folder: Path) -> list[Path]:
    """Segments of 13 in which all transactions ended within a second."""
    unpack(13, folder)
    return sorted(folder.glob("0*"))


def age(files: list[Path], seconds: float) -> None:
    for number, file in enumerate(files):
        os.utime(file, (BEGAN + number * seconds,) * 2)


def test_segments_that_were_written_one_by_one_tell_the_time(tmp_path: Path) -> None:
    files = quick_wal(tmp_path)
    size = stats(tmp_path).segment_size
    age(files, 120)
    times = segment_times([str(tmp_path)], size)
    assert [time[1] for time in times] == [(BEGAN + 120 * n) * 1_000_000 for n in range(len(files))]
    assert times[1][0] - times[0][0] == size
    found = simulate(tmp_path, targets=[TIMED])
    assert found.clock == "segment files"
    # From the end of the first segment into the third, at 60 s a checkpoint.
    assert found.recorded.seconds is not None
    assert 120 < found.recorded.seconds < 240
    assert found.outcomes[0].by_time >= 2


def test_segments_that_were_copied_do_not(tmp_path: Path) -> None:
    files = quick_wal(tmp_path)
    size = stats(tmp_path).segment_size
    age(files, 1)
    assert segment_times([str(tmp_path)], size) == []
    assert simulate(tmp_path, targets=[TIMED]).clock == "transactions"
    age(files, -120)
    assert segment_times([str(tmp_path)], size) == []


def test_files_that_wait_to_be_written_again_do_not_count(tmp_path: Path) -> None:
    files = quick_wal(tmp_path)
    age(files, 120)
    os.utime(files[-1], (0, 0))
    assert len(segment_times([str(tmp_path)], stats(tmp_path).segment_size)) == len(files) - 1


def test_transactions_tell_the_time_where_they_can(tmp_path: Path) -> None:
    unpack(16, tmp_path)
    age(sorted(tmp_path.glob("0*")), 600)
    assert simulate(tmp_path, targets=[TIMED]).clock == "transactions"


def test_positions_of_a_recording_come_before_files(tmp_path: Path) -> None:
    age(quick_wal(tmp_path), 600)
    written = stats(tmp_path)
    began, ended = Position(float(BEGAN), written.start), Position(BEGAN + 300.0, written.end)
    recording = Recording(1, 130000, 1, 1 << 20, {}, began, ended, (began, ended), "time")
    write_recording(tmp_path, recording)
    found = simulate(tmp_path, targets=[TIMED])
    assert found.clock == "recording"
    assert found.recorded.seconds == pytest.approx(300, abs=0.1)
    # A shutdown in the recording begins a cycle anew.
    assert 3 <= found.outcomes[0].by_time <= 5
