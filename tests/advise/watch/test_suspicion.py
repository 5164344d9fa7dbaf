"""One short look, as of a monitoring system, is taken for longer where there is a hint of a concern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.advise.watch.test_concerns import storm
from tests.watching import MB, SEGMENT, START, Server, assessed, concerns, gone, slot, standby
from walproof.advise.watch.concern import Thresholds
from walproof.advise.watch.suspicion import is_suspected
from walproof.analysis.watch.logical import LogicalState
from walproof.facts.transactions import SynchronousWait

LIMITS = Thresholds()


@pytest.mark.parametrize(
    ("server", "room_bytes", "key", "settled_s"),
    [
        (Server(slots=[slot("etl", is_active=True)]), 100 * SEGMENT, "pg_wal full", 10),
        (Server(wal_bytes_per_s=200 * MB, archived_share=0.5), None, "archiver", 20),
    ],
    ids=["room", "archive"],
)
def test_a_short_look_suspects_what_only_a_longer_one_names(
    server: Server, room_bytes: int | None, key: str, settled_s: int
) -> None:
    for seconds in (2, settled_s - 1):
        seen = assessed(server, seconds, room_bytes)
        assert key not in {concern.key for concern in concerns(seen)}
        assert is_suspected(seen, None, LIMITS)
    seen = assessed(server, settled_s, room_bytes)
    assert key in {concern.key for concern in concerns(seen)}
    assert not is_suspected(seen, None, LIMITS)


def test_a_short_look_suspects_a_storm() -> None:
    seen = assessed(Server())
    raging, calm = storm("index", 0.8), storm("table", 0.8)
    assert raging.recent_s >= 10
    for recent_s, hints in ((0.0, False), (2.0, True), (raging.recent_s, False)):
        assert is_suspected(seen, replace(raging, recent_s=recent_s), LIMITS) is hints
        assert not is_suspected(seen, replace(calm, recent_s=recent_s), LIMITS)


def test_a_slow_archive_is_suspected_by_what_waits() -> None:
    """Between two looks it may have finished as many segments as were made."""
    server = Server(wal_bytes_per_s=0)
    for waiting, hints in ((3, False), (4, True)):
        seen = assessed(server, 2)
        assert seen.archive is not None
        seen = replace(seen, archive=replace(seen.archive, waiting=waiting, waiting_change=0))
        assert is_suspected(seen, None, LIMITS) is hints
    assert not is_suspected(replace(seen, seen_s=20.0), None, LIMITS)


def test_a_standby_that_was_late_before_anybody_looked_is_suspected() -> None:
    slow = replace(LIMITS, lag_warning_s=60.0)
    late = Server(standby=lambda lsn, second: standby(lsn, lsn, START - 8 * MB))
    for seconds, hints, is_named in ((2, True, False), (14, True, False), (16, False, True)):
        seen = assessed(late, seconds)
        assert is_suspected(seen, None, LIMITS) is hints, seconds
        assert bool(concerns(seen)) is is_named, seconds
    assert not is_suspected(assessed(late, 2), None, slow), "nobody looks for so long"
    in_time = Server(standby=lambda lsn, second: standby(lsn, lsn, lsn - MB))
    assert not is_suspected(assessed(in_time, 2), None, LIMITS)


@pytest.mark.parametrize(("stalled_s", "hints"), [(0.01, False), (2.0, True), (12.0, False)])
def test_a_commit_that_waits_over_two_looks_is_suspected(stalled_s: float, hints: bool) -> None:
    seen = assessed(Server(), 2)
    assert seen.look is not None
    wait = SynchronousWait("db2", "on", ("db2",), (), 0, 1, 30.0, int(stalled_s > 10), stalled_s)
    seen = replace(seen, look=replace(seen.look, synchronous=wait))
    assert is_suspected(seen, None, LIMITS) is hints


@pytest.mark.parametrize(
    ("change", "hints"),
    [
        ({}, True), ({"is_least": False}, False), ({"behind_s": 16.0}, False), ({"catch_up_s": 3.0}, False),
        ({"behind_bytes": 1000}, False),
    ],
)  # fmt: skip
def test_a_logical_consumer_that_had_not_confirmed_is_suspected(change: dict[str, Any], hints: bool) -> None:
    consumer = LogicalState(slot(is_active=True), None, None, None, 8 * MB, 2.0, True, 1e6, None)
    seen = replace(assessed(Server(), 2), logical=(replace(consumer, **change),))
    assert is_suspected(seen, None, LIMITS) is hints


def test_of_a_server_that_does_not_answer_nothing_is_suspected() -> None:
    late = assessed(Server(standby=lambda lsn, second: standby(lsn, lsn, START - 8 * MB)), 2)
    assert not is_suspected(replace(late, no_answer=gone()), None, LIMITS)
