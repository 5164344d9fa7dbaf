"""An archive cut into ranges of segments, one for each task; every function here runs on one machine.

The part of each range is read separately, and parts are joined as they are: any grouping gives what one
machine finds (``wal/parts.py``). A range that cannot be read or joined ends the answer there, as an *outcome*
whose WAL stops short. Reading on from there finds out what the plain command would say about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.parts import Part, join_parts, read_part
from walproof.wal.places.opened import Path, open_places
from walproof.wal.progress import Observe
from walproof.wal.totals import stats
from walproof.wal.verify.names import history_timeline, segment_file
from walproof.wal.whatif import identify

SEGMENTS_MOST = 64
"""The most segments in a range, because a lost task is done again."""
_RANGES_PER_CORE = 8
_FOLDERS_DEEP = 6
"""Depth to which the native module looks (``MOST_FOLDERS``, crates/walproof-wal)."""


class SegmentRange(NamedTuple):
    """What one task reads."""

    files: tuple[str, ...]
    """Segments in order, then timeline history files."""
    segments: int
    start: int | None
    end: int | None
    timeline: int | None
    is_last: bool


class RangeOutcome(NamedTuple):
    """What is known about consecutive ranges.

    The part of the last range stays separate until another follows. If none does, that range is read again
    with what comes after it, because only that shows whether the WAL ends there.
    """

    before: bytes | None
    """The part of all ranges but the last; None if there is none."""
    last: bytes | None
    """The part of the last readable range; None if no range could be read."""
    is_whole: bool
    """Whether these are all of the ranges."""
    reason: str | None = None
    """What kept a host from reading on; None if nothing did, or the WAL ends there."""


class ArchiveFiles(NamedTuple):
    """The files of an archive, in the order of their WAL."""

    segments: tuple[tuple[str, ...], ...]
    """The files of each segment: several where it is on several timelines or also compressed."""
    starts: tuple[int, ...]
    """Where each segment begins."""
    histories: tuple[str, ...]
    segment_size: int
    timeline: int
    """The newest timeline that has a segment."""

    @property
    def total_bytes(self) -> int:
        """Size of the segments as they were written, not as they are stored."""
        return len(self.segments) * self.segment_size


def list_archive(
    paths: Sequence[Path], start: Lsn | None, end: Lsn | None, timeline: int | None
) -> ArchiveFiles | None:
    """The segments from ``start`` to ``end``, or None if there are none. Raises WalError."""
    found: dict[str, list[str]] = {}
    histories = []
    with open_places(paths) as places:
        for place in places:
            entries = list(place.files(_FOLDERS_DEEP)) if place.is_folder() else [place.entry()]
            for entry in entries:
                if (file := segment_file(entry.path, entry.name)) is not None:
                    found.setdefault(file.name[8:], []).append(entry.path)
                elif history_timeline(entry.name) is not None:
                    histories.append(entry.path)
        if not found:
            return None
        _, size = identify(*places, start=start, timeline=timeline)

    def begin(number: str) -> int:
        return (int(number[:8], 16) << 32) + int(number[8:], 16) * size

    chosen = [
        number
        for number in sorted(found)
        if (start is None or begin(number) + size > start) and (end is None or begin(number) < end)
    ]
    names = [file.rpartition("/")[2] for files in found.values() for file in files]
    return ArchiveFiles(
        segments=tuple(tuple(found[number]) for number in chosen),
        starts=tuple(map(begin, chosen)),
        histories=tuple(histories),
        segment_size=size,
        timeline=max(int(name[:8], 16) for name in names),
    )


def cut(
    archive: ArchiveFiles, cores: int, start: Lsn | None, end: Lsn | None, timeline: int | None
) -> Iterator[SegmentRange]:
    """Yield ranges in order, enough of them for ``cores`` to finish at about the same time."""
    count = len(archive.segments)
    each = min(SEGMENTS_MOST, max(1, count // (cores * _RANGES_PER_CORE)))
    for first in range(0, count, each):
        here = archive.segments[first : first + each]
        is_last = first + each >= count
        yield SegmentRange(
            files=(*(file for files in here for file in files), *archive.histories),
            segments=len(here),
            # Records begin and end at multiples of 8, and so do parts.
            start=-(-start // 8) * 8 if start is not None and first == 0 else None,
            end=end // 8 * 8 if end is not None and is_last else None,
            timeline=timeline,
            is_last=is_last,
        )


def read_range(wanted: SegmentRange) -> RangeOutcome:
    """The part of one range, on one core."""
    try:
        part = read_part(
            *wanted.files,
            start=None if wanted.start is None else Lsn(wanted.start),
            end=None if wanted.end is None else Lsn(wanted.end),
            timeline=wanted.timeline,
            threads=1,
        )
    except WalError as error:
        return RangeOutcome(None, None, False, _said(error))
    # What comes after it shows whether the WAL ends there or is damaged.
    if not part.is_open and not wanted.is_last:
        return RangeOutcome(None, None, False)
    return RangeOutcome(None, part.data, True)


def merge(*outcomes: RangeOutcome) -> RangeOutcome:
    """Merge the outcomes of consecutive ranges as far as they join. The operation is associative."""
    before: bytes | None = None
    last: bytes | None = None
    for outcome in outcomes:
        if outcome.last is None:
            return RangeOutcome(before, last, False, outcome.reason)
        if last is None:
            before, last = outcome.before, outcome.last
        else:
            try:
                joined = _joined(before, last, outcome.before)
                _joined(joined, outcome.last)  # raises if it does not follow
            except WalError as error:
                return RangeOutcome(before, last, False, _said(error))
            before, last = joined, outcome.last
        if not outcome.is_whole:
            return RangeOutcome(before, last, False, outcome.reason)
    return RangeOutcome(before, last, last is not None)


def whole(outcome: RangeOutcome) -> Part:
    """The part of all ranges of a whole outcome."""
    assert outcome.is_whole
    return join_parts(part for part in (outcome.before, outcome.last) if part is not None)


def _joined(*parts: bytes | None) -> bytes:
    return join_parts(part for part in parts if part is not None).data


def _said(error: WalError) -> str:
    return ": ".join(part for part in (error.message, error.detail) if part)


def unread(outcome: RangeOutcome) -> str | None:
    """A sentence about what no host could read, and why; None if they read all, or as far as the WAL goes."""
    if outcome.reason is None:
        return None
    since = "" if outcome.before is None else f" from {join_parts([outcome.before]).end} on"
    return f"the hosts could not read the archive{since} ({outcome.reason}): this machine reads it"


def read_on(
    outcome: RangeOutcome,
    paths: Sequence[Path],
    start: Lsn | None,
    end: Lsn | None,
    timeline: int | None,
    observe: Observe | None = None,
) -> Part:
    """The part of all the WAL: ``outcome``, and what this machine reads from its last range on.

    Raises WalError where ``wal stats`` would, with the same words.
    """
    before = None if outcome.before is None else join_parts([outcome.before])
    bound = None if end is None else Lsn(end // 8 * 8)
    first = before.end if before is not None else None if start is None else Lsn(-(-start // 8) * 8)
    try:
        rest = read_part(*paths, start=first, end=bound, timeline=timeline, observe=observe)
        return rest if before is None else join_parts([before.data, rest.data])
    except WalError:
        known = start if before is None or before.last_record is None else before.last_record
        stats(*paths, start=known, end=end, timeline=timeline)
        raise
