"""Simulate other settings over WAL that the hosts of a cluster read, one range of segments per task.

What a simulated server writes next depends on all WAL before: on its last redo point, on when each page was
last touched, on the images seen so far. So the simulation is a single pass, in order, on the machine that
asked. The hosts do everything that comes before it: they fetch, unpack, check and decode the WAL, and send
its records without contents (crates/walproof-whatif/src/ranges). A sample of the images is compressed as a
trial; hosts do that as well, in a second task for each range that has some of these images.

If ranges cannot be read, or do not follow from each other, this machine reads everything by itself, with the
same answers and errors as without a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from walproof._native import WhatIfPass, wal_digest, wal_looks
from walproof.errors import WalError
from walproof.hosts.in_order import in_order
from walproof.hosts.ranges import ArchiveFiles, list_archive
from walproof.wal.places.opened import reading
from walproof.wal.places.place import Place
from walproof.wal.progress import Observe
from walproof.wal.whatif import SimulationOrder, Simulator, simulate_here

RANGE_BYTES = 64 << 20
"""Bytes of segments in a range, unless a single segment is larger."""
_RANGES_PER_CORE = 8
Tell = Callable[[str], None]


class RecordRange(NamedTuple):
    """The records that one task reads: those that begin in its segments."""

    files: tuple[str, ...]
    """Segments in order, the next one (the last record may reach into it), and the timelines' histories."""
    segments: int
    start: int | None
    end: int | None
    until: int | None
    """Where the next range begins."""
    timeline: int


class Images(NamedTuple):
    """Images of a range that a task compresses, each given by its record and the number of its reference."""

    files: tuple[str, ...]
    timeline: int
    wanted: tuple[tuple[int, int], ...]


def simulate_on(cores: int, tell: Tell) -> Callable[[Sequence[Place]], Simulator]:
    """A simulator whose WAL is read by the connected cluster. ``tell`` is called if the cluster could not.

    ``cores``: number of the cluster's cores.
    """

    def simulator(places: Sequence[Place]) -> Simulator:
        def run(asked: SimulationOrder, observe: Observe | None) -> Mapping[str, Any]:
            assert not asked.allow_gaps
            archive = list_archive(
                [place.absolute() for place in places], asked.start, asked.end, asked.timeline
            )
            if archive is not None and archive.segments:
                found = by_ranges(archive, asked, cores, observe)
                if found is not None:
                    return found
                tell("the archive cannot be read in ranges from beginning to end: this machine reads it")
            return simulate_here(places)(asked, observe)

        return run

    return simulator


def by_ranges(
    archive: ArchiveFiles,
    asked: SimulationOrder,
    cores: int,
    observe: Observe | None = None,
    *,
    each: int | None = None,
) -> Mapping[str, Any] | None:
    """The answer that the native module gives on one machine, from ranges of ``each`` segments.

    None if a range could not be read or does not follow from the previous one. Raises HostError.
    """
    found = WhatIfPass(asked.request)
    ranges = list(cut(archive, asked, cores, each))
    held: deque[bytes] = deque()
    beginning = 0

    def images() -> Iterator[Images]:
        """Yield the wanted images of each range, and append the ranges' digests to ``held``."""
        nonlocal beginning
        digests = in_order(read_digest, ranges, cores)
        of_beginning: list[tuple[RecordRange, bytes, set[tuple[int, int]]]] = []
        for range_, digest in digests:
            if digest is None:
                raise _NotWhole
            wanted, is_past = found.draw(digest, True)
            of_beginning.append((range_, digest, set(wanted)))
            if is_past:
                break
        beginning = len(of_beginning)
        for range_, digest, learned in of_beginning:
            wanted, _ = found.draw(digest, False)
            held.append(digest)
            yield Images(range_.files, range_.timeline, tuple(sorted(learned.union(wanted))))
        for range_, digest in digests:
            if digest is None:
                raise _NotWhole
            wanted, _ = found.draw(digest, False)
            held.append(digest)
            yield Images(range_.files, range_.timeline, tuple(wanted))

    learned: list[bytes] | None = []
    done = 0
    try:
        for number, (_, looks) in enumerate(in_order(look_at_images, images(), cores), start=1):
            if looks is None:
                return None
            found.look(looks)
            digest = held.popleft()
            if learned is None:
                found.add(digest)
            else:
                learned.append(digest)
                found.learn(digest)
                if number == beginning:
                    for part in learned:
                        found.add(part)
                    learned = None
            done += ranges[number - 1].segments * archive.segment_size
            if observe is not None:
                observe(done, archive.total_bytes)
    except _NotWhole:
        return None
    return found.finish()


class _NotWhole(Exception):
    """A range could not be read, or the WAL ends in it."""


def cut(
    archive: ArchiveFiles, asked: SimulationOrder, cores: int, each: int | None = None
) -> Iterator[RecordRange]:
    """Cut the archive into ranges, in order."""
    count = len(archive.segments)
    if each is None:
        most = max(1, RANGE_BYTES // archive.segment_size)
        each = min(most, max(1, count // (max(1, cores) * _RANGES_PER_CORE)))
    for first in range(0, count, each):
        after = first + each
        here = archive.segments[first : after + 1]
        yield RecordRange(
            files=(*(file for files in here for file in files), *archive.histories),
            segments=min(each, count - first),
            start=asked.start if first == 0 else archive.starts[first],
            end=asked.end if after >= count else None,
            until=None if after >= count else archive.starts[after],
            timeline=archive.timeline if asked.timeline is None else asked.timeline,
        )


def read_digest(wanted: RecordRange) -> bytes | None:
    """The records of a range without contents, read by one core; None if they cannot be read or end early."""
    try:
        with reading(wanted.files) as wal:
            return wal.call(wal_digest, wal.sources, wanted.start, wanted.end, wanted.timeline, wanted.until)
    except WalError:
        return None


def look_at_images(wanted: Images) -> bytes | None:
    """What each method of wal_compression makes of the images, by one core; None if they cannot be read."""
    if not wanted.wanted:
        return bytes(24)  # no images, and no time spent
    try:
        with reading(wanted.files) as wal:
            return wal.call(wal_looks, wal.sources, wanted.timeline, wanted.wanted)
    except WalError:
        return None
