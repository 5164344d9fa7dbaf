"""Memory is kept in use, and freed as the cache of files grows."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from walproof.lab.recovery import memory_reserve
from walproof.lab.recovery.memory_reserve import MemoryReserve, file_cache

MB = 1 << 20
SIZE, AHEAD = 320 * MB, memory_reserve._AHEAD
PROCESSOR = max(os.sched_getaffinity(0))


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_as_much_is_freed_as_the_cache_grows() -> None:
    before, cache = _resident(), [1 << 40]
    with MemoryReserve(SIZE, PROCESSOR, lambda: cache[0]) as reserve:
        for grown, expected in ((0, SIZE - AHEAD), (64 * MB, SIZE - AHEAD - 64 * MB), (10 * SIZE, 0)):
            cache[0] = (1 << 40) + grown
            deadline = time.monotonic() + 60
            while reserve.kept != expected and time.monotonic() < deadline:
                time.sleep(0.001)
            assert reserve.kept == expected
            assert _resident() - before == pytest.approx(expected, abs=16 * MB)


def test_what_nobody_wanted_is_freed_at_the_end() -> None:
    before = _resident()
    with MemoryReserve(SIZE, PROCESSOR, lambda: 0):
        assert _resident() - before > SIZE / 4
    assert _resident() - before < 16 * MB


def test_half_of_what_is_available_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_reserve, "available_memory", lambda: 64 * MB)
    assert MemoryReserve(1 << 50, PROCESSOR).kept == 32 * MB
    monkeypatch.setattr(memory_reserve, "available_memory", lambda: 0)
    with MemoryReserve(1 << 50, PROCESSOR) as reserve:
        assert reserve.kept == 0


def test_the_cache_of_files_grows_by_a_file() -> None:
    grown = 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        # Whoever else removes a file meanwhile, or wants the memory, makes the cache smaller: it is looked at
        # until most of one file is seen. A wrong unit is wrong by a factor of 1,000.
        for number in range(40):
            before = file_cache()
            (Path(folder) / f"{number % 4}").write_bytes(bytes(64 * MB))
            grown = file_cache() - before
            (Path(folder) / f"{(number + 2) % 4}").unlink(missing_ok=True)
            if grown > 32 * MB:
                break
    assert 32 * MB < grown < 1024 * MB
