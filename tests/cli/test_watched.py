"""The servers of one watch, without servers."""

from __future__ import annotations

import pytest

from tests.analysis.watch.test_upstreams import primary, standby, walsender
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet, WatchedServer


def test_a_view_has_the_name_of_a_standby_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(WatchOrder(tuple(ServerOrder(f"host={name}", name=name) for name in ("db1", "db2"))))
    monkeypatch.setattr(WatchedServer, "watch_standby", lambda *_: None)
    monkeypatch.setattr(WatchedServer, "take", lambda *_: None)
    up, other = fleet.servers
    up.look, other.look = primary(walsender(1)), standby()
    fleet.views()
    other.look = None
    fleet.views()
    assert up.walsenders == {1: "db2"}
