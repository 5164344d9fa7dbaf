"""The locks cover what pyproject.toml asks for, by hash, and make installs by nothing else."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Iterable, Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply import locks

EXTRAS = tuple(locks.PROJECT["project"]["optional-dependencies"])


@pytest.mark.parametrize("name", ["run", "dev", "build", "audit", "wheel", "docs"])
def test_a_lock_is_names_versions_and_hashes(name: str) -> None:
    """No address of an index above all: whose packages are taken is whoever installs' own choice."""
    pins = locks.pins(name)
    assert pins
    assert all(pin.version for pin in pins.values())
    assert "://" not in locks.text(name)


@pytest.mark.parametrize(("name", "extras"), [("run", ()), ("dev", EXTRAS)])
def test_locks_have_what_is_declared(name: str, extras: tuple[str, ...]) -> None:
    pins = locks.pins(name)
    wanted = locks.declared(*extras)
    assert len(wanted) >= 12
    for requirement in wanted:
        pin = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.version), requirement


def _needed(wanted: Iterable[Requirement]) -> set[str]:
    """Names of everything that is installed for ``wanted``, by what the installed packages declare."""
    seen: set[tuple[str, str]] = set()

    def visit(requirements: Iterable[Requirement], extra: str) -> Iterator[None]:
        for requirement in requirements:
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            for one in {"", *requirement.extras}:
                if (name, one) not in seen:
                    seen.add((name, one))
                    told = importlib.metadata.requires(name) or []
                    yield from visit([Requirement(text) for text in told], one)

    list(visit(wanted, ""))
    return {name for name, _ in seen}


@pytest.mark.parametrize(("name", "extras"), [("run", ()), ("dev", EXTRAS)])
def test_locks_have_what_that_needs_in_turn_and_nothing_else(name: str, extras: tuple[str, ...]) -> None:
    here = {package for package, pin in locks.pins(name).items() if pin.is_for_here}
    assert here == _needed(locks.declared(*extras))


def test_runs_are_tested_with_what_is_locked_for_them() -> None:
    dev = locks.pins("dev")
    assert {name: dev[name].version for name in locks.pins("run")} == {
        name: pin.version for name, pin in locks.pins("run").items()
    }


def test_build_tools_are_pinned_where_pip_reads_them_too() -> None:
    """pip builds in a place of its own with what pyproject.toml asks for: the lock's versions."""
    asked = [Requirement(text) for text in locks.PROJECT["build-system"]["requires"]]
    assert {one.name: str(one.specifier) for one in asked} == {
        name: f"=={pin.version}" for name, pin in locks.pins("build").items()
    }
    for module in locks.PROJECT["tool"]["setuptools-rust"]["ext-modules"]:
        assert module["cargo-manifest-args"] == ["--locked"]


def test_make_installs_by_hash_alone() -> None:
    """Every install that make would do on a new machine is by a lock, or of walproof and nothing else."""
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", "test", "audit"],
        cwd=locks.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    installs = re.findall(r"pip install .*", told.stdout)
    assert len(installs) == 3
    (own,) = [line for line in installs if "--no-deps --no-build-isolation -e ." in line]
    for line in installs:
        if line != own:
            assert "--require-hashes --only-binary :all:" in line
            files = re.findall(r"-r (\S+)", line)
            assert files
            assert all(re.fullmatch(r"requirements/\w+\.txt", file) for file in files)
            assert not re.search(r"install [^-]|\.txt [^-]", line), line
