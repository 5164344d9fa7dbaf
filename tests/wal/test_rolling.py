"""Other settings, simulated while WAL arrives, against the same WAL as a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wal.test_stream import Recorded
from walproof.units import Lsn
from walproof.wal.rolling import RollingWhatIf
from walproof.wal.stream import WalStream
from walproof.wal.whatif import Target, simulate

TARGETS = [Target(max_wal_size_mb=size, checkpoint_timeout_s=None) for size in (2, 8, None)]


def begun(recorded: Recorded, **options: int) -> RollingWhatIf:
    given = {"learn_bytes": 100_000, **options}
    return RollingWhatIf(
        recorded.totals.system_identifier, recorded.segment_size, recorded.totals.timeline, TARGETS,
        **given,
    )  # fmt: skip


@pytest.mark.parametrize("version", [13, 18])
def test_what_arrives_is_answered_as_a_recording_is(version: int, tmp_path: Path) -> None:
    recorded = Recorded(version, tmp_path)
    rolling = begun(recorded)
    stream = recorded.stream(also=rolling)
    assert rolling.answer() is None
    recorded.feed(stream, 0, recorded.length)
    found = rolling.answer()
    assert found is not None
    whole = simulate(tmp_path, targets=TARGETS, start=found.start)
    assert (found.version, found.system_identifier) == (whole.version, whole.system_identifier)
    assert (found.end, found.gaps, found.recorded.records) == (whole.end, (), whole.recorded.records)
    for here, there in zip(found.outcomes, whole.outcomes, strict=True):
        assert here.wal_bytes == pytest.approx(there.wal_bytes, rel=0.02)
    # What the crash clock says does not depend on who else looks.
    alone = recorded.stream()
    recorded.feed(alone, 0, recorded.length)
    assert stream.snapshot().all == alone.snapshot().all


def test_it_outlives_a_stream_that_begins_anew_further_back(tmp_path: Path) -> None:
    recorded = Recorded(18, tmp_path)
    rolling, half = begun(recorded), recorded.length // 2
    recorded.feed(recorded.stream(also=rolling), 0, half)
    before = rolling.answer()
    recorded.feed(recorded.stream(also=rolling), 0, recorded.length)
    whole = begun(recorded)
    recorded.feed(recorded.stream(also=whole), 0, recorded.length)
    found, once = rolling.answer(), whole.answer()
    assert before is not None
    assert found is not None
    assert once is not None
    assert before.end < found.end
    assert (found.recorded.records, found.gaps) == (once.recorded.records, ())
    assert found.outcomes == once.outcomes


def test_a_timeline_that_left_before_begins_anew(tmp_path: Path) -> None:
    recorded = Recorded(18, tmp_path)
    rolling = begun(recorded)
    recorded.feed(recorded.stream(also=rolling), 0, recorded.length)
    found = rolling.answer()
    assert found is not None
    stream = WalStream(buffers=[16], segment_size=recorded.segment_size, also=rolling)
    assert stream.also is rolling
    rolling.switch_timeline(2, Lsn(found.end - 8))
    assert rolling.answer() is None
    assert rolling.timeline == 2


def test_memory_is_that_of_the_sample(tmp_path: Path) -> None:
    recorded = Recorded(18, tmp_path)
    rolling = begun(recorded, most_pages=50)
    recorded.feed(recorded.stream(also=rolling), 0, recorded.length)
    found = rolling.answer()
    assert found is not None
    assert found.recorded.held_pages <= 50 < found.recorded.pages
    assert not rolling.is_overfull
    assert found.recorded.memory_bytes < rolling.memory_bytes < 2_000_000
