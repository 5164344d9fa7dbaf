"""Segments that are received: names, sizes, and what is on disk when."""

from __future__ import annotations

from pathlib import Path

from walproof.lab.segments import SYNC_BYTES, SegmentFolder
from walproof.units import Lsn
from walproof.wal.segment import segment_holding

MB = 1 << 20


def test_a_piece_goes_over_the_end_of_a_segment(tmp_path: Path) -> None:
    start = segment_holding(0x1_0000_0000 - 5, MB)
    assert start == 0x1_0000_0000 - MB
    data = bytes(range(256)) * (2 * MB // 256 + 1)
    with SegmentFolder(tmp_path, 3, MB, start) as segments:
        segments.write(memoryview(data)[:100])
        assert (segments.written, segments.flushed) == (start + 100, start)
        segments.flush()
        assert segments.flushed == start + 100
        segments.write(memoryview(data)[100:])
        assert (segments.written, segments.flushed) == (start + len(data), start + 2 * MB)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "000000030000000000000FFF",
        "000000030000000100000000",
        "000000030000000100000001.partial",
    ]
    whole = b"".join((tmp_path / name).read_bytes() for name in names)
    assert whole == data + bytes(3 * MB - len(data))


def test_large_segments_are_flushed_before_their_end(tmp_path: Path) -> None:
    with SegmentFolder(tmp_path, 1, 64 * MB, Lsn(64 * MB)) as segments:
        for _ in range(20):
            segments.write(memoryview(bytes(MB)))
    assert segments.flushed == 64 * MB + SYNC_BYTES
