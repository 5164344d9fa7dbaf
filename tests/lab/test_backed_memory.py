"""Memory is touched, mostly free again meanwhile, and all free afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from walproof.lab.recovery import backed_memory as module
from walproof.lab.recovery.backed_memory import backed_memory, on_processor

SIZE = 64 << 20


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_a_sixteenth_of_it_is_kept_until_the_end() -> None:
    before, processors = _resident(), os.sched_getaffinity(0)
    with backed_memory(SIZE) as memory:
        kept = _resident() - before
        assert memory.touch_us > 0
        assert memory.processor in processors
        assert os.sched_getaffinity(0) == processors
        assert kept == pytest.approx(SIZE / 16, abs=SIZE / 64)
    assert _resident() - before < SIZE / 64


def test_half_of_what_is_available_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: SIZE)
    before = _resident()
    with backed_memory(1 << 50):
        assert _resident() - before == pytest.approx(SIZE / 2 / 16, abs=SIZE / 128)


def test_nothing_is_touched_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: 0)
    with backed_memory(SIZE) as memory:
        assert memory.touch_us == 0


def test_what_is_started_stays_on_the_processor() -> None:
    before, chosen = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    with on_processor(chosen):
        child = subprocess.Popen(["sleep", "60"])
    try:
        assert os.sched_getaffinity(child.pid) == {chosen}
        assert os.sched_getaffinity(0) == before
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("limit", "used", "expected"), [("1000000", "400000", 600_000), ("10", "400000", 0), ("max", "5", None)]
)
def test_a_limit_of_a_container_counts(tmp_path: Path, limit: str, used: str, expected: int | None) -> None:
    (tmp_path / "memory.max").write_text(limit + "\n")
    (tmp_path / "memory.current").write_text(used + "\n")
    found = module.available_memory(tmp_path)
    if expected is None:
        assert found > SIZE, "this machine has more than that"
    else:
        assert found == expected
