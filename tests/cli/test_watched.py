"""The servers of one watch, without servers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.analysis.watch.test_upstreams import primary, standby, walsender
from walproof.cli.watch_order import PairOrder, ServerOrder, WatchOrder
from walproof.cli.watched import Fleet, WatchedServer
from walproof.errors import ProbeError
from walproof.settings.session import PATIENCE_S


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


def test_a_pair_that_has_given_no_window_yet_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between distant servers the first one takes longer than its own length."""
    fleet = Fleet(WatchOrder((ServerOrder("host=db1"), ServerOrder("host=db2")), pair=PairOrder()))
    waited: list[float] = []
    pair = SimpleNamespace(
        window=None, error=None, wait=lambda known, patience_s: waited.append(patience_s)
    )  # fmt: skip
    monkeypatch.setattr(fleet, "_pair", pair)
    fleet.wait_for_pair()
    assert waited == [2.0 + PATIENCE_S]
    with pytest.raises(ProbeError, match="no window yet"):
        fleet.check_pair()
    pair.window = object()
    fleet.check_pair()
