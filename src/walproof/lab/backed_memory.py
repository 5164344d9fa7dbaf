"""Memory that a virtual machine really has while something is measured.

A guest gives memory that it does not use back to its host (free page reporting, ballooning; Linux,
Documentation/mm/free_page_reporting.rst). Whoever uses such a page next waits for the host to find one,
several times as long as for one that the guest still has. That is paid by whatever runs first after a pause,
so that equal recoveries differ by what ran before them. Here memory is used once before the measurement:

    all of it is touched -> of each 64 kB, 60 kB are free again: what the measurement then takes
                         -> 4 kB stay: larger blocks only are given back (page_reporting.page_reporting_order)

Where memory belongs to the machine this takes a fraction of a second and changes nothing.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_KEPT, _BLOCK = mmap.PAGESIZE, 16 * mmap.PAGESIZE
_BUFFER_BYTES = 8192


@contextmanager
def backed_memory(wanted: int) -> Iterator[float]:
    """Make ``wanted`` bytes of free memory, or half of what is available, this machine's own meanwhile.

    Yields what the first touch of 8 kB of it took, in us; 0 where there was nothing to touch.
    """
    size = min(wanted, _available() // 2)
    size -= size % _BLOCK
    if size <= 0:
        yield 0.0
        return
    began = time.perf_counter()
    # Populated page by page of the smallest size: those are what shared_buffers and the kernel's cache take.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    with mmap.mmap(-1, size, flags=flags) as memory:
        touch_us = (time.perf_counter() - began) * 1e6 / (size / _BUFFER_BYTES)
        for start in range(0, size, _BLOCK):
            memory.madvise(mmap.MADV_DONTNEED, start + _KEPT, _BLOCK - _KEPT)
        yield touch_us


def _available(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that may still be taken, a container's limit included (Linux, cgroup-v2.rst, memory.max)."""
    available = psutil.virtual_memory().available
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return available
    return min(available, max(0, int(limit) - int(used))) if limit.isdigit() else available
