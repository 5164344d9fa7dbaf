"""One of a thing is said as one."""

from __future__ import annotations

from dataclasses import replace

from tests.watching import Server, clock, view
from walproof.facts.watch import WatchedSubscription
from walproof.report.figures.wal_rate import WalMinute, WalRateData
from walproof.report.watch.panels import panels
from walproof.report.watch.view import ServerView


def _with_errors(count: int) -> ServerView:
    calm = view(Server(), crash=clock(20.0))
    assert calm.seen.look is not None
    subscription = WatchedSubscription("s", True, "s", True, None, count)
    look = replace(calm.seen.look, subscriptions=(subscription,))
    return replace(calm, seen=replace(calm.seen, look=look))


def test_a_subscription_with_one_error() -> None:
    said = [panels(_with_errors(count))[-1] for count in (1, 2)]
    assert [(panel.label, panel.remark) for panel in said] == [
        ("subscription s", "1 error"), ("subscription s", "2 errors"),
    ]  # fmt: skip


def test_one_checkpoint_among_the_minutes() -> None:
    minutes = tuple(WalMinute(60.0 * at, 1 << 20, 0) for at in range(3))
    assert "over 3 minutes: " in WalRateData(minutes, ()).describe()
    assert WalRateData(minutes, (70.0,)).describe().endswith("; 1 checkpoint.")
