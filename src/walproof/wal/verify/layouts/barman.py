"""Barman: ``SERVER/wals/0000000100000000/SEGMENT``, ``SERVER/base/ID/backup.info``; since 3.13.2
``SERVER/meta/ID-backup.info``. Barman cloud keeps the same folders.

Segments keep their plain names when they are compressed. ``wals/xlog.db`` (since 3.13
``wals/SERVER-xlog.db``) is the catalogue: name, size, time, compression, a line for each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from walproof.errors import UnitError
from walproof.units import Lsn
from walproof.wal.places.place import Place, read_text
from walproof.wal.verify.backups import ArchivedBackup, BrokenBackup, Found, NoBackup
from walproof.wal.verify.layouts.archive import Archive, joined, list_files
from walproof.wal.verify.names import is_segment

_IN_META = "-backup.info"
"""How names of descriptions end in ``meta``."""


def is_server(names: set[str]) -> bool:
    """Whether a folder with these names in it is that of a server."""
    return {"wals", "base"} <= names


def archives(folder: Place) -> Iterator[Archive]:
    """The archive of one server. Raises WalError."""
    before = set(_catalogue(folder))
    listings = [list_files(folder / "wals")]
    if (folder / "streaming").is_folder():
        listings.append(list_files(folder / "streaming", 0))
    backups = tuple(_backups(folder))
    # All backups of a server belong to one cluster, unless it was initialised again.
    known = [
        backup.system_identifier
        for backup in backups
        if isinstance(backup, ArchivedBackup) and backup.system_identifier
    ]
    # Barman archives and expires segments meanwhile: what it names both before and after has to be there.
    catalogued = tuple(name for name in _catalogue(folder) if name in before)
    yield Archive(
        folder.name,
        "Barman",
        str(folder),
        joined(listings),
        backups,
        known[-1] if known else None,
        None,
        catalogued,
        (folder,),
    )


def _catalogue(folder: Place) -> Iterator[str]:
    """The segments in the catalogue. One that an older version left beside a newer one does not count."""
    own_name = f"{folder.name}-xlog.db"
    for path in (folder / "wals" / own_name, folder / "meta" / own_name, folder / "wals" / "xlog.db"):
        try:
            text = path.read().decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            name = line.split("\t")[0].strip()
            if is_segment(name):
                yield name
        return


def _backups(folder: Place) -> Iterator[Found]:
    """The backups of a server. What is in ``meta`` counts where a backup is described twice."""
    described: dict[str, Place] = {}
    for entry in (folder / "base").entries():
        path = folder / "base" / entry.name / "backup.info"
        if entry.is_folder and path.is_file():
            described[entry.name] = path
    if (folder / "meta").is_folder():
        for entry in (folder / "meta").entries():
            name = entry.name.removesuffix(_IN_META)
            if not entry.is_folder and name not in ("", entry.name):
                described[name] = folder / "meta" / entry.name
    for name, path in sorted(described.items(), key=lambda item: item[0]):
        yield _backup(name, path, folder / "base" / name)


def _backup(name: str, path: Place, folder: Place) -> Found:
    """A backup, unless Barman's own status says that it failed or still runs. ``folder``: where its data
    are."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError):
        return BrokenBackup(str(path), "it cannot be read")
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    status = fields.get("status")
    if status in ("FAILED", "STARTED", "EMPTY", "SYNCING"):
        return NoBackup(str(folder), "failed backup", f"backup {name}: Barman's status is {status}")
    system = fields.get("systemid", "")
    parent = fields.get("parent_backup_id", "None")
    is_snapshot = fields.get("snapshots_info", "None") != "None"  # the data is in volumes
    has_data = is_snapshot or (
        folder.is_folder() and any(entry.name.startswith(("data", "pgdata")) for entry in folder.entries())
    )
    try:
        return ArchivedBackup(
            name,
            "Barman",
            str(folder),
            int(fields["timeline"]),
            Lsn.parse(fields["begin_xlog"]),
            Lsn.parse(fields["end_xlog"]),
            _time(fields.get("end_time", "")),
            int(system) if system.isdigit() else None,
            int(fields["version"]) // 10000 if fields.get("version", "").isdigit() else None,
            None if has_data else "backup.info is there, but its data is missing",
            () if parent in ("None", "") else (parent,),
        )
    except (KeyError, ValueError, UnitError):
        return BrokenBackup(str(path), f"it has no begin_xlog, end_xlog or timeline (status {status})")


def _time(text: str) -> float | None:
    """Unix time; None without a zone, because the zone of the machine that wrote it is not known here."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo else None
