"""Fixtures that every package's tests share, and the rule that CI skips nothing.

``install`` runs a test on every PostgreSQL that the machine has (``tests.versions``), one per major version,
unless a mark says otherwise: ``@pytest.mark.pg(">= 16")``; ``ends=True`` keeps the oldest and the newest of
them, for what the versions between do not differ in, and ``newest=True`` the newest alone, for what takes
long and whose SQL other tests try on the oldest (``make check-long`` runs both on all). There is always the
embedded one, so no live test is ever skipped for want of a server.
"""

from __future__ import annotations

import gc
import operator
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import declared, needs, rights, spreading, versions
from walproof.facts import Install
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

if TYPE_CHECKING:
    from tests.workload.loading.judge import Judge
    from walproof.advise.tune.judge import RecordedJudge

# Commands print as they do where nobody has asked Python for anything: into a buffer.
os.environ.pop("PYTHONUNBUFFERED", None)
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Commands are started a thousand times, and compiling walproof takes a quarter of a short one. Nothing is
    # written beside the sources.
    os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    )

if (_USER := server_user()) is not None:
    # For all workers and commands of this run the same, whatever another of them runs as that user.
    os.environ["WALPROOF_SERVER_USER"] = _USER.name

rights.watch()
declared.watch()
gc.set_threshold(50_000)

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


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
    programs = tuple(str(mark.kwargs["program"]) for mark in marks if "program" in mark.kwargs)
    chosen = [
        install
        for install in versions.installs(programs)
        if all(_meets(condition, install.version_num // 10000) for condition in conditions)
    ]
    if any(mark.kwargs.get("newest") for mark in marks):
        chosen = versions.newest(chosen)
    elif any(mark.kwargs.get("ends") for mark in marks):
        chosen = versions.ends(chosen)
    metafunc.parametrize("install", chosen, ids=[install.version for install in chosen], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start servers come first, so that no worker is left with a long one at the end."""
    live = {item.path for item in items if item.get_closest_marker("live")}
    items.sort(key=lambda item: item.path not in live)


def pytest_collection_finish() -> None:
    """Tests live to the end: no collection need look through them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failure, and so is one that is expected to fail: neither must hide that
    something was not tested. What a machine may lack all the same is listed in tests/needs.py."""
    item.user_properties += [*versions.noted(), *needs.noted()]
    report = yield
    if os.environ.get("CI") and report.skipped and not needs.is_said(report):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
        vars(report).pop("wasxfail", None)  # with it, a failure would not count as one
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before workers look for what is there."""
    if not hasattr(session.config, "workerinput"):
        spreading.spread()
    if versions.is_whole(session.config):
        versions.fetch_missing()


def _reports(config: pytest.Config, outcome: str) -> list[pytest.TestReport]:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    assert terminal is not None
    found: list[pytest.TestReport] = terminal.getreports(outcome)
    return found


def _covered(config: pytest.Config) -> list[str]:
    return versions.covered(_reports(config, "passed"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a whole run fails that did not cover a version which it should."""
    expected = os.environ.get("CI") and versions.is_whole(session.config)
    if expected and session.exitstatus == pytest.ExitCode.OK and versions.missing(_covered(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the run did not test; which versions it covered, and of a whole run which it did not."""
    for lack in needs.told(_reports(config, "xfailed")):
        terminalreporter.write_line(f"not tested: {lack}", yellow=True)
    if there := _covered(config):
        terminalreporter.write_line(f"PostgreSQL versions covered: {', '.join(there)}")
    if versions.is_whole(config):
        for version, reason in versions.missing(there).items():
            terminalreporter.write_line(f"PostgreSQL {version} not covered: {reason}", red=True)
        if not versions.has_19():
            terminalreporter.write_line(
                "PostgreSQL 19 not covered: there is none here (WALPROOF_TEST_PG19 names a folder)"
            )


@pytest.fixture(autouse=True)
def _no_overreach() -> Iterator[None]:
    """No test makes walproof change something as root where another user could lead it elsewhere."""
    rights.overreached.clear()
    yield
    assert not rights.overreached, "\n".join(rights.overreached)


@pytest.fixture(autouse=True)
def _only_declared() -> Iterator[None]:
    """No fact is made with a metric or series that the table does not declare."""
    declared.undeclared.clear()
    yield
    assert not declared.undeclared, "\n".join(dict.fromkeys(declared.undeclared))


@pytest.fixture(scope="session", autouse=True)
def _only_declared_is_stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same of what commands stored, which tests started as processes of their own."""
    yield
    found = list(declared.stored_below(tmp_path_factory.getbasetemp()))
    assert not found, "\n".join(found)


@pytest.fixture
def install(request: pytest.FixtureRequest) -> Install:
    """An install that the server's user can reach; see the module's docstring."""
    chosen: Install = request.param
    versions.note(chosen.version)
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
    found = reachable_install(find("embedded"), server_user())
    versions.note(found.version)
    return found


@pytest.fixture(scope="session")
def work() -> Path:
    """Folder of templates that all test runs share, so that initdb runs once per version."""
    return cache_folder("tests")


@pytest.fixture(scope="module")
def judge(embedded: Install, work: Path) -> Iterator[Judge]:
    """psql, and a server that it talks to, which the tests of a file may change."""
    from tests.workload.loading.judge import open_judge

    with open_judge(embedded, work) as opened:
        yield opened


@pytest.fixture(scope="session")
def own_judge(tmp_path_factory: pytest.TempPathFactory) -> RecordedJudge:
    """What predicts candidates from golden WAL, with a disk of 30 GB for theirs."""
    from tests.advise.tune.recorded import NOTHING, judge

    return judge(tmp_path_factory.mktemp("recording"), replace(NOTHING, wal_disk_bytes=30 << 30))


@pytest.fixture
def workspace(work: Path) -> Iterator[Workspace]:
    """A workspace of this test."""
    with Workspace(work, server_user()) as opened:
        yield opened
