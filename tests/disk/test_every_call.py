"""Each function that the preloaded library stands in for is called once by itself.

What the disk holds after a cut tells whether the call was seen. ``bench/mutants/mutants.py`` takes the
functions away one at a time: each has to be missed here.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.disk.every_call import CALLS
from tests.disk.exports import exported_functions
from walproof.disk.image import Survival, build_image
from walproof.disk.preload import library
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk

OLD, NEW = b"o" * 10_000, b"n" * 9000 + b"o" * 1000
DURABLE = {"fsync", "fdatasync", "dup", "dup2", "dup3", "sync", "syncfs"}
UNSEEN = {"sendfile", "sendfile64", "splice", "mmap", "mmap64"}
COMMITTING = {"fclose", "sync", "syncfs"}
"""Calls that make the names of others durable, or need a flush that does."""


def _files(call: str) -> dict[str, bytes | None]:
    """What the disk holds of a call's files: what was there before, unless the call makes it durable."""
    return {f"{call}.file": NEW if call in DURABLE else OLD, f"{call}.folder": None}


def _survivors(folder: Path, calls: Sequence[str]) -> tuple[dict[str, bytes | None], tuple[str, ...]]:
    """Make the calls, cut the power; return what the disk holds for certain, and why the run is void."""
    root = folder / "disk"
    root.mkdir()
    (root / "source").write_bytes(b"s" * 10_000)
    for call in calls:
        (root / f"{call}.file").write_bytes(OLD)
        (root / f"{call}.folder").mkdir()
    state = STATE_FOLDER / f"walproof-test-{uuid.uuid4().hex}"
    with SimulatedDisk([root], DiskModel(undo_bytes=64 * 1024**2, writeback_s=None), state) as disk:
        driver = [sys.executable, "-I", "-S", str(Path(__file__).with_name("every_call.py")), *calls]
        done = subprocess.run(driver, cwd=root, env=disk.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        disk.cut()
        disk.settle()
        void = disk.status().void
        if void:
            return {}, void
        build_image(disk, [folder / "nothing"], 1, Survival("nothing"))
    found = {
        path.name: None if path.is_dir() else path.read_bytes() for path in (folder / "nothing").iterdir()
    }
    found.pop("source")
    return found, ()


def test_there_is_a_call_for_each_function() -> None:
    assert set(CALLS) == set(exported_functions(library()))


def test_what_was_not_flushed_is_undone_and_what_was_is_kept(tmp_path: Path) -> None:
    calls = [call for call in CALLS if call not in UNSEEN | COMMITTING]
    found, void = _survivors(tmp_path, calls)
    assert void == ()
    expected = {name: content for call in calls for name, content in _files(call).items()}
    wrong = {
        name for name in found.keys() | expected.keys() if found.get(name, b"-") != expected.get(name, b"-")
    }
    assert sorted(wrong) == []


@pytest.mark.parametrize("call", sorted(COMMITTING))
def test_calls_by_themselves(tmp_path: Path, call: str) -> None:
    assert _survivors(tmp_path, [call]) == (_files(call), ())


@pytest.mark.parametrize("call", sorted(UNSEEN))
def test_what_cannot_be_followed_makes_the_run_void(tmp_path: Path, call: str) -> None:
    found, void = _survivors(tmp_path, [call])
    assert (found, len(void)) == ({}, 1)
    assert "cannot be followed" in void[0]
