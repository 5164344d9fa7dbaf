"""Verifies the files of an archive one by one: each segment with what its file says, and what is wrong with
files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from walproof._native import wal_probe, wal_verify
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.folder import file_status
from walproof.wal.places.opened import attempt, call
from walproof.wal.places.place import FileStatus
from walproof.wal.progress import Observe
from walproof.wal.segment import segment_number
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.facts import FileFacts
from walproof.wal.verify.files import ExpectedSystem, file_problems
from walproof.wal.verify.kept import KeptResults
from walproof.wal.verify.layouts.archive import Archive
from walproof.wal.verify.names import WalFile
from walproof.wal.verify.problems import Problem

BATCH_BYTES = 64 << 20
"""How many bytes of files each thread verifies before results are kept."""
BATCH_FILES = 256
_SAMPLE = 8
"""How many files are asked for the size of segments."""
_READS = 3
"""How often a file that changes while it is read is read again."""

Since = Lsn | str | float
"""A location, the name of a segment, or a Unix time."""
Wanted = tuple[WalFile, bool]
"""A file to verify, and whether its SHA-1 is wanted."""
Verified = tuple[Sequence[Wanted], Sequence[Mapping[str, Any]], BaseException | None]
"""Files, the native module's facts of each, and what kept a store from being read meanwhile."""
Verifier = Callable[[Archive, Sequence[Wanted], int, Observe], Iterator[Verified]]
"""Verifies files of an archive with segments of that size, batch by batch in their order, and says how many
bytes of the current batch are done."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment, and the file that a restore would take for it."""

    timeline: int
    number: int
    file: WalFile
    facts: FileFacts | None
    """None if the file was not looked into."""
    is_usable: bool
    """Whether a restore could begin to read it."""


@dataclass(slots=True)
class ArchiveReading:
    """Everything that the files of one archive say by themselves."""

    archive: Archive
    segment_size: int
    reference: ExpectedSystem
    segments: dict[int, dict[int, Segment]] = field(default_factory=dict)
    """Segments by timeline and number."""
    unarchived: dict[int, dict[int, Segment]] = field(default_factory=dict)
    """Segments that are in pg_wal alone, though the archive has later ones: none of ``segments``."""
    partials: dict[tuple[int, int], Segment] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    read_files: int = 0
    read_bytes: int = 0
    """Bytes of files that were read this time."""
    kept_files: int = 0
    skipped_files: int = 0
    """Files that were not looked into: before ``since`` and not kept, or changing again and again."""
    prepared_files: int = 0
    """Files of a pg_wal that wait to be written."""
    gone: set[tuple[int, int]] = field(default_factory=set)
    """Timeline and number of segments whose files went while they were read: they expired."""

    def start_of(self, number: int) -> Lsn:
        """Where a segment begins."""
        return Lsn(number * self.segment_size)


def read_archive(
    archive: Archive, since: Since | None, kept: KeptResults, verifier: Verifier, observe: Observe | None
) -> ArchiveReading:
    """Verify every file that has to be verified. Raises WalError if not even the size of segments can be
    told."""
    files = archive.listing.segments
    _check_rights(files)
    size = call(archive.places, _segment_size, archive)
    first = _first_number(since, size)
    twice = Counter((file.name, file.is_partial) for file in files)
    facts: dict[str, FileFacts] = {}
    wanted: list[Wanted] = []
    skipped = 0
    for file in files:
        wants_sha1 = (file.sha1 is not None and not file.is_partial) or twice[file.name, file.is_partial] > 1
        known = kept.find(file, size, wants_sha1=wants_sha1)
        if known is not None:
            facts[file.path] = known
        elif (first is not None and file.number(size) < first) or (
            isinstance(since, float) and file.mtime_ns < since * 1e9
        ):
            skipped += 1
        else:
            wanted.append((file, wants_sha1))
    kept_files = len(facts)
    changing: Sequence[Wanted] = wanted
    gone: set[str] = set()
    for number in range(_READS):
        changed: list[Wanted] = []
        for (file, wants_sha1), found in _verified(archive, changing, size, kept, verifier, observe):
            # A file that changed a moment ago and is not in order yet is still being written, though it
            # rests.
            if found is not None and not (number and found.faults):
                facts[file.path] = found
            elif (status := _status(file)) is None:
                gone.add(file.path)
            else:
                now = replace(file, size=status.size, mtime_ns=status.mtime_ns, etag=status.etag)
                changed.append((now, wants_sha1))
        changing = changed
        if not changing:
            break
    expired = {(file.timeline, file.number(size)) for file in files if file.path in gone}
    gone |= _newest([file for file, _ in changing], files, gone, size)
    skipped += len(changing)
    reading = ArchiveReading(archive, size, _reference(archive, facts.values()))
    reading.files, reading.read_files, reading.kept_files = len(files), len(wanted), kept_files
    reading.read_bytes, reading.skipped_files = sum(file.size for file, _ in wanted), skipped
    reading.gone = expired
    _sort_out(reading, facts, gone)
    reading.problems += [
        Problem(
            "changing", f"the file changed, and is not in order after {_READS} looks", file.path, file.name,
            timeline=file.timeline, lsn=reading.start_of(file.number(size)),
        )
        for file, _ in changing
    ]  # fmt: skip
    return reading


def _check_rights(files: Sequence[WalFile]) -> None:
    """Nothing can be said of an archive of which no file may be read. Raises WalError."""
    plain = [file for file in files if file.reader is None]
    is_closed = (Path(file.path).exists() and not os.access(file.path, os.R_OK) for file in plain)
    if plain and len(plain) == len(files) and all(is_closed):
        raise WalError(
            f'could not open file "{plain[0].path}": Permission denied',
            detail=f"None of {len(plain):,} WAL files may be read.",
            hint="PostgreSQL makes its files for its own user: look as that user, or as root.",
        )


def _segment_size(archive: Archive) -> int:
    files = [file for file in archive.listing.segments if not file.is_partial] or archive.listing.segments
    step = max(1, len(files) // _SAMPLE)
    known = [found[2] for file in files[::step] if (found := wal_probe(file.source)) is not None]
    known = known or [found[2] for file in files if (found := wal_probe(file.source)) is not None]
    if known:
        return Counter(known).most_common(1)[0][0]
    # Nothing can be read: plain files may at least tell by their length.
    lengths = Counter(file.size for file in files if file.ending is None and file.size & (file.size - 1) == 0)
    length = lengths.most_common(1)[0][0] if lengths else 0
    return length if 1 << 20 <= length <= 1 << 30 else 16 << 20


def _newest(
    changing: Sequence[WalFile], files: Sequence[WalFile], gone: set[str], segment_size: int
) -> set[str]:
    """Paths of the files that no other file of their timeline follows: nothing says that they will be
    whole."""
    paths = {file.path for file in changing} | gone
    last: dict[int, int] = {}
    for file in files:
        if file.path not in paths and not file.is_partial:
            last[file.timeline] = max(file.number(segment_size), last.get(file.timeline, 0))
    return {file.path for file in changing if file.number(segment_size) > last.get(file.timeline, -1)}


def _first_number(since: Since | None, segment_size: int) -> int | None:
    if isinstance(since, Lsn):
        return since // segment_size
    if isinstance(since, str):
        return segment_number(since, segment_size)
    return None


def _verified(
    archive: Archive,
    wanted: Sequence[Wanted],
    segment_size: int,
    kept: KeptResults,
    verifier: Verifier,
    observe: Observe | None,
) -> Iterator[tuple[Wanted, FileFacts | None]]:
    """The files, each with what it holds; None if it changed or vanished while it was read."""
    total, done = len(wanted) * segment_size, 0

    def observe_all(bytes_: int, _: int) -> None:
        if observe is not None:
            observe(done + bytes_, total)

    observe_all(0, total)
    for batch, plain, failure in verifier(archive, wanted, segment_size, observe_all):
        done += len(batch) * segment_size
        found = [
            (
                wanted_file,
                None if facts["faults"] and (failure is not None or _has_changed(wanted_file[0])) else facts,
            )
            for wanted_file, facts in zip(batch, plain, strict=True)
        ]
        # What could not be read now may be readable the next time, or with the pass.
        kept.add(
            ((file, facts) for (file, _), facts in found if facts is not None and not is_unread(facts)),
            segment_size,
        )
        if failure is not None:
            raise failure
        for wanted_file, facts in found:
            yield wanted_file, None if facts is None else FileFacts.of_plain(facts)


def _status(file: WalFile) -> FileStatus | None:
    """The file's status now; None when it is gone."""
    return file_status(file.path) if file.reader is None else file.reader.status(file.path)


def is_unread(plain: Mapping[str, Any]) -> bool:
    """Whether a file could not be read, or could not be read without the pass."""
    return any(fault[0] in ("unreadable", "encrypted") for fault in plain["faults"])


def verify_here(threads: int) -> Verifier:
    """A verifier that uses this machine, with so many threads."""

    def verify(
        archive: Archive, wanted: Sequence[Wanted], segment_size: int, observe: Observe
    ) -> Iterator[Verified]:
        most = min((place.read_by(threads) for place in archive.places), default=threads)
        for reader, read in groupby((file for file, _ in wanted), key=lambda file: file.reader):
            if reader is not None:
                reader.expect((file.path, file.status) for file in read)
        for batch in _batches(wanted, most):
            files = [(file.source, file.name, file.is_partial, file.ending, sha1) for file, sha1 in batch]
            plain, failure = attempt(archive.places, wal_verify, files, segment_size, most, observe)
            yield batch, plain, failure

    return verify


def _has_changed(file: WalFile) -> bool:
    """Whether a file was removed, or is being copied, while archives were read."""
    if file.reader is None:
        path = Path(file.path)
        if path.is_symlink() and not path.exists():
            return False
    return _status(file) != file.status


def _batches(wanted: Sequence[Wanted], threads: int) -> Iterator[list[Wanted]]:
    batch: list[Wanted] = []
    size = 0
    for file in wanted:
        batch.append(file)
        size += file[0].size
        if len(batch) >= BATCH_FILES or (size >= BATCH_BYTES * threads and len(batch) >= threads):
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _reference(archive: Archive, facts: Iterable[FileFacts]) -> ExpectedSystem:
    """Which system's WAL it should be: what the tool's catalogue says, else the last backup, else what most
    files say."""
    said = Counter(
        (fact.system_identifier, fact.version) for fact in facts if fact.system_identifier and fact.version
    )
    identifier = archive.system_identifier
    if identifier is None:
        identifier = _last_backed_up(archive, {system for system, _ in said})
    if identifier is None and said:
        identifier = said.most_common(1)[0][0][0]
    versions = [version for (system, version), _ in said.most_common() if system == identifier]
    return ExpectedSystem(identifier, archive.version or (versions[0] if versions else None))


def _last_backed_up(archive: Archive, systems: Collection[int | None]) -> int | None:
    """The system, of those whose WAL is there, of the backup that ended last: after an upgrade most segments
    are still of the old one."""
    known = [
        backup
        for backup in archive.backups
        if isinstance(backup, ArchivedBackup)
        and backup.system_identifier is not None
        and backup.system_identifier in systems
    ]
    has_times = all(backup.stopped_at is not None for backup in known)
    last = max(
        known,
        key=lambda backup: ((backup.stopped_at or 0.0) if has_times else 0.0, backup.stop),
        default=None,
    )
    return None if last is None else last.system_identifier


def _sort_out(reading: ArchiveReading, facts: dict[str, FileFacts], gone: set[str]) -> None:
    """Put each file in its segment's place; if there are several, the best one of the archive: a restore does
    not look into pg_wal for what it finds there."""
    candidates: dict[tuple[int, int, bool], list[tuple[Segment, list[Problem]]]] = {}
    for file in reading.archive.listing.segments:
        if file.path in gone:
            continue
        found = facts.get(file.path)
        number = file.number(reading.segment_size)
        start = reading.start_of(number)
        if found is not None and reading.archive.is_live(file.path) and _is_prepared(found, start):
            reading.prepared_files += 1
            continue
        problems = [] if found is None else file_problems(file, found, start, reading.reference)
        is_usable = all(problem.kind in ("damaged", "checksum") for problem in problems)
        segment = Segment(file.timeline, number, file, found, is_usable)
        candidates.setdefault((file.timeline, number, file.is_partial), []).append((segment, problems))
    last: dict[int, int] = {}
    for timeline, number, is_partial in candidates:
        last[timeline] = max(last.get(timeline, -1), number if not is_partial else -1)
    for (timeline, number, is_partial), several in sorted(candidates.items()):
        if is_partial and number > last[timeline]:
            several = [(segment, list(map(_still_written, problems))) for segment, problems in several]
        several.sort(
            key=lambda copy: (
                reading.archive.is_live(copy[0].file.path),
                not copy[0].is_usable,
                len(copy[1]),
                copy[0].file.ending or "",
                copy[0].file.path,
            )
        )
        for _, problems in several:
            reading.problems += problems
        best = several[0][0]
        if is_partial:
            reading.partials[timeline, number] = best
        else:
            reading.segments.setdefault(timeline, {})[number] = best
            reading.problems += _differences(several)


def _still_written(problem: Problem) -> Problem:
    """A problem of a timeline's newest segment, which is partial: pg_receivewal writes the end of compressed
    data when the segment is full, and until then little of it can be unpacked."""
    if problem.kind not in ("unpack", "truncated"):
        return problem
    return replace(
        problem,
        kind="unfinished",
        message="the segment is being written, and cannot be unpacked until it is full",
    )


def _is_prepared(facts: FileFacts, start: Lsn) -> bool:
    """Whether a file of a running server's pg_wal is recycled or filled with zeros, and waits to be
    written."""
    is_recycled = facts.address is not None and facts.address < start
    return is_recycled or (not facts.stretches and facts.is_clean_end)


def _differences(several: Sequence[tuple[Segment, list[Problem]]]) -> Iterator[Problem]:
    """Problems of files of one segment that are in order but differ."""
    sound = [
        copy for copy, problems in several if not problems and copy.facts is not None and copy.facts.sha1
    ]
    for other in sound[1:]:
        first = sound[0]
        if first.facts is not None and other.facts is not None and first.facts.sha1 != other.facts.sha1:
            yield Problem(
                "duplicate",
                f"another file for the segment has other content: {first.file.path}",
                other.file.path,
                other.file.name,
                timeline=other.timeline,
                lsn=other.facts.stretches[0].start if other.facts.stretches else None,
                expected=f"SHA-1 {first.facts.sha1}",
                got=f"SHA-1 {other.facts.sha1}",
            )
