"""Damaged WAL: what walproof says is what pg_waldump says (tests/wal/damage.py tells what is damaged)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import versions
from tests.wal.damage import GoldenWal, compare_damages
from tests.wal.server import BINDIRS
from walproof.wal import stats

DAMAGES = 500
_VERSIONS = sorted(BINDIRS, key=int)


@pytest.mark.parametrize("version", versions.ends(_VERSIONS))
def test_the_same_end_with_the_same_words(version: str) -> None:
    report = compare_damages(int(version), [str(BINDIRS[version] / "pg_waldump")], DAMAGES, seed=1)
    assert report.shown == []
    assert report.damages == DAMAGES
    assert len(report.messages) > 8, "damages of many kinds"
    assert report.messages.total() - report.apart.total() > 0.9 * DAMAGES


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_timeline_in_the_middle_is_an_error(tmp_path: Path, threads: int) -> None:
    golden = GoldenWal(18, tmp_path)
    name, data = next(iter(golden.segments.items()))
    damaged = bytearray(data)
    damaged[10 * 8192 + 4] = 2  # xlp_tli of a page in the first of three segments
    (tmp_path / name).write_bytes(damaged)
    wal = stats(tmp_path, start=golden.start, partial=True, threads=threads)
    assert wal.error is not None
    assert wal.error.message.startswith("out-of-sequence timeline ID 1 (after 2)")
