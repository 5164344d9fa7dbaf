"""How many files the data directory of a server on this machine has, and how much is not on the disk yet.

Counted in a thread, again after a minute or twenty times as long as it took. Nothing is opened but
global/pg_control, whose system identifier says that the folder is the server's: another container may have
one of the same name.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from walproof.observe.leaving import ObserverThread
from walproof.probe.syncing import DIRTY_S

_REST_S, _REST = 60.0, 20.0


@dataclass(frozen=True, slots=True)
class FileCount:
    """Files of a data directory at one moment."""

    files: int
    """Includes folders, because they are synced, too."""
    recent: int
    """Written within the last 35 s, so that pages of them may be dirty."""


def count_files(folder: Path, now: float) -> FileCount:
    """Follow the links that a server follows: pg_wal and tablespaces. Raises OSError if it may not look."""
    files = recent = 0
    waiting = [str(folder)]
    while waiting:
        here = waiting.pop()
        files += 1
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    in_root = here == str(folder)
                    is_link = entry.is_symlink() and (in_root or here.endswith("/pg_tblspc"))
                    if entry.is_dir(follow_symlinks=is_link):
                        waiting.append(entry.path)
                        continue
                    try:
                        written_at = entry.stat(follow_symlinks=False).st_mtime
                    except FileNotFoundError:
                        continue  # dropped meanwhile
                    files += 1
                    recent += now - written_at < DIRTY_S
        except FileNotFoundError:
            continue  # the whole folder was
    return FileCount(files, recent)


def dirty_bytes() -> int:
    """Pages of the whole machine that wait to be written or are being written (/proc/meminfo)."""
    found = 0
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Dirty", "Writeback"):
            found += int(rest.split()[0]) << 10
    return found


def is_of(folder: Path, system_identifier: int) -> bool:
    """Whether the folder is that server's, as far as may be read."""
    try:
        with (folder / "global" / "pg_control").open("rb") as file:
            return file.read(8) == struct.pack("=Q", system_identifier)
    except OSError:
        return False


class DataFiles(ObserverThread):
    """Context manager: counts the files of the folder that it was last given."""

    def __init__(self) -> None:
        super().__init__("walproof-files")
        self._folder: tuple[Path, int] | None = None
        self._wanted = threading.Event()
        self._count: FileCount | None = None

    def count_in(self, folder: str | None, system_identifier: int) -> None:
        """Count that folder from now on; None: count none."""
        self._folder = None if folder is None else (Path(folder), system_identifier)
        self._count = None
        self._wanted.set()

    @property
    def count(self) -> FileCount | None:
        """The newest count; None if nothing may be seen, or nothing has been yet. Raises a fault of ours."""
        self._check()
        return self._count

    def _wake(self) -> None:
        self._wanted.set()

    def _observe(self) -> None:
        while not self._stopping.is_set():
            self._wanted.clear()
            given, rest_s = self._folder, None
            if given is not None and is_of(*given):
                begun_s = time.monotonic()
                try:
                    found = count_files(given[0], time.time())
                    if given == self._folder:
                        self._count = found
                except OSError:
                    self._count = None
                rest_s = max(_REST_S, _REST * (time.monotonic() - begun_s))
            self._wanted.wait(rest_s)
