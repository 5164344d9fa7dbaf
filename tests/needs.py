"""What a machine may lack that some tests need, and how such a test says so.

In CI a skip fails, and so does ``pytest.xfail``. What stands in ``MAY_LACK`` is the exception: a test that
needs it ends by ``lacking``, and the end of the run says what was not tested, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NoReturn

import pytest

from walproof.sentences import say_count

MAY_LACK = {
    "root": "anybody may run the tests",
    "a Python of the servers' user": "one below a private folder is run by nobody else",
    "kernel audit": "few containers may use it, and auditd is not among what tests install",
    "a limit on reads": "a container's control groups may not be writable",
    "perf": "it belongs to the kernel, and a container's is its host's",
    "kernel stacks": "not every kernel shows them",
    "mvn": "npm fetches PostgreSQL, too",
    "npm": "mvn fetches PostgreSQL, too",
}
"""What tests may go without, in CI as well, and why it is not sure to be there."""
PROPERTY = "lacking"
"""The name under which a test's report holds what it lacked."""

_noted: list[str] = []


def lacking(what: str, found: str) -> NoReturn:
    """End the test: the machine lacks that, as ``found`` says."""
    assert what in MAY_LACK, f"{what}: only what tests may lack"
    _noted.append(f"{what}: {found}")
    pytest.xfail(_noted[-1])


def noted() -> Iterator[tuple[str, str]]:
    """What was noted since the last call, as properties of a report."""
    while _noted:
        yield PROPERTY, _noted.pop()


def is_said(report: pytest.TestReport) -> bool:
    """Whether a test that did not run to its end ended by ``lacking``."""
    return hasattr(report, "wasxfail") and PROPERTY in dict(report.user_properties)


def told(reports: Iterable[pytest.TestReport]) -> list[str]:
    """What the tests of these reports lacked, and how many of them did."""
    found = Counter(
        str(value) for report in reports for name, value in report.user_properties if name == PROPERTY
    )
    return [f"{lack} ({say_count(count, 'test')})" for lack, count in sorted(found.items())]
