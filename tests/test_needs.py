"""What a test that could not run makes of a run, in CI and elsewhere, by runs in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.inner import inner_run

INSIDE = """
import pytest
from tests import needs

@pytest.mark.parametrize("number", [1, 2])
def test_that_lacks_perf(number):
    needs.lacking("perf", "perf is not installed")

@pytest.fixture
def root():
    needs.lacking("root", "another user's file cannot be made")

def test_that_lacks_root(root):
    pass

def test_that_expects_to_fail():
    pytest.xfail("why not")

def test_that_is_skipped():
    pytest.skip("another time")
"""
TOLD = ("not tested: perf: perf is not installed (2 tests)\n"
        "not tested: root: another user's file cannot be made (1 test)\n")  # fmt: skip


def test_in_ci_what_is_not_named_fails(tmp_path: Path) -> None:
    """Reports come from other processes here; below, from the one that leads the run."""
    done = inner_run(tmp_path, INSIDE, "-n", "2", CI="true")
    assert TOLD in done.stdout
    assert "2 failed, 3 xfailed" in done.stdout
    assert "skipped in CI" in done.stdout
    assert done.returncode == 1


def test_in_ci_what_is_named_is_told(tmp_path: Path) -> None:
    done = inner_run(tmp_path, INSIDE, "-k", "lacks", CI="true")
    assert TOLD in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_elsewhere_nothing_fails(tmp_path: Path) -> None:
    done = inner_run(tmp_path, INSIDE)
    assert TOLD in done.stdout
    assert "1 skipped, 4 xfailed" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_what_is_listed_may_be_lacking() -> None:
    with pytest.raises(AssertionError, match="time: only what tests may lack"):
        needs.lacking("time", "it is late")
