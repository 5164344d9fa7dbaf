"""What the end of a run says of PostgreSQL versions, and when that fails it in CI, by runs in a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import versions
from tests.inner import inner_run

INSIDE = """
from tests import versions
import pytest

@pytest.mark.parametrize("version", {versions!r})
def test_something(version):
    versions.note(version)

def test_that_fails():
    versions.note("12.9")
    assert {sound!r}

@pytest.fixture
def made():
    versions.note("14.2")

def test_with_a_fixture(made):
    pass
"""
ALL = ["13.7", "15.18", "16.14", "17.10", "18.4"]


def run(
    folder: Path, covered: list[str], *options: str, sound: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A whole run of tests that use these versions."""
    return inner_run(folder, INSIDE.format(versions=covered, sound=sound), *options, **environment)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_the_end_of_a_run_names_its_versions(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, ALL, *options, CI="true")
    assert "PostgreSQL versions covered: 12.9, 13.7, 14.2, 15.18, 16.14, 17.10, 18.4\n" in done.stdout
    assert "PostgreSQL 19 not covered" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_in_ci_a_version_that_is_missing_fails(tmp_path: Path) -> None:
    done = run(tmp_path, ["13.7", "15.18", "16.14", "18.4"], CI="true")
    assert "PostgreSQL 17 not covered: no test ran on it\n" in done.stdout
    assert done.returncode == 1


def test_elsewhere_it_is_said_only(tmp_path: Path) -> None:
    done = run(tmp_path, ["13.7", "18.4"])
    assert "PostgreSQL 15 not covered" in done.stdout
    assert done.returncode == 0


def test_a_part_of_the_tests_covers_what_it_covers(tmp_path: Path) -> None:
    done = run(tmp_path, ["18.4"], "-k", "something", CI="true")
    assert "PostgreSQL versions covered: 18.4\n" in done.stdout
    assert "not covered" not in done.stdout
    assert done.returncode == 0


def test_a_test_that_fails_covers_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, ALL, sound=False)
    assert "PostgreSQL versions covered: 13.7, 14.2" in done.stdout
    assert done.returncode == 1


def test_13_7_is_wanted_exactly_and_the_others_by_their_major() -> None:
    assert list(versions.missing(["13.23", "15.1", "16.0", "17.12", "18.6", "19rc1"])) == ["13.7"]
    assert [name for name in versions.missing(["19rc1"]) if name != "19"] == list(versions.WANTED)


def test_of_several_versions_the_oldest_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "EVERY", False)
    assert [versions.ends(ALL[:count]) for count in (0, 1, 2)] == [[], ["13.7"], ["13.7", "15.18"]]
    assert versions.ends(ALL) == ["13.7", "18.4"]
    assert [versions.newest(found) for found in ([], ALL)] == [[], ["18.4"]]
    monkeypatch.setattr(versions, "EVERY", True)
    assert versions.ends(ALL) == versions.newest(ALL) == ALL


def test_in_ci_servers_that_are_always_there_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "18").mkdir()
    (tmp_path / "18/postgres").touch()
    (tmp_path / "15").mkdir()
    monkeypatch.setattr(versions, "ALWAYS", {"18": tmp_path / "18", "15": tmp_path / "15"})
    monkeypatch.delenv("CI", raising=False)
    assert versions.bindirs() == {"18": tmp_path / "18"}
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match=r"no PostgreSQL 15 at .*/15 \(postgresql-15\)"):
        versions.bindirs()
