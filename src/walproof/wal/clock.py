"""What time it was at places of a recording whose transactions do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from walproof._native import wal_written
from walproof.units import Lsn
from walproof.wal.places.opened import Path, reading
from walproof.wal.recording import find_recording

Clock = Literal["transactions", "recording", "segment files"]
"""Where times come from: ends of transactions, positions noted by ``wal capture``, or when segment files were
last written."""

LEAST_FILES_S = 60
"""Segments of an archive that was copied carry the time of the copy: all are within less than this."""


def times_elsewhere(
    paths: Sequence[Path], segment_size: int
) -> Iterator[tuple[Clock, Sequence[tuple[Lsn, int]]]]:
    """Places and times that are known apart from the WAL, the better ones first. Raises WalError."""
    if times := recorded_times(paths):
        yield "recording", times
    if times := segment_times(paths, segment_size):
        yield "segment files", times


def recorded_times(paths: Sequence[Path]) -> list[tuple[Lsn, int]]:
    """Positions and microseconds since 1970 from the first recording among the paths; empty if there is none.
    Raises WalError when recording.json is damaged."""
    recording = find_recording(paths)
    if recording is None:
        return []
    times = [(position.lsn, int(position.at * 1e6)) for position in recording.positions]
    return times if _spans(times, 1) else []


def segment_times(paths: Sequence[Path], segment_size: int) -> list[tuple[Lsn, int]]:
    """Ends of segments and when their files were last written; empty if that cannot be the WAL's own time: if
    later segments were written earlier, or all within a minute because they were copied. Raises WalError."""
    with reading(paths) as wal:
        times = [(Lsn(end), at) for end, at in wal.call(wal_written, wal.sources, segment_size)]
    # After the end of the WAL, recycled files wait to be written again.
    while len(times) > 1 and times[-1][1] < times[-2][1]:
        times.pop()
    rises = all(time[1] <= other[1] for time, other in pairwise(times))
    return times if rises and _spans(times, LEAST_FILES_S) else []


def _spans(times: Sequence[tuple[Lsn, int]], seconds: int) -> bool:
    return len(times) > 1 and times[-1][1] - times[0][1] >= seconds * 1_000_000
