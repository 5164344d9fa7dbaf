"""WAL-G: ``wal_005/SEGMENT.lz4``, ``basebackups_005/base_SEGMENT_backup_stop_sentinel.json``.

A sentinel is written when a backup is complete. Older ones have no times; ``base_SEGMENT/metadata.json`` has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from walproof.units import Lsn
from walproof.wal.places.place import Place
from walproof.wal.verify.backups import ArchivedBackup, BrokenBackup, Found, iso_time, json_object
from walproof.wal.verify.layouts.archive import Archive, list_files

_WAL, _BACKUPS = "wal_005", "basebackups_005"
_SENTINEL = re.compile(r"(base_([0-9A-F]{8})[0-9A-F]{16}(?:_D_[0-9A-F]{24})?)_backup_stop_sentinel\.json")


def is_prefix(names: set[str]) -> bool:
    """Whether a folder with these names in it is what WALG_FILE_PREFIX names."""
    return _WAL in names


def archives(folder: Place) -> Iterator[Archive]:
    """The archive below one prefix. Raises WalError."""
    backups = tuple(_backups(folder / _BACKUPS)) if (folder / _BACKUPS).is_folder() else ()
    known = {backup.system_identifier for backup in backups if isinstance(backup, ArchivedBackup)} - {None}
    identifier = known.pop() if len(known) == 1 else None
    yield Archive(
        folder.name, "WAL-G", str(folder), list_files(folder / _WAL), backups, identifier, places=(folder,)
    )


def _backups(folder: Place) -> Iterator[Found]:
    entries = folder.entries()
    folders = {entry.name for entry in entries if entry.is_folder}
    for entry in entries:
        match = _SENTINEL.fullmatch(entry.name)
        if match is None:
            continue
        sentinel = json_object(folder / entry.name)
        if sentinel is None:
            yield BrokenBackup(entry.path, "it is not a JSON object")
        else:
            metadata = json_object(folder / match[1] / "metadata.json") or {}
            backup = _backup(match[1], int(match[2], 16), entry.path, sentinel, metadata)
            if match[1] not in folders and isinstance(backup, ArchivedBackup):
                backup = replace(backup, complaint="its sentinel is there, but its folder is missing")
            yield backup


def _backup(
    name: str, timeline: int, path: str, sentinel: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Found:
    start = _number(sentinel.get("LSN"), metadata.get("start_lsn"))
    stop = _number(sentinel.get("FinishLSN"), metadata.get("finish_lsn"))
    if start is None or stop is None:
        return BrokenBackup(path, "it has no LSN or FinishLSN")
    finished = iso_time(sentinel.get("FinishTime")) or iso_time(metadata.get("finish_time"))
    system = _number(sentinel.get("SystemIdentifier"), metadata.get("system_identifier"))
    version = _number(sentinel.get("PgVersion"), metadata.get("pg_version"))
    major = None if version is None else version // 10000
    said = (sentinel.get("DeltaFrom"), sentinel.get("DeltaFullName"))
    needs = tuple(dict.fromkeys(parent for parent in said if isinstance(parent, str) and parent))
    return ArchivedBackup(
        name, "WAL-G", path, timeline, Lsn(start), Lsn(stop), finished, system, major, needs=needs
    )


def _number(*values: object) -> int | None:
    """The first that is a number; 0 means not known."""
    return next((value for value in values if isinstance(value, int) and value > 0), None)
