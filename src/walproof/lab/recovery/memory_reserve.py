"""Memory that a virtual machine really has, kept aside and released as the kernel's cache of files grows.

A recovery with a cold cache reads WAL for seconds, into blocks so large that a host takes them back when
they are free (see ``walproof.lab.recovery.backed_memory``), and where memory has to come from the host the
same read costs ten times as much CPU. So memory is kept in use, and let go of just before it is wanted:

    all of it is touched, in huge pages -> as the machine's cache of files grows, as much of it is freed
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Callable
from types import TracebackType

import psutil

from walproof.lab.recovery.backed_memory import available_memory, on_processor

_CHUNK = 16 << 20
"""Freed at once."""
_AHEAD = 128 << 20
"""How many bytes are freed before they are wanted."""
_PERIOD_S = 0.01


def file_cache() -> int:
    """Bytes of files that the kernel keeps in memory, without shared memory, which it counts with them."""
    memory = psutil.virtual_memory()
    return int(memory.cached - memory.shared)


class MemoryReserve:
    """Context manager: while it lasts, the cache of files grows into up to ``wanted`` bytes of this memory.

    At most half of what is available is kept aside. ``processor``: the processor on which memory will be
    used, and so has to be freed. ``cached`` tells the size of the cache, in bytes."""

    def __init__(self, wanted: int, processor: int, cached: Callable[[], int] = file_cache) -> None:
        size = min(wanted, available_memory() // 2)
        self.kept = size - size % _CHUNK
        """Bytes that are not given out yet."""
        self._processor = processor
        self._cached = cached
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._give, name="walproof-memory-reserve", daemon=True)
        self._memory: mmap.mmap | None = None

    def __enter__(self) -> MemoryReserve:
        if self.kept:
            self._memory = mmap.mmap(-1, self.kept, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            # A kernel without huge pages gives small ones.
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
            for start in range(0, self.kept, mmap.PAGESIZE):
                self._memory[start] = 1
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._memory is not None:
            self._ending.set()
            self._thread.join()
            self._memory.close()
            self.kept = 0

    def _give(self) -> None:
        assert self._memory is not None
        given, before = 0, self._cached()
        with on_processor(self._processor):
            while self.kept:
                wanted = self._cached() - before + _AHEAD
                while self.kept and given < wanted:
                    self._memory.madvise(mmap.MADV_DONTNEED, given, _CHUNK)
                    given += _CHUNK
                    self.kept -= _CHUNK
                if self._ending.wait(_PERIOD_S):
                    return
