"""Damaged WAL: what walproof says is what pg_waldump says (tests/wal/damage.py tells what is damaged)."""

from __future__ import annotations

import pytest

from tests.wal.damage import compare_damages
from tests.wal.server import BINDIRS

DAMAGES = 500


@pytest.mark.parametrize("version", BINDIRS)
def test_the_same_end_with_the_same_words(version: str) -> None:
    report = compare_damages(int(version), [str(BINDIRS[version] / "pg_waldump")], DAMAGES, seed=1)
    assert report.shown == []
    assert report.damages == DAMAGES
    assert len(report.messages) > 8, "damages of many kinds"
    assert report.messages.total() - report.apart.total() > 0.9 * DAMAGES
