"""Tells an archive's files apart by name: segments, histories of timelines, labels of backups.

000000010000000000000001                     pg_wal, archive_command, Barman (compressed or not)
000000010000000000000001.gz .lz4 .zst ...    archive_command, pg_receivewal, WAL-G
000000010000000000000001.partial             a promotion, pg_receivewal; a compression before or after it
000000010000000000000001-<sha1>.gz           pgBackRest
00000002.history, 000000010000000000000001.00000028.backup    with the same endings
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from walproof.wal.places.place import FileSource, FileStatus, Reader, file_source
from walproof.wal.segment import segment_number

_ENDINGS = "gz|lz4|zstd|zst|xz|bz2|lzma|br"
_AFTER = (
    rf"(?P<early>\.partial)?(?:-(?P<sha1>[0-9a-f]{{40}}))?(?:\.(?P<ending>{_ENDINGS}))?(?P<late>\.partial)?"
)
_SEGMENT = re.compile(rf"(?P<name>[0-9A-F]{{24}}){_AFTER}")
_HISTORY = re.compile(rf"(?P<timeline>[0-9A-F]{{8}})\.history(?:-[0-9a-f]{{40}})?(?:\.(?:{_ENDINGS}))?")
_LABEL = re.compile(
    rf"(?P<name>[0-9A-F]{{24}})\.[0-9A-F]{{8}}\.backup(?:-[0-9a-f]{{40}})?(?:\.(?:{_ENDINGS}))?"
)

_UNKNOWN = FileStatus(0, 0)


@dataclass(frozen=True, slots=True)
class WalFile:
    """A file whose name is that of a segment."""

    path: str
    name: str
    """24 hexadecimal digits."""
    is_partial: bool
    sha1: str | None
    """SHA-1 of the segment's bytes, as pgBackRest writes it into the name."""
    ending: str | None
    """How the name says that it is compressed."""
    size: int
    mtime_ns: int
    etag: str = ""
    """An object store's own mark of the contents."""
    reader: Reader | None = None
    """What reads it; None if the file system does."""

    @property
    def source(self) -> FileSource:
        """The file for the native module."""
        return file_source(self.path, self.size, self.reader)

    @property
    def status(self) -> FileStatus:
        """What tells whether it changed."""
        return FileStatus(self.size, self.mtime_ns, self.etag)

    @property
    def timeline(self) -> int:
        """The timeline in the name."""
        return int(self.name[:8], 16)

    def number(self, segment_size: int) -> int:
        """Place of the segment in the WAL, counted in segments."""
        return segment_number(self.name, segment_size)


@dataclass(frozen=True, slots=True)
class ArchiveListing:
    """Files of an archive."""

    segments: tuple[WalFile, ...]
    histories: tuple[tuple[int, FileSource], ...]
    """By timeline."""
    labels: tuple[FileSource, ...]
    """The labels that servers archive at the end of each base backup (``*.backup``)."""


def is_segment(name: str) -> bool:
    """Whether a file with that name holds a segment."""
    return segment_file("", name) is not None


def segment_file(
    path: str, name: str, status: FileStatus = _UNKNOWN, reader: Reader | None = None
) -> WalFile | None:
    """The segment that a file with that ``name`` holds; None for any other name."""
    match = _SEGMENT.fullmatch(name)
    if match is None or (match["early"] and match["late"]):
        return None
    is_partial = bool(match["early"] or match["late"])
    return WalFile(
        path, match["name"], is_partial, match["sha1"], match["ending"],
        status.size, status.mtime_ns, status.etag, reader,
    )  # fmt: skip


def history_timeline(name: str) -> int | None:
    """The timeline whose history a file with that name holds."""
    match = _HISTORY.fullmatch(name)
    return int(match["timeline"], 16) if match else None


def is_label(name: str) -> bool:
    """Whether a file with that name is the label of a backup."""
    return _LABEL.fullmatch(name) is not None
