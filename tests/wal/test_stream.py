"""WAL as it arrives: at any moment the work is that of the same WAL, read from files and cut there."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.recovery import RecoveryWork, analyse, find_redo
from walproof.wal.stream import ClockState, StreamSnapshot, WalStream, WalTotals

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
    ends = [one.lsn - wal.base for one in wal.totals.checkpoints]
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
