"""Memory that a virtual machine really has while something is measured.

A guest gives memory that it does not use back to its host (free page reporting, ballooning; Linux,
Documentation/mm/free_page_reporting.rst). Whoever uses such a page next waits for the host to find one,
several times as long as for one that the guest still has. That is paid by whatever runs first after a pause,
so that equal recoveries differ by what ran before them. Here memory is used once before the measurement:

    all of it is touched -> of each 64 kB, 60 kB are free again: what the measurement then takes
                         -> 4 kB stay: only larger blocks are given back (page_reporting_order)

Freed memory, hundreds of megabytes of it, goes to a list of the processor that freed it (mm/page_alloc.c,
per_cpu_pages), and a process on another processor does not get it. So the measured process has to run on that
one. Where memory belongs to the machine all this takes a fraction of a second and changes nothing."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_KEPT, _BLOCK = mmap.PAGESIZE, 16 * mmap.PAGESIZE
_BUFFER_BYTES = 8192


@dataclass(frozen=True, slots=True)
class BackedMemory:
    """Free memory that is the machine's own."""

    processor: int
    """The processor on whose list it is."""
    touch_us: float
    """How long the first touch of 8 kB of it took; 0 if there was nothing to touch."""


@contextmanager
def backed_memory(wanted: int) -> Iterator[BackedMemory]:
    """For as long as the block lasts, ``wanted`` bytes of free memory, or half of what is available, are this
    machine's own."""
    # Not the first, which serves most interrupts.
    processor = max(os.sched_getaffinity(0))
    size = min(wanted, available_memory() // 2)
    size -= size % _BLOCK
    if size <= 0:
        yield BackedMemory(processor, 0.0)
        return
    with on_processor(processor):
        began = time.perf_counter()
        # Page by page, in the smallest size, which is what shared_buffers takes.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        memory = mmap.mmap(-1, size, flags=flags)
        touch_us = (time.perf_counter() - began) * 1e6 / (size / _BUFFER_BYTES)
        for start in range(0, size, _BLOCK):
            memory.madvise(mmap.MADV_DONTNEED, start + _KEPT, _BLOCK - _KEPT)
    with memory:
        yield BackedMemory(processor, touch_us)


@contextmanager
def on_processor(processor: int) -> Iterator[None]:
    """Meanwhile this thread runs on that processor, and so do programs that it starts, for as long as they
    run."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def available_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that may still be taken, a container's limit included (Linux, cgroup-v2.rst, memory.max)."""
    available = psutil.virtual_memory().available
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return available
    return min(available, max(0, int(limit) - int(used))) if limit.isdigit() else available
