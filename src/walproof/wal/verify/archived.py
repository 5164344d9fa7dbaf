"""What the archive itself lacks though a server's pg_wal still has it.

pg_wal goes on where the archive ends. It does not fill the archive's gaps: once newer segments are archived,
the archiver does not come back, the server removes its copy, and a restore from the archive ends there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePosixPath

from walproof.errors import WalError
from walproof.wal.places.place import FileSource, file_path
from walproof.wal.segment import segment_name
from walproof.wal.verify.names import WalFile
from walproof.wal.verify.problems import Problem
from walproof.wal.verify.reading import ArchiveReading, Segment
from walproof.wal.verify.timelines import Timelines

_PROGRAMS = {
    "gz": "gzip -c", "lz4": "lz4 -c", "zst": "zstd -c", "zstd": "zstd -c", "xz": "xz -c", "bz2": "bzip2 -c",
    "br": "brotli -c", "lzma": "xz --format=lzma -c",
}  # fmt: skip
"""What writes a file with that ending to standard output."""


def set_aside_unarchived(reading: ArchiveReading, timelines: Timelines) -> None:
    """Move the segments that are in pg_wal alone, though later ones are archived, from ``segments`` to
    ``unarchived``."""
    if not reading.archive.live:
        return
    archived = {
        timeline: {number for number, segment in segments.items() if _is_archived(reading, segment)}
        for timeline, segments in reading.segments.items()
    }
    newest = _newest(reading, timelines, archived)
    for timeline, segments in list(reading.segments.items()):
        aside = {
            number: segment
            for number, segment in segments.items()
            if number not in archived[timeline]
            and number < newest[timeline]
            and reading.archive.is_live(segment.file.path)
        }
        if not aside:
            continue
        reading.unarchived[timeline] = aside
        for number in aside:
            del segments[number]
        if not segments:
            del reading.segments[timeline]


def _is_archived(reading: ArchiveReading, segment: Segment) -> bool:
    """Whether its file is in the archive and of this system. (Of several, an archive's file comes first.)"""
    identifier = None if segment.facts is None else segment.facts.system_identifier
    is_foreign = identifier is not None and identifier != reading.reference.system_identifier
    return not is_foreign and not reading.archive.is_live(segment.file.path)


def _newest(reading: ArchiveReading, timelines: Timelines, archived: dict[int, set[int]]) -> dict[int, int]:
    """Of each timeline, the number of the newest segment that the archive has; at least that of the segment
    in which an archived timeline left it."""
    newest = {timeline: max(numbers, default=-1) for timeline, numbers in archived.items()}
    for child, numbers in archived.items():
        for ancestor in timelines.path(child)[:-1] if numbers else ():
            left = timelines.switch(ancestor, child) // reading.segment_size
            newest[ancestor] = max(newest.get(ancestor, -1), left)
    return newest


def unarchived_gap(
    reading: ArchiveReading, timeline: int, first: int, last: int
) -> Iterator[tuple[bool, int, int]]:
    """A gap in parts: (whether pg_wal has it, first, last)."""
    here = reading.unarchived.get(timeline, {})
    for is_here, several in groupby(range(first, last + 1), key=here.__contains__) if here else ():
        numbers = list(several)
        yield is_here, numbers[0], numbers[-1]
    if not here:
        yield False, first, last


def not_archived(reading: ArchiveReading, timeline: int, first: int, last: int) -> Problem:
    """The problem that segments are in pg_wal only. ``last``: the last of them."""
    size = reading.segment_size
    segments = [reading.unarchived[timeline][number] for number in range(first, last + 1)]
    names = [segment.file.name for segment in segments]
    only = f"segment {names[0]} is" if len(names) == 1 else (
        f"{len(names)} segments, {names[0]} to {names[-1]}, are"
    )  # fmt: skip
    later = _later(reading, timeline, last)
    though = f"{later[0].name} and later are" if len(later) > 1 else f"{later[0].name} is"
    pronoun = "it" if len(names) == 1 else "them"
    waiting = _waiting(reading, segments)
    fate = f"the archiver is still to archive {waiting}" if waiting else f"the server will remove {pronoun}"
    return Problem(
        "not archived", f"{only} only in pg_wal, though {though} in the archive; {fate}",
        segments[0].file.path, names[0], names[-1] if len(names) > 1 else None, len(names), timeline,
        reading.start_of(first), reading.start_of(last + 1),
        command=_command(segments, later[0], segment_name(reading.start_of(first), timeline, size)),
    )  # fmt: skip


def unarchived_histories(reading: ArchiveReading, timelines: Timelines) -> Iterator[Problem]:
    """The problem that a timeline's history is in pg_wal only, though its WAL is archived: a restore from the
    archive does not find its way there."""
    listed: dict[int, list[FileSource]] = {}
    for timeline, file in reading.archive.listing.histories:
        listed.setdefault(timeline, []).append(file)
    for timeline in sorted(timelines.ancestors):
        files = listed[timeline]
        archived = [
            segment.file
            for _, segment in sorted(reading.segments.get(timeline, {}).items())
            if _is_archived(reading, segment)
        ]
        if archived and all(reading.archive.is_live(file_path(file)) for file in files):
            name, first = f"{timeline:08X}.history", archived[0]
            yield Problem(
                "history missing",
                f"{name} is only in pg_wal, though {first.name} is in the archive",
                file_path(files[0]), timeline=timeline, command=_history_command(files[0], first),
            )  # fmt: skip


def _history_command(file: FileSource, beside: WalFile) -> str | None:
    """What copies a history to where the archive's files are, as they are; None where only a tool can."""
    is_here = isinstance(file, str) and beside.reader is None
    if not is_here or beside.sha1 is not None or beside.ending is not None:
        return None
    folder = PurePosixPath(beside.path).parent
    if folder.name == beside.name[:16]:
        folder = folder.parent
    return f"cp -p {shlex.quote(file_path(file))} {shlex.quote(f'{folder}/')}"


def _later(reading: ArchiveReading, timeline: int, number: int) -> list[WalFile]:
    """Archived files after a segment: of its timeline, else of newer ones."""
    found = [
        (other != timeline, other, later, segment.file)
        for other, segments in reading.segments.items()
        if other >= timeline
        for later, segment in segments.items()
        if later > number and _is_archived(reading, segment)
    ]
    return [file for *_, file in sorted(found, key=lambda item: item[:3])]


def _waiting(reading: ArchiveReading, segments: Sequence[Segment]) -> str:
    """Those that the server still marks for its archiver, for a message; empty where it holds all for
    archived."""
    ready: set[str] = set()
    for place in reading.archive.places:
        if str(place) in reading.archive.live:
            try:
                ready |= {entry.name for entry in (place / "archive_status").entries()}
            except WalError:  # who may read segments need not be allowed to read this
                continue
    names = [segment.file.name for segment in segments if f"{segment.file.name}.ready" in ready]
    if len(names) == len(segments):
        return "it" if len(names) == 1 else "them"
    return f"{len(names)} of them" if names else ""


def _command(segments: Sequence[Segment], beside: WalFile, name: str) -> str | None:
    """What copies them to where the archive's next file is; None where that is no folder of this machine,
    or only a tool can."""
    if beside.reader is not None or any(segment.file.reader is not None for segment in segments):
        return None
    if beside.sha1 is not None:  # pgBackRest would not know a file that it did not archive
        return None
    folder = PurePosixPath(beside.path).parent
    if folder.name == beside.name[:16]:  # the archive has a folder for each 4 GB
        folder = folder.parent / name[:16]
    paths = [segment.file.path for segment in segments]
    if beside.ending is None:
        return f"cp -p {' '.join(map(shlex.quote, paths))} {shlex.quote(f'{folder}/')}"
    program = _PROGRAMS[beside.ending]
    return " && ".join(
        f"{program} {shlex.quote(path)} > "
        f"{shlex.quote(f'{folder / PurePosixPath(path).name}.{beside.ending}')}"
        for path in paths
    )
