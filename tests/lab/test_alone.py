"""One process at a time, whoever asks; tests/live/test_interruption.py starts a second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from walproof.errors import StoreError, StudyError
from walproof.lab.alone import alone


def test_who_comes_second_is_refused(tmp_path: Path) -> None:
    lock, doing = tmp_path / "tunings" / "shop" / ".lock", 'carrying out tuning "shop"'
    for _ in range(2):
        with alone(lock, doing):
            assert lock.exists()
            with pytest.raises(StudyError, match=f"^another walproof is {doing}$"), alone(lock, doing):
                pytest.fail("two at a time")
        assert not lock.exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    closed = alone(tmp_path / "file" / ".lock", "running")
    with pytest.raises(StoreError, match="could not write in folder") as refused, closed:
        pytest.fail("nothing to lock")
    assert refused.value.hint == "Name another folder with --out."
