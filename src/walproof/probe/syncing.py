"""Which file a server is syncing before redo, and in which order it takes them.

SyncDataDirectory in src/backend/storage/file/fd.c, with recovery_init_sync_method = fsync: a first walk asks
the kernel to begin writing each file, opened to be read; a second one flushes each, opened to be written to.
Both take entries in the order of readdir(3): first all below the data directory, then pg_wal where it is a
link, then tablespaces. Links elsewhere are not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from walproof.errors import ClusterError
from walproof.facts.recovering import SyncPlace, SyncWalk

DIRTY_S = 35.0
"""A file written so recently may have dirty pages: the kernel writes them after 30 s
(vm.dirty_expire_centisecs), and looks every 5 s."""
_TRIES = 20
"""Between two files none is open: so often it is looked again."""
_LEAST = 3
"""The first descriptors are the log's."""


def read_sync_place(pid: int) -> SyncPlace | None:
    """The file that the process has open; None if there is none, or it may not be seen."""
    for _ in range(_TRIES):
        with suppress(OSError, ValueError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                path = descriptor.readlink()
                # Folders are open while they are walked.
                if int(descriptor.name) >= _LEAST and stat.S_ISREG(descriptor.stat().st_mode):
                    mode = _flags(pid, descriptor.name) & os.O_ACCMODE
                    # Meanwhile the descriptor may have become that of another file.
                    if descriptor.readlink() == path:
                        return SyncPlace(str(path), mode == os.O_RDWR)
    return None


def _flags(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii").splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8)
    raise ValueError(f"no flags of descriptor {name}")


def walk_synced(data: Path, now: float) -> SyncWalk:
    """The files of a data directory in that order. ``now``: Unix time at which the sync began. Raises
    ClusterError."""
    places: dict[str, int] = {}
    recent: list[int] = []
    try:
        root = data.resolve(strict=True)
        links = [root / "pg_wal", *(root / "pg_tblspc").iterdir()]
        for folder in (root, *(link.resolve() for link in links if link.is_symlink())):
            for path, written in _files(str(folder)):
                if now - written < DIRTY_S:
                    recent.append(len(places))
                places[path] = len(places)
    except OSError as error:
        raise ClusterError(f'could not read "{error.filename}": {error.strerror}') from error
    return SyncWalk(places, tuple(recent))


def _files(folder: str) -> Iterator[tuple[str, float]]:
    """(path, Unix time of the last write) of each file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            # What is dropped meanwhile is not there.
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False).st_mtime
