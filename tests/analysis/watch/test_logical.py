"""Consumers of logical slots: what they have not confirmed, for how long, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import BEGAN, MB, START, Server, assessor, concerns
from walproof.advise.watch.concern import Severity, Thresholds
from walproof.analysis.watch.assessment import Assessment
from walproof.facts.watch import WatchedSlot, WatchedStandby, WatchedSubscription, WatchLook


def look(second: int, confirmed_share: float, wait: str = "Client/WalSenderWriteData") -> WatchLook:
    """2 MB of WAL a second, of which the consumer confirms a share."""
    found = Server(standby=lambda lsn, second: None).look(second)
    confirmed = START + int(2 * MB * second * confirmed_share)
    slot = WatchedSlot(
        "etl", "logical", True, False, confirmed - MB, "reserved", None, None, "shop", confirmed, 9
    )
    sender = WatchedStandby("etl_app", 9, "streaming", "async", "etl", confirmed, confirmed, confirmed,
                            confirmed, 0.1, wait, is_logical=True)  # fmt: skip
    return replace(found, slots=(slot,), standbys=(sender,))


def watched(looks: list[WatchLook]) -> Assessment:
    found = assessor()
    found.see(looks)
    return found.assess(looks[-1].seen_s, BEGAN)


def test_a_consumer_that_keeps_up_is_no_standby_and_no_concern() -> None:
    seen = watched([look(second, 1.0) for second in range(30)])
    (state,) = seen.logical
    assert state.keeps_up
    assert state.consumer == "etl_app"
    assert state.held_bytes == MB
    assert seen.standbys == ()
    assert concerns(seen) == ()


def test_a_consumer_that_falls_behind_is_named_with_what_was_seen() -> None:
    seen = watched([look(second, 0.5) for second in range(41)])
    (state,) = seen.logical
    assert state.behind_bytes == 40 * MB
    assert state.behind_s == pytest.approx(20.0, abs=1.0)
    assert state.growth_bytes_per_s == pytest.approx(MB)
    assert state.catch_up_s is None
    (concern,) = concerns(seen)
    assert concern.key == "logical etl"
    assert "more slowly than they are made" in concern.sentence
    (late,) = concerns(seen, Thresholds(lag_critical_s=15.0))
    assert late.severity is Severity.CRITICAL


def test_a_consumer_may_be_later_than_looks_are_kept() -> None:
    (state,) = watched([look(second, 0.25) for second in range(0, 4001, 10)]).logical
    assert state.behind_s == pytest.approx(3000, abs=60)
    assert not state.is_least


@pytest.mark.parametrize(
    ("confirmed", "said"),
    [
        (0, "holds more than max_wal_size because of an open transaction"),
        (1900 * MB, 'The consumer of slot "etl" is late'),
    ],
)
def test_a_slot_that_is_held_by_an_open_transaction_has_no_late_consumer(confirmed: int, said: str) -> None:
    looks = []
    for second in range(30):
        seen_look = look(second, 1.0)
        assert seen_look.lsn is not None
        held = replace(seen_look.slots[0], restart=START - 2000 * MB, confirmed=seen_look.lsn - confirmed)
        looks.append(replace(seen_look, slots=(held,)))
    (concern,) = (concern for concern in concerns(watched(looks)) if concern.key == "slot etl")
    assert said in concern.sentence
    assert ("pg_prepared_xacts" in concern.advice[0]) is (confirmed == 0)


def test_what_is_not_explained_is_said_to_be() -> None:
    seen = watched([look(second, 0.5, "Lock/transactionid") for second in range(41)])
    (concern,) = concerns(seen)
    assert "what was seen does not say why" in concern.sentence
    assert any("Lock/transactionid" in line for line in concern.evidence)


def test_a_consumer_that_catches_up_soon_is_no_concern() -> None:
    behind = [look(second, 0.5) for second in range(41)]
    late = behind[-1].slots[0].confirmed
    assert late is not None
    rest = []
    for second in range(41, 102):
        seen_look = look(second, 0.0)
        assert seen_look.lsn is not None
        confirmed = min(seen_look.lsn, late + (second - 40) * 5 * MB // 2)
        rest.append(
            replace(seen_look, slots=(replace(seen_look.slots[0], confirmed=confirmed, restart=confirmed),))
        )
    seen = watched([*behind, *rest])
    (state,) = seen.logical
    assert state.catch_up_s is not None
    assert state.catch_up_s == pytest.approx(state.behind_bytes / (MB / 2), rel=0.1)


@pytest.mark.parametrize(
    ("subscription", "said"),
    [
        (WatchedSubscription("s", True, "s", True, 1.0, 0), None),
        (WatchedSubscription("s", False, "s", False, None, 0), "is disabled"),
        (WatchedSubscription("s", True, "s", False, None, 7), "No worker runs"),
        (WatchedSubscription("s", True, "s", True, 90.0, None), "hears nothing"),
    ],
)
def test_subscriptions_that_apply_nothing(subscription: WatchedSubscription, said: str | None) -> None:
    looks = [replace(Server().look(second), subscriptions=(subscription,)) for second in range(12)]
    found = concerns(watched(looks))
    assert [concern.key for concern in found] == ([] if said is None else ["subscription s"])
    assert said is None or said in found[0].sentence


@pytest.mark.parametrize(("timeout", "is_missed"), [("1min", True), ("5min", False), ("0", False)])
def test_a_quiet_publisher_is_missed_after_the_workers_own_time(timeout: str, is_missed: bool) -> None:
    """A worker to whom nothing is sent asks after half of wal_receiver_timeout, and never where that is 0."""
    quiet = WatchedSubscription("s", True, "s", True, 150.0, None)
    look = replace(Server().look(0), subscriptions=(quiet,))
    settings = {**look.settings, "wal_receiver_timeout": timeout}
    assert bool(concerns(watched([replace(look, settings=settings)]))) == is_missed


def test_subscriptions_of_one_name_are_judged_each_by_itself() -> None:
    """The worker of the one database is none of the other's."""
    both = (
        WatchedSubscription("s", True, "s", True, None, 0, 1),
        WatchedSubscription("s", True, "s", False, None, 0, 2),
    )
    looks = [replace(Server().look(second), subscriptions=both) for second in range(12)]
    (concern,) = concerns(watched(looks))
    assert concern.key == "subscription s (2)"
    assert "No worker runs" in concern.sentence


def test_a_subscription_keeps_its_name_in_what_is_to_be_run() -> None:
    odd = WatchedSubscription('a" SKIP', False, None, False, None, 0)
    (concern,) = concerns(watched([replace(Server().look(0), subscriptions=(odd,))]))
    assert concern.advice == ('ALTER SUBSCRIPTION "a"" SKIP" ENABLE; or drop it.',)


def test_a_worker_that_is_seen_now_and_then_works() -> None:
    def one(second: int) -> WatchedSubscription:
        return WatchedSubscription("s", True, "s", second % 6 == 0, None, second)

    looks = [replace(Server().look(second), subscriptions=(one(second),)) for second in range(20)]
    assert concerns(watched(looks)) == ()
