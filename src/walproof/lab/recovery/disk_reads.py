"""How quickly the disk under a folder delivers pages that nobody has in memory."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from walproof.errors import DiskError
from walproof.wal.recovery import PAGE_BYTES

_LATENCY_READS, _LATENCY_S = 400, 2.0
_IOPS_THREADS, _IOPS_S = 16, 1.5


def measure_reads(folder: Path, pages: int) -> tuple[float | None, float | None]:
    """(us of one random read of 8 kB, such reads a second by 16 threads) of the folder's disk.

    The file is written, synced and dropped from the kernel's cache before; what the disk or the host keeps of
    it stays there. Raises DiskError.
    """
    order = list(range(pages))
    random.Random(1).shuffle(order)
    with random_pages(folder, pages) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        alone, spent = _read_pages(descriptor, order[:_LATENCY_READS], _LATENCY_S)
        shares = [order[_LATENCY_READS + n :: _IOPS_THREADS] for n in range(_IOPS_THREADS)]
        began = time.monotonic()
        with ThreadPoolExecutor(_IOPS_THREADS) as pool:
            done = sum(pool.map(lambda share: _read_pages(descriptor, share, _IOPS_S)[0], shares))
        together = time.monotonic() - began
    return (spent / alone * 1e6 if alone else None), (done / together if together else None)


def _read_pages(descriptor: int, pages: Sequence[int], limit_s: float) -> tuple[int, float]:
    began = time.monotonic()
    for count, page in enumerate(pages, 1):
        os.pread(descriptor, PAGE_BYTES, page * PAGE_BYTES)
        if time.monotonic() - began > limit_s:
            return count, time.monotonic() - began
    return len(pages), time.monotonic() - began


@contextlib.contextmanager
def random_pages(folder: Path, pages: int) -> Iterator[int]:
    """Descriptor of a file of that many pages, on the disk and in the kernel's cache; removed at the end.

    Raises DiskError, whatever fails of it.
    """
    path = folder / "pages"
    source = random.Random(0)
    try:
        with path.open("w+b", buffering=0) as file:
            for _ in range(pages):
                file.write(source.randbytes(PAGE_BYTES))
            os.fsync(file.fileno())
            yield file.fileno()
    except OSError as error:
        raise DiskError(f'could not read and write in "{folder}": {error.strerror}') from error
    finally:
        path.unlink(missing_ok=True)
