"""The same WAL as each tool would keep it, written by hand: plain folder, pgBackRest, WAL-G, Barman."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow

from tests.wal.verify.source import Source
from walproof.wal.verify.backups import ArchivedBackup

_ARROW = {"lz4": "lz4", "zst": "zstd", "br": "brotli"}
"""What the standard library cannot."""


def compress(data: bytes, ending: str) -> bytes:
    """``data`` as a tool with that ending would leave it; ``""`` leaves it as it is."""
    if ending == "":
        return data
    if ending == "xz":
        return lzma.compress(data, preset=0)
    if ending == "lzma":
        return lzma.compress(data, format=lzma.FORMAT_ALONE, preset=0)
    if ending == "gz":
        return gzip.compress(data, 1)
    if ending == "bz2":
        return bz2.compress(data, 1)
    packed: bytes = pyarrow.compress(data, codec=_ARROW[ending], asbytes=True)
    return packed


@dataclass
class Laid:
    """An archive in a folder."""

    root: Path
    """The folder to verify."""
    layout: str
    ending: str
    source: Source
    files: dict[str, Path] = field(default_factory=dict)
    """Of each segment by name, of histories (``00000002.history``) and of labels."""
    place: Callable[[str, bytes], Path] = field(default=lambda name, data: Path(name))

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file: the one there may be a link to what other tests read."""
        path.unlink(missing_ok=True)
        path.write_bytes(data)

    def copied(self, root: Path) -> Laid:
        """The same archive in another folder, its files linked."""
        shutil.copytree(self.root, root, copy_function=os.link, dirs_exist_ok=True)
        files = {name: root / path.relative_to(self.root) for name, path in self.files.items()}
        return replace(self, root=root, files=files)

    def put(self, name: str, data: bytes, *, named_as: bytes | None = None) -> Path:
        """Write a segment, in the place that its name has; ``named_as``: content that the name is made of."""
        path = self.root / self.place(name, data if named_as is None else named_as)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write(path, compress(data, self.ending))
        self.files[name] = path
        return path

    def change(self, name: str, data: bytes) -> Path:
        """Other content in a segment's file, under the name that it has."""
        self.write(self.files[name], compress(data, self.ending))
        return self.files[name]

    def lose(self, name: str) -> None:
        """Remove a file."""
        self.files.pop(name).unlink()


def _deep(folder: str, name: str, suffix: str) -> Path:
    return Path(folder) / (name[:16] if len(name) >= 24 else "") / f"{name}{suffix}"


def lay(source: Source, layout: str, ending: str, root: Path) -> Laid:
    """Write everything that the source's server archived."""
    dot = f".{ending}" if ending else ""
    laid = Laid(root, layout, ending, source)
    if layout == "folder":
        laid.place = lambda name, data: Path(f"{name}{dot}")
    elif layout == "pgBackRest":
        laid.place = lambda name, data: _deep(
            "archive/main/18-1", name, f"-{hashlib.sha1(data).hexdigest()}{dot}"
        )
    elif layout == "WAL-G":
        laid.place = lambda name, data: Path("wal_005") / f"{name}{dot}"
    else:
        laid.place = lambda name, data: _deep("main/wals", name, "")
    for name, data in {**source.segments, **source.partials}.items():
        laid.put(name, data)
    for name, data in {**source.histories, **source.labels}.items():
        _put_text(laid, name, data)
    _describe(laid)
    return laid


def _put_text(laid: Laid, name: str, data: bytes) -> None:
    """Histories and labels; only WAL-G compresses them, and none has their checksum in the name."""
    plain = {
        "folder": Path(name),
        "pgBackRest": _deep("archive/main/18-1", name, ""),
        "WAL-G": Path("wal_005") / (f"{name}.{laid.ending}" if laid.ending else name),
        "Barman": _deep("main/wals", name, ""),
    }[laid.layout]
    path = laid.root / plain
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(compress(data, laid.ending) if laid.layout == "WAL-G" else data)
    laid.files[name] = path


def _describe(laid: Laid) -> None:
    """The tool's own description of the base backups."""
    for number, backup in enumerate(laid.source.backups, start=1):
        if laid.layout == "folder":
            target = laid.root / "backups" / f"backup{number}"
            target.mkdir(parents=True)
            manifest = Path(backup.path) / "backup_manifest"
            laid.files[f"manifest {number}"] = Path(shutil.copy(manifest, target))
            (target / "base.tar").touch()
            (target / "global").mkdir()
            shutil.copy(Path(backup.path) / "global" / "pg_control", target / "global")
        elif laid.layout == "WAL-G":
            laid.files[f"manifest {number}"] = _sentinel(laid, backup)
        elif laid.layout == "Barman":
            laid.files[f"manifest {number}"] = _barman_info(laid, number, backup)
    if laid.layout == "pgBackRest":
        _pgbackrest_info(laid)
    if laid.layout == "Barman":
        lines = [
            f"{name}\t1048576\t1795452001.0\t{'gzip' if laid.ending == 'gz' else 'None'}\n"
            for name in sorted(laid.files)
            if len(name) == 24
        ]
        (laid.root / "main" / "wals" / "xlog.db").write_text("".join(lines))


def _segment_of(backup: ArchivedBackup) -> str:
    return f"{backup.timeline:08X}{0:08X}{backup.start >> 20:08X}"


def _stopped(backup: ArchivedBackup) -> datetime:
    assert backup.stopped_at is not None
    return datetime.fromtimestamp(backup.stopped_at, UTC)


def _sentinel(laid: Laid, backup: ArchivedBackup) -> Path:
    folder = laid.root / "basebackups_005"
    name = f"base_{_segment_of(backup)}"
    (folder / name / "tar_partitions").mkdir(parents=True)
    (folder / name / "tar_partitions" / "part_001.tar.lz4").touch()
    path = folder / f"{name}_backup_stop_sentinel.json"
    data = {
        "LSN": int(backup.start), "PgVersion": laid.source.version * 10000 + 4, "FinishLSN": int(backup.stop),
        "SystemIdentifier": laid.source.system_identifier, "UncompressedSize": 1, "CompressedSize": 1,
        "Version": 2, "FinishTime": _stopped(backup).strftime("%Y-%m-%dT%H:%M:%S.123456789Z"),
    }  # fmt: skip
    path.write_text(json.dumps(data))
    return path


def _barman_info(laid: Laid, number: int, backup: ArchivedBackup) -> Path:
    path = laid.root / "main" / "base" / f"20261123T16000{number}" / "backup.info"
    (path.parent / "data" / "global").mkdir(parents=True)
    (path.parent / "data" / "global" / "pg_control").touch()
    path.write_text(
        f"backup_label=None\nbegin_wal={_segment_of(backup)}\nbegin_xlog={backup.start}\n"
        f"end_time={_stopped(backup).isoformat(sep=' ')}\nend_xlog={backup.stop}\nserver_name=main\n"
        f"status=DONE\nsystemid={laid.source.system_identifier}\ntimeline={backup.timeline}\n"
        f"version={laid.source.version * 10000 + 4}\nxlog_segment_size=1048576\n"
    )
    return path


def _pgbackrest_info(laid: Laid) -> None:
    system = laid.source.system_identifier
    folder = laid.root / "backup" / "main"
    folder.mkdir(parents=True)
    lines = ["[backrest]", "backrest-format=5", "", "[backup:current]"]
    for number, backup in enumerate(laid.source.backups, start=1):
        label = f"20261123-16000{number}F"
        (folder / label).mkdir()
        entry = {
            "backup-archive-start": _segment_of(backup), "backup-error": False,
            "backup-lsn-start": str(backup.start), "backup-lsn-stop": str(backup.stop),
            "backup-timestamp-stop": int(backup.stopped_at or 0), "backup-type": "full", "db-id": 1,
        }  # fmt: skip
        lines.append(f"{label}={json.dumps(entry)}")
    history = json.dumps({"db-system-id": system, "db-version": str(laid.source.version)})
    lines += ["", "[db]", "db-id=1", f"db-system-id={system}", "", "[db:history]", f"1={history}", ""]
    path = folder / "backup.info"
    path.write_text("\n".join(lines))
    for number in (1, 2):
        laid.files[f"manifest {number}"] = path
    archived = json.dumps({"db-id": system, "db-version": str(laid.source.version)})
    (laid.root / "archive" / "main" / "archive.info").write_text(
        f"[backrest]\nbackrest-format=5\n\n[db]\ndb-id=1\ndb-system-id={system}\n\n[db:history]\n1={archived}\n"
    )
