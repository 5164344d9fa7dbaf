"""Watches, in all tests, that facts hold declared metrics and series only (``walproof.facts.metrics``).

In this process every observation, trial and series is looked at when it is made. Commands that tests start
are processes of their own: what they stored is looked at when the tests are over.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from walproof.facts import Series, Trial
from walproof.facts.metrics import Form, is_declared
from walproof.probe.protocol import Observation

undeclared: list[str] = []
"""What was made with a name that the table lacks, since the list was emptied."""


def watch() -> None:
    """Begin, for the rest of the process."""
    for made in (Observation, Trial, Series):
        original = made.__init__

        @functools.wraps(original)
        def init(self: object, *args: object, _original: object = original, **fields: object) -> None:
            _original(self, *args, **fields)  # type: ignore[operator]
            undeclared.extend(f"{type(self).__name__}: {name}" for name in _missing(self))

        made.__init__ = init  # type: ignore[method-assign]


def stored_below(folder: Path) -> Iterator[str]:
    """``store: name`` of each undeclared name in the stores below a folder."""
    for path in sorted(folder.rglob("*.sqlite")):
        with closing(sqlite3.connect(path)) as store:
            try:
                tables = {row[0] for row in store.execute("SELECT name FROM sqlite_master")}
            except sqlite3.DatabaseError:
                continue  # a test's own damage: nothing is stored in it
            if {"metric", "series"} <= tables:
                metrics = (row[0] for row in store.execute("SELECT DISTINCT name FROM metric"))
                series = (row[0] for row in store.execute("SELECT DISTINCT name FROM series"))
                yield from (f"{path}: {name}" for name in _undeclared(metrics, Form.METRIC))
                yield from (f"{path}: {name}" for name in _undeclared(series, Form.SERIES))


def _missing(fact: object) -> Iterator[str]:
    if isinstance(fact, Series):
        yield from _undeclared([fact.name], Form.SERIES)
    elif isinstance(fact, Trial):
        yield from _undeclared(fact.metrics, Form.METRIC)
    elif isinstance(fact, Observation):
        yield from _undeclared(fact.metrics, Form.METRIC)
        yield from _undeclared(fact.series, Form.SERIES)


def _undeclared(names: Iterable[str], form: Form) -> Iterator[str]:
    return (name for name in names if not is_declared(name, form))
