"""WAL as it arrives: at any moment the work is that of the same WAL, read from files and cut there."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.recovery import RecoveryWork, analyse, find_redo
from walproof.wal.stream import ClockState, WalStream
from walproof.wal.totals import WalTotals

VERSIONS = (13, 14, 15, 16, 17, 18, 19)
BUFFERS = (16, 128, 4096)
MOMENTS = 25


class Recorded:
    """Golden WAL of a version, as one run of bytes."""

    def __init__(self, version: int, folder: Path) -> None:
        unpack(version, folder)
        self.folder, self.totals = folder, stats(folder)
        files = sorted(path for path in folder.iterdir() if len(path.name) == 24)
        self.segment_size = self.totals.segment_size
        self.base = Lsn(self.totals.start // self.segment_size * self.segment_size)
        self.bytes = b"".join(path.read_bytes() for path in files)
        # Bytes of the last record's padding need not be there.
        self.length = self.totals.end - self.base

    def stream(self, **options: object) -> WalStream:
        return WalStream(buffers=BUFFERS, segment_size=self.segment_size, **options)  # type: ignore[arg-type]

    def feed(self, stream: WalStream, start: int, end: int, seed: int = 0) -> None:
        """In pieces of any size."""
        pieces, at = random.Random(seed), start
        while at < end:
            until = min(end, at + pieces.choice((1, 7, 100, 8192, 70_001, 1 << 20)))
            stream.observe(Lsn(self.base + at), self.bytes[at:until])
            at = until

    def cut(self, at: int) -> tuple[Lsn, RecoveryWork] | None:
        """Redo point and work of the WAL up to there; None where it holds no complete checkpoint."""
        end = Lsn(self.base + at)
        try:
            redo = find_redo(self.folder, end=end, threads=1).redo
            return redo, analyse(self.folder, buffers=BUFFERS, start=redo, end=end).last
        except WalError:
            return None


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Recorded]:
    return {version: Recorded(version, tmp_path_factory.mktemp(f"wal{version}")) for version in VERSIONS}


def checkpoint_moments(wal: Recorded) -> list[int]:
    """Just before and after records of checkpoints, and bytes further."""
    ends = [checkpoint.lsn - wal.base for checkpoint in wal.totals.checkpoints]
    return [end + more for end in ends for more in (0, 1, 24, 136, 152, 400, 20_000)]


@pytest.mark.parametrize("version", VERSIONS)
def test_at_random_moments_it_is_what_the_files_hold_until_there(
    recorded: dict[int, Recorded], version: int
) -> None:
    wal, chosen = recorded[version], random.Random(version)
    moments = sorted(
        at
        for at in {*(chosen.randrange(wal.length) for _ in range(MOMENTS)), *checkpoint_moments(wal)}
        if at <= wal.length
    )
    stream, known = wal.stream(), 0
    for before, at in itertools.pairwise((0, *moments)):
        wal.feed(stream, before, at, seed=at)
        while stream.recompute():
            pass
        told, expected = stream.snapshot(), wal.cut(at)
        if expected is None:
            assert told.state is ClockState.NO_CHECKPOINT
            assert (told.clock, told.redo) == (None, None)
            continue
        known += 1
        assert told.state is ClockState.KNOWN
        assert (told.redo, told.clock) == expected
        assert told.clock is not None
        assert told.end == told.clock.end
    assert known > MOMENTS // 2, "most of the recording is behind a checkpoint"


@pytest.mark.parametrize("version", [16, 18])
def test_totals_are_those_of_stats_and_add_up_between_snapshots(
    recorded: dict[int, Recorded], version: int
) -> None:
    wal = recorded[version]
    # Few relations are told apart, so that some are moved to the others meanwhile.
    stream, middle = wal.stream(relations_most=2), wal.length // 2
    wal.feed(stream, 0, middle)
    before = stream.snapshot()
    wal.feed(stream, middle, wal.length)
    after = stream.snapshot()
    totals = after.all
    written = wal.totals.totals
    assert (totals.records, totals.combined_bytes) == (written.records, written.combined_bytes)
    assert totals.image_bytes == wal.totals.images.bytes
    parts = [row.totals for row in after.by_relation.values()] + [after.other_relations, after.no_relation]
    assert sum(parts, WalTotals()) == totals
    assert after.other_relations.records > before.other_relations.records
    between = after.since(before)
    parts = [*between.by_relation.values(), between.other_relations, between.no_relation]
    assert sum(parts, WalTotals()) == between.all == after.all - before.all
    assert sum(between.by_rmgr.values(), WalTotals()) == between.all
    assert between.commits == after.commits - before.commits


BRING_KEYS = {
    "Btree": ("INSERT_LEAF", "SPLIT_L", "SPLIT_R", "INSERT_POST"), "Hash": ("INSERT",), "Gin": ("INSERT",),
    "Gist": ("PAGE_UPDATE", "PAGE_SPLIT"), "SPGist": ("ADD_LEAF",),
}  # fmt: skip
"""Resource manager -> its operations that bring a key into an index, as pg_waldump names them."""


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_are_those_of_the_operations(recorded: dict[int, Recorded], version: int) -> None:
    """Names of operations are held against pg_waldump elsewhere."""
    wal = recorded[version]
    stream = wal.stream()
    wal.feed(stream, 0, wal.length)
    changes = [row.changes for row in stream.snapshot().by_relation.values()]
    written = wal.totals.rmgrs

    def counted(rmgr: str, *operations: str) -> WalTotals:
        known = written[rmgr].operations if rmgr in written else {}
        return sum((known[name] for name in operations if name in known), WalTotals())

    keys = sum((counted(rmgr, *operations) for rmgr, operations in BRING_KEYS.items()), WalTotals())
    assert sum(made.keys for made in changes) == keys.records > 1000
    # A split may have an image of the page beside it, too.
    assert 0.5 * keys.image_count < sum(made.key_images for made in changes) <= keys.image_count
    assert 0 < sum(made.key_image_bytes for made in changes) <= keys.image_bytes
    updates = ("UPDATE", "HOT_UPDATE", "UPDATE+INIT", "HOT_UPDATE+INIT")
    assert sum(made.updates for made in changes) == counted("Heap", *updates).records > 0


@pytest.mark.parametrize("version", [15, 17])
def test_it_begins_in_the_middle_with_a_redo_point_that_is_told(
    recorded: dict[int, Recorded], version: int
) -> None:
    wal = recorded[version]
    redo = find_redo(wal.folder, threads=1).redo
    page = redo // 8192 * 8192
    stream = wal.stream(redo=redo)
    # From the middle of the page before.
    wal.feed(stream, page - wal.base - 5_000, wal.length)
    told = stream.snapshot()
    assert (told.redo, told.clock) == wal.cut(wal.length)
    late = wal.stream(redo=redo)
    wal.feed(late, page - wal.base + 8192, wal.length)
    assert late.snapshot().clock != told.clock


def test_a_hole_is_refused_and_a_restart_needs_a_checkpoint(recorded: dict[int, Recorded]) -> None:
    wal = recorded[18]
    stream, middle = wal.stream(), wal.length // 2
    wal.feed(stream, 0, middle)
    before = stream.snapshot()
    with pytest.raises(WalError, match="is missing"):
        stream.observe(Lsn(wal.base + middle + 1), b"x")
    assert stream.snapshot() == before
    # What came before is passed over.
    stream.observe(wal.base, wal.bytes[:middle])
    assert stream.snapshot() == before
    stream.restart()
    assert (stream.snapshot().state, stream.snapshot().clock) == (ClockState.HOLE, None)
    wal.feed(stream, middle + 40_000, wal.length)
    (gap,) = stream.snapshot().gaps
    assert (gap.start, gap.end >= wal.base + middle + 40_000) == (before.end, True)


def test_what_is_no_wal_is_an_error_until_a_restart(recorded: dict[int, Recorded]) -> None:
    wal = recorded[18]
    stream = wal.stream()
    wal.feed(stream, 0, 3 * 8192)
    before = stream.snapshot()
    for at in (3 * 8192, 4 * 8192):
        with pytest.raises(WalError, match="magic number"):
            stream.observe(Lsn(wal.base + at), bytes(8192))
    assert stream.snapshot().end == before.end
    stream.restart()
    wal.feed(stream, 5 * 8192, wal.length)
    assert stream.snapshot().end == wal.totals.end
    with pytest.raises(WalError, match="not newer"):
        stream.switch_timeline(1, wal.totals.end)


def test_sizes_that_no_server_has() -> None:
    with pytest.raises(WalError, match="shared_buffers"):
        WalStream(buffers=[3], segment_size=16 << 20)
    with pytest.raises(WalError, match="segments of"):
        WalStream(buffers=[128], segment_size=1000)


def on_timeline(wal: Recorded, begin: int, timeline: int) -> bytes:
    """The bytes from there on as a promoted server writes them: headers of later pages name the timeline."""
    data = bytearray(wal.bytes)
    for page in range(-(-begin // 8192) * 8192, len(data) - 8192, 8192):
        if data[page : page + 2] != b"\0\0":
            data[page + 4 : page + 8] = timeline.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize("version", [15, 18])
def test_a_timeline_is_followed_to_the_next_one(recorded: dict[int, Recorded], version: int) -> None:
    wal, stream = recorded[version], recorded[version].stream()
    half = wal.length // 2
    wal.feed(stream, 0, half)
    ended = stream.snapshot()
    assert ended.end is not None
    timeline, place = ended.timeline + 1, int(ended.end - wal.base)
    stream.switch_timeline(timeline, ended.end)
    promoted = on_timeline(wal, place, timeline)
    stream.observe(ended.end, promoted[place : wal.length])
    while stream.recompute():
        pass
    told = stream.snapshot()
    assert told.timeline == timeline
    assert (told.redo, told.clock) == wal.cut(wal.length)
    with pytest.raises(WalError):
        stream.switch_timeline(timeline, ended.end)


def test_records_that_the_new_timeline_does_not_have_are_not_counted(recorded: dict[int, Recorded]) -> None:
    """A standby was promoted that lacked the last of them."""
    wal, stream = recorded[15], recorded[15].stream()
    half = wal.length // 2
    wal.feed(stream, 0, half)
    ended = stream.snapshot()
    assert ended.end is not None
    wal.feed(stream, half, wal.length)
    stream.switch_timeline(ended.timeline + 1, ended.end)
    told = stream.snapshot()
    assert told.clock is None
    assert told.state in (ClockState.NO_CHECKPOINT, ClockState.HOLE)
