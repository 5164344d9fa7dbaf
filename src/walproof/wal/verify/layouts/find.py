"""Finds archives and backups in the folders that were named, by looking.

Folders that no tool made are one archive for each cluster: a server's pg_wal and the folder it archives to
are read together, and two clusters' folders apart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from walproof._native import wal_probe
from walproof.errors import WalError
from walproof.wal.places.opened import call
from walproof.wal.places.place import MOST_FOLDERS, Place
from walproof.wal.verify.backups import (
    BrokenBackup,
    Found,
    NoBackup,
    is_started,
    read_labelled,
    read_manifest,
    started_backup,
)
from walproof.wal.verify.layouts import barman, pgbackrest, walg
from walproof.wal.verify.layouts.archive import Archive, joined, listing_of, segment_of
from walproof.wal.verify.names import ArchiveListing

_SAMPLE = 8
"""How many files of a folder are asked whose WAL they hold."""


_Folder = tuple[Place, ArchiveListing, bool]
"""A folder without a tool: its files, and whether it is a pg_wal."""


@dataclass(slots=True)
class _Found:
    archives: list[Archive] = field(default_factory=list)
    folders: list[_Folder] = field(default_factory=list)
    """Folders without a tool."""
    backups: list[Found] = field(default_factory=list)


def find_archives(paths: Sequence[Place], backups: Sequence[Place] = ()) -> tuple[Archive, ...]:
    """Archives below ``paths``, with the base backups there and below ``backups``. Raises WalError if a path
    does not exist, or if there is no WAL at all."""
    found, elsewhere = _Found(), _Found()
    for path in paths:
        if path.is_folder():
            _explore(path.absolute(), found, MOST_FOLDERS, is_named=True)
        else:
            _add_file(path, found)
    for path in backups:
        if not path.is_folder():
            raise WalError(f'could not open directory "{path}": it is not a folder')
        _explore(path.absolute(), elsewhere, MOST_FOLDERS)
    of_tools = [
        replace(archive, backups_in=(f"the repository of {archive.layout}",)) for archive in found.archives
    ]
    archives = [*of_tools, *_clusters(found.folders)]
    if not any(archive.listing.segments for archive in archives):
        raise WalError(
            f'could not find any WAL file in "{paths[0]}"',
            hint="WAL segments have names of 24 hexadecimal digits; a server's are in pg_wal.",
        )
    for other in elsewhere.archives:
        found.backups += other.backups
    named = tuple(str(path) for path in backups)
    archives = [replace(archive, backups_in=archive.backups_in + named) for archive in archives]
    return tuple(_with_backups(archives, [*found.backups, *elsewhere.backups]))


def _explore(folder: Place, found: _Found, depth: int, *, is_named: bool = False) -> None:
    inside = folder.entries()
    names = {entry.name for entry in inside}
    if pgbackrest.is_stanza(names):
        found.archives += pgbackrest.archives(folder)
    elif pgbackrest.is_stanza(_names(folder.parent)) and is_named:
        # A single cluster of a stanza was named.
        found.archives += [
            archive for archive in pgbackrest.archives(folder.parent) if archive.path == str(folder)
        ]
    elif pgbackrest.is_backups(names):
        return  # backup.info names them with their archive, and the WAL in them is a copy (archive-copy)
    elif barman.is_server(names):
        found.archives += barman.archives(folder)
    elif is_named and folder.name == "wals" and barman.is_server(_names(folder.parent)):
        found.archives += barman.archives(folder.parent)
    elif walg.is_prefix(names):
        found.archives += walg.archives(folder)
    elif is_named and walg.is_prefix(_names(folder.parent)) and folder.name == "wal_005":
        found.archives += walg.archives(folder.parent)
    elif "backup_manifest" in names and not is_started(names):
        found.backups += read_manifest(folder / "backup_manifest", names)
    elif "PG_VERSION" in names and "backup_label" in names and not is_started(names):
        found.backups.append(read_labelled(folder, names))
    elif "PG_VERSION" in names and "pg_wal" in names:
        if "backup_manifest" in names:
            found.backups.append(started_backup(folder))
        if is_named:  # a data directory below an archive is a copy, whose WAL is not the archive's
            _explore(folder / "pg_wal", found, 0)
    else:
        files = listing_of(entry for entry in inside if not entry.is_folder)
        if files.segments or files.histories or files.labels:
            found.folders.append((folder, files, "archive_status" in names))
        if depth > 0:
            for entry in inside:
                if entry.is_folder and entry.name != "archive_status":
                    _explore(folder / entry.name, found, depth - 1)


def _names(folder: Place) -> set[str]:
    try:
        return {entry.name for entry in folder.entries()}
    except WalError:  # who may read an archive need not be allowed to see what is around it
        return set()


def _add_file(path: Place, found: _Found) -> None:
    path.entry()  # if there is none, it is called as it was named
    file = segment_of(path.absolute().entry())
    if file is None:
        raise WalError(
            f'file "{path}" is not a WAL segment',
            hint="WAL segments have names of 24 hexadecimal digits; a server's are in pg_wal.",
        )
    found.folders.append((path.absolute().parent, ArchiveListing((file,), (), ()), False))


def _clusters(folders: Iterable[_Folder]) -> Iterator[Archive]:
    """The folders of each cluster as one archive. A folder that does not say whose it is belongs to the
    nearest cluster; if several are as near, to none."""
    groups: dict[int | None, list[_Folder]] = {}
    unknown: list[_Folder] = []
    for folder in folders:
        identifier = _whose(folder[:1], folder[1])
        if identifier is None:
            unknown.append(folder)
        else:
            groups.setdefault(identifier, []).append(folder)
    identifiers = list(groups)
    known = [[str(path) for path, _, _ in group] for group in groups.values()]
    for folder in unknown:
        place = _nearest(str(folder[0]), known)
        groups.setdefault(None if place is None else identifiers[place], []).append(folder)
    for group in groups.values():
        paths = [str(path) for path, _, _ in group]
        listing = joined(part for _, part, _ in group)
        live = tuple(str(path) for path, _, is_live in group if is_live)
        layout = "pg_wal" if len(live) == len(group) else "folder"
        top = _top(paths)
        archived = [path for path in paths if path not in live]
        name = " and ".join((_top(archived), *live)) if live and archived else top
        yield Archive(name, layout, top, listing, places=tuple(place for place, _, _ in group), live=live)


def _top(paths: Sequence[str]) -> str:
    """The folder that contains all of them; for several kinds of places, all names."""
    if len(set(paths)) > 1 and all(path.startswith("/") for path in paths):
        return os.path.commonpath(paths)
    return " and ".join(dict.fromkeys(paths))


def _whose(places: Sequence[Place], listing: ArchiveListing) -> int | None:
    """The system identifier that most of a few files have."""
    files = [segment for segment in listing.segments if not segment.is_partial] or list(listing.segments)
    step = max(1, len(files) // _SAMPLE)
    probed = [call(places, wal_probe, file.source) for file in files[::step]]
    said = [known[1] for known in probed if known is not None]
    return max(set(said), key=said.count) if said else None


def _nearest(path: str, groups: Sequence[Sequence[str]]) -> int | None:
    """Which group has the folder that shares the most with a path, from its beginning; None if several groups
    share as much."""
    shared = [max((_shared(path, folder) for folder in group), default=0) for group in groups]
    most = max(shared, default=0)
    return shared.index(most) if shared.count(most) == 1 else None


def _shared(path: str, other: str) -> int:
    """How many folders two paths have in common, from the beginning."""
    pairs = zip(path.split("/"), other.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _with_backups(archives: Sequence[Archive], backups: Sequence[Found]) -> Iterator[Archive]:
    """Each backup with the archive of its cluster. A backup that does not name its cluster belongs to the
    only archive, or to the nearest. What belongs to none is said with the first."""
    owners: dict[int, list[Found]] = {}
    systems = [
        archive.system_identifier or _whose(archive.places, archive.listing) if backups else None
        for archive in archives
    ]
    folders = [[str(place) for place in archive.places] for archive in archives]
    for backup in backups:
        identifier = None if isinstance(backup, BrokenBackup) else backup.system_identifier
        place = systems.index(identifier) if identifier in systems and identifier is not None else None
        if place is None and len(archives) == 1:
            place = 0
        if place is None and (identifier is None or isinstance(backup, NoBackup)):
            place = _nearest(backup.path, folders)
        if place is None:
            place = 0
            if not isinstance(backup, BrokenBackup | NoBackup):
                backup = _unassigned(backup.path, identifier)
        owners.setdefault(place, []).append(backup)
    for place, archive in enumerate(archives):
        yield replace(archive, backups=(*archive.backups, *owners.get(place, ())))


def _unassigned(path: str, identifier: int | None) -> Found:
    """What is said of a backup that belongs to none of several archives."""
    if identifier is not None:
        return BrokenBackup(path, f"it is of another system: {identifier}, which has no archive here")
    reason = "it names no system, and lies as near to one archive as to another: it is not counted"
    return NoBackup(path, "unassigned backup", reason)
