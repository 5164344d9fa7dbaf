"""Standbys that a role without pg_monitor does not see: that they are there is known, and told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from walproof.facts.server import UNSHOWN_STANDBYS
from walproof.observe import watch_queries as queries
from walproof.observe.looking import Looker


class _Server:
    """A session that sees nothing but these walsenders."""

    closed = False
    info = SimpleNamespace(server_version=180004)

    def __init__(self, *walsenders: tuple[Any, ...]) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {
            queries.NOW: [(1_790_000_100.0, False, 1 << 30, 1_790_000_000.0)],
            queries.WHO: [("18.4", 180004)],
            queries.STANDBYS: list(walsenders),
        }

    def execute(self, query: Any, values: object = None) -> Any:
        text = query.decode() if isinstance(query, bytes) else query.as_string(None)
        rows = self._rows.get(text, [])
        return SimpleNamespace(fetchall=lambda: rows, fetchone=lambda: None, description=None)


def walsender(name: str, slot: str | None = None, *, is_logical: bool = False) -> tuple[Any, ...]:
    """The row of one whose state is not shown."""
    return name, 7, None, None, slot, None, None, None, None, None, "running", is_logical, None


@pytest.mark.parametrize(
    ("hidden", "is_lacking"),
    [
        (walsender("db2"), True),
        (walsender("db2", "s2"), True),
        (walsender("walproof", "walproof_123"), False),
        (walsender("walproof"), False),
        (walsender("pg_basebackup"), False),
        (walsender("subscription", "subscription", is_logical=True), False),
    ],
)
def test_a_standby_whose_state_is_not_shown_is_a_lack(hidden: tuple[Any, ...], is_lacking: bool) -> None:
    look = Looker(cast("psycopg.Connection[Any]", _Server(hidden))).look()
    assert look.standbys == ()
    assert look.lacks_of("standbys") == (UNSHOWN_STANDBYS if is_lacking else None)


def test_a_standby_whose_state_is_shown_is_none() -> None:
    shown = ("db2", 7, "streaming", "async", None, 9, 9, 9, 9, 0.1, "running", False, None)
    look = Looker(cast("psycopg.Connection[Any]", _Server(shown))).look()
    assert [standby.name for standby in look.standbys] == ["db2"]
    assert look.lacks_of("standbys") is None
