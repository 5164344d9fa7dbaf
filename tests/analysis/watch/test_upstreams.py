"""Which server a standby follows, from what both sides show of the walsender between them."""

from __future__ import annotations

from dataclasses import replace

from tests.watching import Server
from walproof.analysis.watch.upstreams import Followed, still_served, upstreams
from walproof.facts.watch import WatchedReceiver, WatchedStandby, WatchLook


def walsender(pid: int, name: str = "walreceiver", slot: str | None = None) -> WatchedStandby:
    return WatchedStandby(name, pid, "streaming", "async", slot, 1, 1, 1, 1, 0.1, "running")


def primary(*walsenders: WatchedStandby, port: str = "5432") -> WatchLook:
    look = Server().look(0)
    return replace(look, standbys=walsenders, settings={**look.settings, "port": port})


def standby(
    *walsenders: WatchedStandby, name: str = "walreceiver", slot: str | None = None,
    streams_from: int | None = 5432, port: str = "5432",
) -> WatchLook:  # fmt: skip
    receiver = WatchedReceiver(name, slot, streams_from)
    return replace(primary(*walsenders, port=port), is_in_recovery=True, receiver=receiver)


def test_a_cascade_of_which_all_have_the_default_name() -> None:
    looks = [standby(), primary(walsender(1)), standby(walsender(2))]
    assert upstreams(looks) == (Followed(2, True, 2), None, Followed(1, True, 1))


def test_a_slot_tells_more_than_a_name_and_a_port_more_than_nothing() -> None:
    looks = [
        primary(walsender(1, slot="a"), walsender(2, slot="b"), walsender(3)),
        standby(walsender(4), slot="a", port="5433"),
        standby(streams_from=5433),
        standby(slot="b"),
        standby(streams_from=5432),
    ]
    assert upstreams(looks) == (
        None, Followed(0, True, 1), Followed(1, True, 4), Followed(0, True, 2), Followed(0, True, 3),
    )  # fmt: skip


def test_a_standby_without_walsender_is_compared_with_its_primary() -> None:
    looks = [primary(), standby(streams_from=None), None, replace(standby(), system_identifier="2")]
    assert upstreams(looks) == (None, Followed(0, False), None, None)


def test_who_decodes_a_logical_slot_is_no_standby() -> None:
    subscriber = replace(walsender(1, "sub", "sub"), is_logical=True)
    assert upstreams([primary(subscriber), standby(name="sub")]) == (None, Followed(0, False))


def test_a_standby_that_streams_on_keeps_its_name_while_it_does_not_answer() -> None:
    """One whose logins are refused has no look; nobody else takes its walsender."""
    names = ["db1", "db2", "db3"]
    before: list[dict[int, str]] = [{1: "db2", 2: "db3"}, {}, {}]
    up = primary(walsender(1), walsender(2))
    silent = [up, None, standby()]
    kept = still_served(silent, names, before)
    assert kept == [{1: "db2"}, {}, {}]
    assert upstreams(silent, {(0, 1)}) == (None, None, Followed(0, True, 2))
    assert still_served([up, standby(), standby()], names, before) == [{}, {}, {}]
    assert still_served([primary(walsender(2)), None, standby()], names, before) == [{}, {}, {}]
    assert still_served([None, standby(), standby()], names, before) == before
