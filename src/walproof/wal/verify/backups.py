"""Base backups as an archive's tools describe them: where each begins and ends in the WAL.

A backup can be restored when the WAL from its start to its stop is there; from its stop on, every later
moment can."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from walproof._native import wal_text
from walproof.checked import checked, parsed
from walproof.errors import UnitError, WalError
from walproof.units import Lsn
from walproof.wal.places.place import FileSource, Place, file_path, read_text
from walproof.wal.verify.own_wal import NO_WAL, OwnWal, read_own_wal

_TAIL_BYTES = 1 << 16
_LABEL_BYTES = 4096
"""A label has some 300; in an archive it comes first, after 512 of its name."""
UNKNOWN = "a backup that only its label names, which could not be read"
"""What an increment of pg_basebackup needs, where nothing says which."""
_OF_RUNNING = ("postmaster.pid", "postmaster.opts")
_YEAR_10000 = 253_402_300_800
"""Unix time of its beginning."""


@dataclass(frozen=True, slots=True)
class ArchivedBackup:
    """A base backup."""

    name: str
    tool: str
    """``pg_basebackup``, ``pgBackRest``, ``WAL-G``, ``Barman``; ``files`` for one without a manifest,
    ``label`` for one of which only the label is known."""
    path: str
    timeline: int
    start: Lsn
    stop: Lsn
    """Recovery has to reach this location before the backup is consistent."""
    stopped_at: float | None = None
    """Unix time."""
    system_identifier: int | None = None
    version: int | None = None
    complaint: str | None = None
    """Why the backup cannot be believed, or was not finished."""
    needs: tuple[str, ...] = ()
    """The backups that it is an increment of, by one of their ``identities``."""
    has_own_wal: bool = False
    """Whether the backup itself holds the WAL from its start to its stop."""
    stop_timeline: int | None = None
    """The timeline that ``stop`` is on, if it is not ``timeline``: the server that the backup was taken of
    followed a promotion meanwhile."""

    @property
    def last_timeline(self) -> int:
        """The timeline that the backup ends on."""
        return self.timeline if self.stop_timeline is None else self.stop_timeline

    @property
    def identities(self) -> tuple[str, str]:
        """What increments call it: tools its name, pg_basebackup where it begins."""
        return self.name, _beginning(self.start, self.timeline)


@dataclass(frozen=True, slots=True)
class BrokenBackup:
    """A description of a backup that cannot be read."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class NoBackup:
    """What looks like a base backup, and does not count as one without being a fault."""

    path: str
    kind: str
    """A key of KINDS (problems.py), one of the notes."""
    reason: str
    system_identifier: int | None = None


@dataclass(frozen=True, slots=True)
class LabelledBackup:
    """A backup without a manifest: its label says where it begins, and the archive's where it ends."""

    path: str
    name: str
    timeline: int
    start: Lsn
    system_identifier: int | None
    needs: tuple[str, ...] = ()
    own_wal: OwnWal = NO_WAL


Found = ArchivedBackup | BrokenBackup | NoBackup | LabelledBackup


def is_started(names: set[str]) -> bool:
    """Whether a server ran in a folder with these names in it. When it starts, it renames backup_label and
    writes postmaster.opts, which no backup has. (A backup may have the backup_label.old of the server that it
    was taken of.) A backup in tar format has none of these names."""
    is_plain = "PG_VERSION" in names
    return is_plain and ("backup_label" not in names or not names.isdisjoint(_OF_RUNNING))


def started_backup(folder: Place) -> NoBackup:
    """A folder from pg_basebackup in which a server ran since."""
    reason = "a server ran in this folder since pg_basebackup made it"
    return NoBackup(str(folder), "used backup", reason, _control_identifier(folder))


def read_label(file: FileSource) -> Found:
    """A ``*.backup`` file, which the server archives when a backup ends."""
    path = file_path(file)
    try:
        text = wal_text(file)
    except WalError as error:
        return BrokenBackup(path, error.message)
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        start, stop = (Lsn.parse(lines[f"{word} WAL LOCATION"].split()[0]) for word in ("START", "STOP"))
        timeline = int(lines["START TIMELINE"])
    except (KeyError, IndexError, ValueError, UnitError):
        return BrokenBackup(path, "it has no start, stop or timeline")
    # Its LABEL is the same for all backups of pg_basebackup; the segment that it begins in is not.
    name, stopped = path.rpartition("/")[2][:24], _server_time(lines.get("STOP TIME", ""))
    return ArchivedBackup(name, "label", path, timeline, start, stop, stopped, needs=_increment_of(text))


def _beginning(start: Lsn, timeline: int) -> str:
    return f"the backup that begins at {start} on timeline {timeline}"


def _increment_of(label: str) -> tuple[str, ...]:
    """What a label says of the backup that it is an increment of (PostgreSQL 17 and later)."""
    start = re.search(r"^INCREMENTAL FROM LSN: ([0-9A-F]{1,8}/[0-9A-F]{1,8})$", label, re.MULTILINE)
    timeline = re.search(r"^INCREMENTAL FROM TLI: ([0-9]{1,10})$", label, re.MULTILINE)
    if start is None or timeline is None:
        return ()
    return (_beginning(Lsn.parse(start[1]), int(timeline[1])),)


def _server_time(text: str) -> float | None:
    """Unix time of ``2026-11-23 16:20:01 UTC``. Abbreviations of other zones are ambiguous."""
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ?(UTC|GMT|[+-]\d\d(?::?\d\d)?)", text.strip()
    )
    if match is None:
        return None
    zone = "+00:00" if match[2] in ("UTC", "GMT") else match[2]
    try:
        return datetime.fromisoformat(match[1] + zone).timestamp()
    except ValueError:
        return None


def read_labelled(folder: Place, names: Collection[str]) -> Found:
    """A folder with ``backup_label`` and no manifest: ``pg_basebackup --no-manifest``, or files that were
    copied between pg_backup_start and pg_backup_stop (manual, "Making a Base Backup Using the Low Level
    API"). ``names``: what is in it."""
    try:
        text = (folder / "backup_label").first_bytes(_LABEL_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return BrokenBackup(str(folder), f"could not read its backup_label: {error.strerror}")
    start = re.search(r"^START WAL LOCATION: ([0-9A-F]{1,8}/[0-9A-F]{1,8})", text, re.MULTILINE)
    timeline = re.search(r"^START TIMELINE: ([0-9]{1,10})$", text, re.MULTILINE)
    if start is None or timeline is None:
        return BrokenBackup(str(folder), "its backup_label has no start or timeline")
    return LabelledBackup(
        str(folder), folder.name or str(folder), int(timeline[1]), Lsn.parse(start[1]),
        _control_identifier(folder), _increment_of(text), read_own_wal(folder, names),
    )  # fmt: skip


def with_end(backup: LabelledBackup, labels: Sequence[ArchivedBackup]) -> ArchivedBackup | NoBackup:
    """The backup with its end, if the archive has the label that the server left there when it ended."""
    for label in labels:
        if (label.timeline, label.start) == (backup.timeline, backup.start):
            return replace(
                label, name=backup.name, tool="files", path=backup.path,
                system_identifier=backup.system_identifier, needs=backup.needs or label.needs,
                has_own_wal=backup.own_wal.holds(label.start, label.stop),
            )  # fmt: skip
    reason = (
        f"it begins at {backup.start} on timeline {backup.timeline}, has no backup_manifest, and the archive "
        "has no label that says where it ends: it is not counted"
    )
    return NoBackup(backup.path, "endless backup", reason, backup.system_identifier)


def _lacks_files(names: Collection[str]) -> bool:
    """Whether a folder with a manifest holds neither a backup's files nor its tar files."""
    return not {"PG_VERSION", "global"} <= set(names) and not any(
        name.startswith("base.tar") for name in names
    )


def read_manifest(path: Place, names: Collection[str]) -> list[Found]:
    """The backup that pg_basebackup's ``backup_manifest`` describes; ``names``: what is beside it. The
    manifest's own checksum is compared."""
    if _lacks_files(names):
        return [BrokenBackup(str(path), "there is no base.tar beside it, nor PG_VERSION and global")]
    try:
        head, tail, checksum, is_increment = _ends(path)
    except OSError as error:
        return [BrokenBackup(str(path), f"could not read it: {error.strerror}")]
    ranges = re.search(r'"WAL-Ranges":\s*(\[.*?\])', tail, re.DOTALL)
    said = re.search(r'"Manifest-Checksum":\s*"([0-9a-f]{64})"', tail)
    if ranges is None or said is None:
        return [BrokenBackup(str(path), "it is not complete: it has no WAL ranges, or no checksum")]
    if said[1] != checksum:
        return [BrokenBackup(str(path), f"its checksum is wrong: expected {said[1]}, got {checksum}")]
    system = re.search(r'"System-Identifier":\s*(\d+)', head)
    identifier = int(system[1]) if system else _control_identifier(path.parent)
    try:
        spans = [
            (timeline_of(entry["Timeline"]), checked(Lsn, entry["Start-LSN"]), checked(Lsn, entry["End-LSN"]))
            for entry in parsed(ranges[1])
        ]
    except (ValueError, KeyError, TypeError):
        return [BrokenBackup(str(path), "its WAL ranges cannot be read")]
    if not spans:
        return [BrokenBackup(str(path), "it names no WAL")]
    # If there was a promotion during the backup, there is a range for each timeline, the newest first.
    timeline, start = min((span[0], span[1]) for span in spans)
    stop, last_timeline = max((span[2], span[0]) for span in spans)
    name = path.parent.name or str(path.parent)
    needs = (_increment_of(_label_beside(path.parent)) or (UNKNOWN,)) if is_increment else ()
    return [
        ArchivedBackup(
            name,
            "pg_basebackup",
            str(path.parent),
            timeline,
            start,
            stop,
            None,
            identifier,
            needs=needs,
            has_own_wal=read_own_wal(path.parent, names).holds(start, stop),
            stop_timeline=None if last_timeline == timeline else last_timeline,
        )
    ]


def with_label(backup: ArchivedBackup, labels: Sequence[ArchivedBackup]) -> ArchivedBackup:
    """A backup of pg_basebackup with what its label in the archive adds."""
    if backup.stopped_at is not None:
        return backup
    of = {(label.timeline, label.start): label for label in reversed(labels)}
    label = of.get((backup.timeline, backup.start))
    if label is None:
        return backup
    needs = label.needs if backup.needs == (UNKNOWN,) and label.needs else backup.needs
    return replace(backup, stopped_at=label.stopped_at, needs=needs)


def _label_beside(folder: Place) -> str:
    """The label in a backup, also in tar format, plain or with gzip; empty where it cannot be read."""
    for name in ("backup_label", "base.tar", "base.tar.gz"):
        if (folder / name).is_file():
            try:
                first = (folder / name).first_bytes(_LABEL_BYTES)
                if name.endswith(".gz"):
                    first = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(first, _LABEL_BYTES)
            except (OSError, zlib.error):
                return ""
            return first.decode("utf-8", "replace")
    return ""


def _ends(path: Place) -> tuple[str, str, str, bool]:
    """Beginning and end of a manifest, the SHA-256 of everything before its last line, and whether it names
    files of an increment."""
    sha256, head, tail, is_increment = hashlib.sha256(), b"", b"", False
    for piece in path.pieces():
        head = head or piece[:4096]
        tail += piece
        is_increment = is_increment or b"/INCREMENTAL." in tail
        if len(tail) > 2 * _TAIL_BYTES:
            sha256.update(tail[:-_TAIL_BYTES])
            tail = tail[-_TAIL_BYTES:]
    cut = tail.rfind(b'"Manifest-Checksum"')
    sha256.update(tail[: max(cut, 0)])
    texts = (head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"))
    return *texts, sha256.hexdigest(), is_increment


def _control_identifier(folder: Place) -> int | None:
    """System identifier in a backup's ``global/pg_control``; None in tar format."""
    try:
        first = (folder / "global" / "pg_control").first_bytes(8)
    except OSError:
        return None
    return int.from_bytes(first, "little") if len(first) == 8 else None


def json_object(path: Place) -> Mapping[str, Any] | None:
    """The object in a JSON file; None when there is none that can be read."""
    try:
        data = parsed(read_text(path))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def timeline_of(value: object) -> int:
    """A timeline's number. Raises ValueError."""
    timeline = checked(int, value)
    if not 1 <= timeline < 1 << 32:
        raise ValueError(f"expected a timeline, got {timeline}")
    return timeline


def unix_time(value: object) -> float:
    """A time from 1970 to the year 9999. Raises ValueError."""
    time = checked(float, value)
    if not 0 <= time < _YEAR_10000:
        raise ValueError(f"expected a time, got {time}")
    return time


def iso_time(text: object) -> float | None:
    """Unix time of an ISO 8601 text, which is UTC if it has no zone."""
    if not isinstance(text, str):
        return None
    try:
        # Go writes nanoseconds; Python reads microseconds.
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip().replace("Z", "+00:00")))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
