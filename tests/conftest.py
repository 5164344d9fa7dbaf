"""Fixtures that every package's tests share, and the rule that CI skips nothing.

``install`` runs a test on every PostgreSQL that the machine has, one per major version, unless a mark says
otherwise: ``@pytest.mark.pg(">= 16")``. There is always the embedded one, so no live test is ever skipped
for want of a server.
"""

from __future__ import annotations

import operator
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import rights
from walproof.facts import Install
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

rights.watch()

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@cache
def _one_install_per_major() -> tuple[Install, ...]:
    found: dict[int, Install] = {}
    for install in discover():
        found.setdefault(install.version_num // 10000, install)
    return tuple(found[major] for major in sorted(found))


def _meets(condition: str, major: int) -> bool:
    match = re.fullmatch(r"(>=|<=|==|>|<)\s*(\d+)", condition)
    assert match is not None, f"pg mark: {condition!r}"
    return bool(_COMPARE[match[1]](major, int(match[2])))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``install`` on each install that its ``pg`` marks allow."""
    if "install" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("pg"))
    conditions = [str(condition) for mark in marks for condition in mark.args]
    programs = [str(mark.kwargs["program"]) for mark in marks if "program" in mark.kwargs]
    chosen = [
        install
        for install in _one_install_per_major()
        if all(_meets(condition, install.version_num // 10000) for condition in conditions)
        and all((Path(install.bindir) / program).exists() for program in programs)
    ]
    metafunc.parametrize("install", chosen, ids=[install.version for install in chosen], indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """In CI a skipped test is a failure: a skip must never hide that something was not tested."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):  # type: ignore[attr-defined]
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = f"skipped in CI: {report.longrepr}"  # type: ignore[attr-defined]
    return report


@pytest.fixture(autouse=True)
def _no_overreach() -> Iterator[None]:
    """No test makes walproof change something as root where another user could lead it elsewhere."""
    rights.overreached.clear()
    yield
    assert not rights.overreached, "\n".join(rights.overreached)


@pytest.fixture
def install(request: pytest.FixtureRequest) -> Install:
    """An install that the server's user can reach; see the module's docstring."""
    chosen: Install = request.param
    return reachable_install(chosen, server_user())


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that everyone may enter: pytest's own is private."""
    folder = Path(tempfile.mkdtemp(prefix="walproof-tests-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def embedded() -> Install:
    """The embedded PostgreSQL, reachable."""
    return reachable_install(find("embedded"), server_user())


@pytest.fixture(scope="session")
def work() -> Path:
    """Folder of templates that all test runs share, so that initdb runs once per version."""
    return cache_folder("tests")


@pytest.fixture
def workspace(work: Path) -> Iterator[Workspace]:
    """A workspace of this test."""
    with Workspace(work, server_user()) as opened:
        yield opened
