"""pgBackRest: ``archive/STANZA/15-1/0000000100000000/SEGMENT-SHA1.lz4``, ``backup/STANZA/backup.info``.

Each folder ``15-1`` is the archive of one cluster: its version, and the number of its entry in
``[db:history]``. What follows ``=`` in the .info files is JSON (pgBackRest, src/info). Repositories may be
encrypted; if the pass is where pgBackRest has it, they are read like others
(crates/walproof-wal/src/source/cipher.rs)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from walproof._native import wal_text
from walproof.checked import checked, parsed
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.opened import call
from walproof.wal.places.place import Place, entry_source
from walproof.wal.verify.backups import (
    ArchivedBackup,
    BrokenBackup,
    Found,
    NoBackup,
    timeline_of,
    unix_time,
)
from walproof.wal.verify.layouts.archive import Archive, list_files

_ARCHIVE_ID = re.compile(r"(\d+(?:\.\d+)?)-(\d+)")
_LABEL = re.compile(r"\d{8}-\d{6}F")


def is_stanza(names: set[str]) -> bool:
    """Whether a folder with these names in it is ``archive/STANZA``."""
    return "archive.info" in names or "archive.info.copy" in names


def is_backups(names: set[str]) -> bool:
    """Whether a folder with these names in it is ``backup/STANZA``. (Barman has a backup.info, too, and no
    such labels beside it.)"""
    return not names.isdisjoint(("backup.info", "backup.info.copy")) and any(map(_LABEL.match, names))


def archives(folder: Place) -> Iterator[Archive]:
    """The archives of one stanza. Raises WalError."""
    systems = _systems(folder)
    backups = list(_backups(folder.parent.parent / "backup" / folder.name))
    for entry in folder.entries():
        match = _ARCHIVE_ID.fullmatch(entry.name)
        if match is None or not entry.is_folder:
            continue
        number = int(match[2])
        yield Archive(
            f"{folder.name} {entry.name}",
            "pgBackRest",
            entry.path,
            list_files(folder / entry.name),
            tuple(backup for of, backup in backups if of in (None, number)),
            systems.get(number),
            int(match[1].split(".")[0]),
            places=(folder,),
        )


def _systems(folder: Place) -> dict[int, int]:
    """System identifiers by number of the cluster in the stanza's history."""
    history = _read(folder / "archive.info")[0].get("db:history", {})
    found = {}
    for number, entry in history.items():
        if re.fullmatch("[0-9]{1,9}", number) and isinstance(entry, dict):
            identifier = entry.get("db-id", entry.get("db-system-id"))
            if isinstance(identifier, int):
                found[int(number)] = identifier
    return found


def _backups(folder: Place) -> Iterator[tuple[int | None, Found]]:
    """(number of the cluster, backup)."""
    path = folder / "backup.info"
    if not path.is_file() and not (folder / "backup.info.copy").is_file():
        return
    sections, complaint = _read(path)
    if "backup:current" not in sections and "db" not in sections:
        reason = complaint or "no section [backup:current] or [db] can be read in it"
        yield None, BrokenBackup(str(path), reason)
    history = sections.get("db:history", {})
    there = {entry.name for entry in folder.entries() if entry.is_folder}
    current = sections.get("backup:current", {})
    offline = {label for label in there if _is_offline(current.get(label))}
    for label, entry in current.items():
        place = folder / label
        if _is_offline(entry):
            of = entry.get("db-id")
            reason = f"backup {label} was taken of a server that did not run (--no-online): it is not counted"
            yield of if isinstance(of, int) else None, NoBackup(str(place), "offline backup", reason)
            continue
        try:
            number = checked(int, entry["db-id"])
            system = _mapping(history.get(str(number))).get("db-system-id")
            backup = ArchivedBackup(
                label,
                f"pgBackRest {checked(str, entry['backup-type'])}",
                str(place),
                timeline_of(int(checked(str, entry["backup-archive-start"])[:8], 16)),
                checked(Lsn, entry["backup-lsn-start"]),
                checked(Lsn, entry["backup-lsn-stop"]),
                unix_time(entry["backup-timestamp-stop"]),
                None if system is None else checked(int, system),
                complaint=None if label in there else "backup.info names it, but its folder is missing",
                needs=tuple(parent for parent in _needs(entry) if parent not in offline),
            )
        except (KeyError, TypeError, ValueError):
            yield None, BrokenBackup(str(place), "its entry in backup.info has no start and stop")
        else:
            yield number, backup


def _is_offline(entry: object) -> bool:
    """Whether a backup needs no WAL, and so has no place in it."""
    return isinstance(entry, dict) and entry.get("backup-archive-start", "") is None


def _needs(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The backups whose files an incremental or differential one refers to; of older versions, the one
    before."""
    said = entry.get("backup-reference")
    several = said if isinstance(said, list) else [entry.get("backup-prior")]
    return tuple(label for label in several if isinstance(label, str))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read(path: Place) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Sections of an .info file or of its copy, without what is not JSON, and the reason if there are none.
    Raises WalError if a store cannot be read."""
    complaint = None
    for file in (path, path.parent / f"{path.name}.copy"):
        try:
            text = _text(file)
        except ValueError as error:
            complaint = complaint or str(error)
            continue
        sections: dict[str, dict[str, Any]] = {}
        section: dict[str, Any] = {}
        for line in text.splitlines():
            if line.startswith("[") and line.endswith("]"):
                section = sections.setdefault(line[1:-1], {})
            elif "=" in line:
                key, _, value = line.partition("=")
                try:
                    section[key] = parsed(value)
                except ValueError:
                    continue
        return sections, None
    return {}, complaint


def _text(file: Place) -> str:
    """An .info file, decrypted if it is encrypted. Raises WalError if a store cannot be read; ValueError with
    the reason if only this file cannot."""
    try:
        if file.connection is None:
            return wal_text(str(file))
        return call([file], wal_text, entry_source(file.entry()))
    except WalError as error:
        if file.connection is not None and file.connection.failure is not None:
            raise
        raise ValueError(error.message) from error
