"""How large the tables and indexes of a cluster get: the files under ``base``, while a load runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_HZ = 5.0


class SizeProbe:
    """The largest size in bytes of the data files between ``start`` and ``stop``, without WAL and temporary
    files of sorts: what a table needs while it is loaded and rebuilt."""

    def __init__(self, data: Path) -> None:
        self._base = data / "base"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="walproof-size", daemon=True)
        self._most = 0

    def start(self) -> int:
        """Begin; return the current size."""
        size = self._most = folder_bytes(self._base)
        self._thread.start()
        return size

    def stop(self) -> int:
        """End; return the largest size that was seen. May be called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._most = max(self._most, folder_bytes(self._base))
        return self._most

    def _sample(self) -> None:
        while not self._stopping.wait(1 / _HZ):
            self._most = max(self._most, folder_bytes(self._base))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in the folder; what vanishes meanwhile counts as nothing."""
    total = 0
    pending = [os.fspath(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        else:
                            total += entry.stat(follow_symlinks=False).st_size
                    except OSError:
                        continue
        except OSError:
            continue
    return total
