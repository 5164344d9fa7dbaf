"""How large the tables and indexes of a cluster get: the files under ``base``, while a load runs."""

from __future__ import annotations

import threading
from pathlib import Path

from walproof.files import folder_bytes

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
