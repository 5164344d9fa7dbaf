"""What the sync of a data directory costs on a disk, for each file, each file to be flushed, and each MB.

The calls are the server's own (src/backend/storage/file/fd.c, SyncDataDirectory): with ``fsync`` a walk that
asks the kernel to begin writing, and one that waits for each file; with ``syncfs`` one call.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from walproof.errors import DiskError
from walproof.facts.calibration import SyncCosts
from walproof.files import sync_filesystem
from walproof.wal.recovery import PAGE_BYTES

_FILES, _FLUSHED, _LARGE_MB = 200, 40, 32
_SYNC_FILE_RANGE_WRITE = 2


def measure_sync(folder: Path) -> SyncCosts:
    """Measure the folder's disk, in a second or two. Raises DiskError."""
    root = folder / "sync-cost"
    try:
        root.mkdir()
        try:
            return _measure(root)
        finally:
            shutil.rmtree(root)
    except OSError as error:
        raise DiskError(f'could not measure the sync of files in "{folder}": {error.strerror}') from error


def _measure(root: Path) -> SyncCosts:
    files = [root / str(number) for number in range(_FILES)]
    for path in files:
        path.write_bytes(bytes(PAGE_BYTES))
    sync_filesystem(root)
    # On a disk that others use, the time of a flush varies: the usual one is taken, not the best.
    clean_s = median(_timed(lambda: sync_files(files)) for _ in range(3))
    flushed = files[:_FLUSHED]
    for path in flushed:
        with path.open("ab") as file:
            file.write(bytes(PAGE_BYTES))
    flushed_s = _timed(lambda: sync_files(flushed)) - clean_s * _FLUSHED / _FILES
    large = root / "large"
    block = os.urandom(1 << 20)
    with large.open("wb") as file:
        for _ in range(_LARGE_MB):
            file.write(block)
    large_s = _timed(lambda: sync_files([large]))
    with files[0].open("ab") as file:
        file.write(bytes(PAGE_BYTES))
    filesystem_s = _timed(lambda: sync_filesystem(root))
    return SyncCosts(
        file_us=clean_s / _FILES * 1e6,
        flush_us=max(0.0, flushed_s) / _FLUSHED * 1e6,
        mb_us=large_s / _LARGE_MB * 1e6,
        filesystem_us=filesystem_s * 1e6,
    )


def _timed(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def sync_files(paths: list[Path]) -> None:
    """Sync as a server does with recovery_init_sync_method = fsync. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for path in paths:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        libc.sync_file_range(
            descriptor, ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE)
        )
        os.close(descriptor)
    for path in paths:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.fsync(descriptor)
        os.close(descriptor)
