"""Tells whether an archive is whole, and to which moments it can restore.

    >>> from walproof.wal.verify.verify import verify
    >>> found = verify(["/var/lib/pgbackrest"])  # doctest: +SKIP
    >>> found.is_whole, found.archives[0].windows  # doctest: +SKIP

docs/wal-verify.md says what is checked and what cannot be told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from walproof.units import Lsn
from walproof.wal.places.opened import Path, open_places
from walproof.wal.progress import Observe
from walproof.wal.segment import segment_name
from walproof.wal.verify.archived import set_aside_unarchived, unarchived_histories
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.chain import build_chains
from walproof.wal.verify.described import describe
from walproof.wal.verify.files import condensed
from walproof.wal.verify.kept import KeptResults
from walproof.wal.verify.layouts.archive import Archive
from walproof.wal.verify.layouts.find import find_archives
from walproof.wal.verify.names import segment_file
from walproof.wal.verify.problems import Problem, ProblemSeverity
from walproof.wal.verify.reading import ArchiveReading, Since, Verifier, read_archive, verify_here
from walproof.wal.verify.timelines import read_timelines
from walproof.wal.verify.windows import ArchiveRange, RestoreWindow, ranges, windows, with_later_backups


@dataclass(frozen=True, slots=True)
class VerifiedArchive:
    """What is known about one archive."""

    name: str
    layout: str
    path: str
    pg_wal: tuple[str, ...]
    """Folders among its places that are a server's pg_wal."""
    system_identifier: int | None
    version: int | None
    segment_size: int
    timelines: tuple[int, ...]
    first_segment: str | None
    last_segment: str | None
    files: int
    """Files of segments."""
    read_files: int
    read_bytes: int
    """Bytes of files that were read this time, as they are stored."""
    kept_files: int
    """Files for which an earlier result was believed."""
    skipped_files: int
    """Files that were not looked into: before ``since``, or changing all the time."""
    partial_files: int
    prepared_files: int
    """Files of a server's pg_wal that wait to be written."""
    wal_bytes: int
    """Bytes of segments, unpacked."""
    backups: tuple[ArchivedBackup, ...]
    windows: tuple[RestoreWindow, ...]
    ranges: tuple[ArchiveRange, ...]
    problems: tuple[Problem, ...]
    """Includes notes; the worst come first, then by place."""
    ancestors: Mapping[int, tuple[tuple[int, Lsn], ...]]
    """For each timeline with a history: each ancestor and where it was left, oldest first."""
    live_timeline: int | None
    """The newest timeline in a server's pg_wal."""

    @property
    def faults(self) -> tuple[Problem, ...]:
        """Problems without notes."""
        return tuple(problem for problem in self.problems if problem.severity is not ProblemSeverity.note)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Verification:
    """What is known about all archives that were found."""

    archives: tuple[VerifiedArchive, ...]
    started_at: float
    ended_at: float

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong with any of them."""
        return all(archive.is_whole for archive in self.archives)


def verify(
    paths: Sequence[Path],
    *,
    backups: Sequence[Path] = (),
    since: Since | None = None,
    kept: FilePath | None = None,
    again: bool = False,
    verifier: Verifier | None = None,
    observe: Observe | None = None,
) -> Verification:
    """Verify the archives below ``paths``: folders, or addresses in object stores.

    ``backups``: further folders with base backups. ``since``: segments before it are not looked into (a
    location, the name of a segment, or a Unix time, which is compared with the times of files), unless their
    results were kept. ``kept``: a file of results, so that what was verified before is not read again;
    ``again`` forgets them. ``verifier``: what verifies files; None for this machine with all its cores.
    ``observe`` is told how far each archive in turn has come.

    Raises WalError if there is no archive, or a folder cannot be listed. What is wrong with an archive is
    in the result."""
    started = time.time()
    verifier = verifier or verify_here(os.cpu_count() or 1)
    with open_places([*paths, *backups]) as places:
        found = find_archives(places[: len(paths)], places[len(paths) :])
        with KeptResults(kept, again=again) as results:
            archives = tuple(_verified(archive, since, results, verifier, observe) for archive in found)
            results.finish()
    return Verification(archives, started, time.time())


def _verified(
    archive: Archive, since: Since | None, kept: KeptResults, verifier: Verifier, observe: Observe | None
) -> VerifiedArchive:
    reading = read_archive(archive, since, kept, verifier, observe)
    timelines = read_timelines(reading)
    set_aside_unarchived(reading, timelines)
    known = describe(archive, reading)
    chains = build_chains(reading, timelines, known.backups)
    restorable, unusable = windows(reading, timelines, chains, known.complete)
    # A label counts as a backup only if it leads to something.
    restored = {window.backup for window in restorable}
    described = tuple(backup for backup in known.backups if backup.tool != "label" or backup in restored)
    everything = [
        *reading.problems, *timelines.problems, *unarchived_histories(reading, timelines),
        *chains.problems, *known.problems, *unusable, *_not_there(archive, reading, chains.problems),
    ]  # fmt: skip
    problems = _ordered(condensed(everything))
    names = sorted(
        (number, segment_name(reading.start_of(number), timeline, reading.segment_size))
        for timeline, segments in reading.segments.items()
        for number in segments
    )
    return VerifiedArchive(
        name=archive.name,
        layout=archive.layout,
        path=archive.path,
        pg_wal=archive.live,
        system_identifier=reading.reference.system_identifier,
        version=reading.reference.version,
        segment_size=reading.segment_size,
        timelines=tuple(sorted(reading.segments)),
        first_segment=names[0][1] if names else None,
        last_segment=names[-1][1] if names else None,
        files=reading.files,
        read_files=reading.read_files,
        read_bytes=reading.read_bytes,
        kept_files=reading.kept_files,
        skipped_files=reading.skipped_files,
        partial_files=len(reading.partials),
        prepared_files=reading.prepared_files,
        wal_bytes=reading.segment_size * sum(len(segments) for segments in reading.segments.values()),
        backups=described,
        windows=restorable,
        ranges=ranges(chains),
        problems=tuple(with_later_backups(problems, restorable, timelines, reading.segment_size)),
        ancestors=timelines.ancestors,
        live_timeline=max(
            (file.timeline for file in archive.listing.segments if archive.is_live(file.path)), default=None
        ),
    )


_ORDER = list(ProblemSeverity)


def _ordered(problems: Iterable[Problem]) -> list[Problem]:
    def place(problem: Problem) -> tuple[int, int, int, str]:
        number = int(problem.segment or "0", 16) if problem.lsn is None else 0
        return _ORDER.index(problem.severity), int(problem.lsn or 0), number, problem.kind

    return sorted(dict.fromkeys(problems), key=place)


def _not_there(archive: Archive, reading: ArchiveReading, known: Sequence[Problem]) -> Iterator[Problem]:
    """Problems of segments that the tool's catalogue names, if names alone do not tell that they are
    missing."""
    size = reading.segment_size
    missing = [
        (problem.timeline, range(problem.lsn // size, problem.end_lsn // size))
        for problem in known
        if problem.kind in ("missing", "expired") and problem.lsn is not None and problem.end_lsn is not None
    ]
    lost: dict[int, list[tuple[int, str]]] = {}
    for catalogued in archive.catalogued:
        file = segment_file("", catalogued)
        if file is None or file.is_partial:
            continue
        number = file.number(size)
        is_said = any(file.timeline == timeline and number in numbers for timeline, numbers in missing)
        is_there = number in reading.segments.get(file.timeline, {})
        if not (is_there or is_said or (file.timeline, number) in reading.gone):
            lost.setdefault(file.timeline, []).append((number, file.name))
    for timeline, names in sorted(lost.items()):
        names.sort()
        (first, first_name), (last, last_name) = names[0], names[-1]
        yield Problem(
            "not there",
            f"the catalogue names segment {first_name}, which is not there"
            if len(names) == 1
            else f"the catalogue names {len(names)} segments that are not there, {first_name} to {last_name}",
            None, first_name, last_name, len(names), timeline, Lsn(first * size), Lsn((last + 1) * size),
        )  # fmt: skip
