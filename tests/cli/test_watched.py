"""The servers of one watch, without servers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.analysis.watch.test_upstreams import primary, standby, walsender
from tests.cli.test_watch_settle import Clock
from walproof.cli.watch_order import PairOrder, ServerOrder, WatchOrder
from walproof.cli.watched import Fleet, WatchedServer
from walproof.errors import ProbeError
from walproof.observe import leaving
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


class Hanging:
    """A thread that waits for a dead network."""

    def __init__(self, clock: Clock, stopped: list[Hanging]) -> None:
        self._clock, self._stopped = clock, stopped

    def stop(self) -> None:
        self._stopped.append(self)

    def join(self, patience_s: float) -> None:
        assert len(self._stopped) == 5, "all are told to end before one is waited for"
        self._clock.now_s += patience_s


def test_servers_that_hang_are_left_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check has a bound, whatever the number of servers."""
    orders = tuple(ServerOrder(f"host=db{number}", streams=False) for number in range(5))
    fleet, clock = Fleet(WatchOrder(orders)), Clock()
    stopped: list[Hanging] = []
    monkeypatch.setattr(leaving, "time", clock)
    for server in fleet.servers:
        monkeypatch.setattr(server, "_watcher", Hanging(clock, stopped))
    fleet.__exit__()
    assert clock.now_s <= 3.0
