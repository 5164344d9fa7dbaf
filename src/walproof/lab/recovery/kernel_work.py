"""What the kernel does for replay, measured by itself, in phases of nothing else.

    first use of shared memory                      page faults; comes with the page that is put there
    posix_fadvise(2), WILLNEED, of a cached page    what the prefetcher asks for; with reading it
    pread(2) of a cached page                       a miss of shared_buffers; with making room for it

In a replay each comes with something else, so only sums could be told, and from replays at different times.
What the server does in addition to the call is left to the phases of the load."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from walproof.facts.calibration import PhaseReplay
from walproof.lab.recovery.backed_memory import backed_memory, on_processor
from walproof.lab.recovery.disk_reads import random_pages
from walproof.wal.recovery import PAGE_BYTES, QUANTITIES


def first_use(buffers: int) -> PhaseReplay:
    """Use that many buffers of shared memory for the first time."""
    size = buffers * PAGE_BYTES
    with (
        backed_memory(size * 5 // 4) as memory,
        on_processor(memory.processor),
        mmap.mmap(-1, size) as shared,
    ):
        view = (ctypes.c_char * size).from_buffer(shared)
        spent_s = []
        for _ in ("first", "again"):
            began = time.thread_time()
            ctypes.memset(view, 1, size)
            spent_s.append(time.thread_time() - began)
        del view
    return _phase("first use", buffers, buffers, spent_s[0] - spent_s[1], ("frames",))


def cached_pages(folder: Path, buffers: int) -> tuple[PhaseReplay, PhaseReplay]:
    """Ask for and read pages that the kernel has, twice as many as buffers and in no order. ``folder`` is on
    the servers' disk. Raises DiskError."""
    size = buffers * PAGE_BYTES
    order = list(range(2 * buffers))
    random.Random(0).shuffle(order)
    places = [(page * PAGE_BYTES, page % buffers) for page in order]
    with (
        random_pages(folder, 2 * buffers) as descriptor,
        mmap.mmap(-1, size) as shared,
        contextlib.ExitStack() as views,
    ):
        shared.write(bytes(size))
        whole = views.enter_context(memoryview(shared))
        starts = range(0, size, PAGE_BYTES)
        pages = [views.enter_context(whole[start : start + PAGE_BYTES]) for start in starts]
        ahead = os.POSIX_FADV_WILLNEED
        loop_s = _spent(places, lambda start, buffer: pages[buffer])
        asked_s = _spent(places, lambda start, _: os.posix_fadvise(descriptor, start, PAGE_BYTES, ahead))
        read_s = _spent(places, lambda start, buffer: os.preadv(descriptor, [pages[buffer]], start))
    return (
        _phase("asked for", buffers, len(places), asked_s - loop_s, ("prefetches",), prefetch=True),
        _phase("read again", buffers, len(places), read_s - loop_s, ("reads", "far_reads")),
    )


def _spent(places: list[tuple[int, int]], call: Callable[[int, int], object]) -> float:
    began = time.thread_time()
    for start, buffer in places:
        call(start, buffer)
    return time.thread_time() - began


def _phase(
    name: str, buffers: int, count: int, cpu_s: float, quantities: tuple[str, ...], *, prefetch: bool = False
) -> PhaseReplay:
    work = dict.fromkeys(QUANTITIES, 0.0) | dict.fromkeys(quantities, float(count))
    return PhaseReplay(name, buffers, prefetch, max(cpu_s, 0.0), work)
