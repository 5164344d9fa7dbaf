"""An archive that was found, whichever tool keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from walproof.wal.places.place import MOST_FOLDERS, Entry, FileSource, Place, entry_source
from walproof.wal.verify.backups import Found
from walproof.wal.verify.names import (
    ArchiveListing,
    WalFile,
    history_timeline,
    is_label,
    is_segment,
    segment_file,
)


@dataclass(frozen=True, slots=True)
class Archive:
    """The WAL of one cluster, or what is meant to be that."""

    name: str
    """The tool's name for it (``main 15-1``), else the folder."""
    layout: str
    """``pgBackRest``, ``WAL-G``, ``Barman``, ``pg_wal``, ``folder``."""
    path: str
    listing: ArchiveListing
    backups: tuple[Found, ...] = ()
    system_identifier: int | None = None
    """The system identifier in the tool's own catalogue."""
    version: int | None = None
    catalogued: tuple[str, ...] = ()
    """Segments that the tool's own catalogue names, if it keeps one."""
    places: tuple[Place, ...] = ()
    """The folders of its files."""
    live: tuple[str, ...] = ()
    """Folders among them that are a server's pg_wal: the last segment is being written, later ones are
    prepared."""
    backups_in: tuple[str, ...] = ()
    """Where a base backup has to be: the tool's own repository, and the folders that were named for it. Empty
    for a folder whose backups may be anywhere."""

    def is_live(self, path: str) -> bool:
        """Whether a file is in a server's pg_wal."""
        return path.rpartition("/")[0] in self.live


def list_files(folder: Place, depth: int = MOST_FOLDERS) -> ArchiveListing:
    """Files of WAL in a folder and the folders in it. Links to folders are not followed. Raises WalError."""
    return listing_of(folder.files(depth))


def listing_of(found: Iterable[Entry]) -> ArchiveListing:
    """The files that belong to an archive. One that vanishes meanwhile is not listed."""
    segments: list[WalFile] = []
    histories: list[tuple[int, FileSource]] = []
    labels: list[FileSource] = []
    for entry in found:
        timeline = history_timeline(entry.name)
        if timeline is not None:
            histories.append((timeline, entry_source(entry)))
        elif is_label(entry.name):
            labels.append(entry_source(entry))
        elif (file := segment_of(entry)) is not None:
            segments.append(file)
    return ArchiveListing(tuple(segments), tuple(histories), tuple(labels))


def joined(listings: Iterable[ArchiveListing]) -> ArchiveListing:
    """All files of several listings."""
    several = list(listings)
    return ArchiveListing(
        tuple(file for listing in several for file in listing.segments),
        tuple(file for listing in several for file in listing.histories),
        tuple(file for listing in several for file in listing.labels),
    )


def segment_of(entry: Entry) -> WalFile | None:
    """The segment in a file; None if it is not a segment, or is no longer there."""
    if not is_segment(entry.name):
        return None
    status = entry.status()
    return None if status is None else segment_file(entry.path, entry.name, status, entry.reader)
