"""Standbys that get no WAL, by what they show themselves, and standbys that have vanished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import BEGAN, MB, START, Server, assessor, concerns, slot, standby
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.missing import with_promoted
from walproof.facts.watch import WatchedArrival, WatchedCheckpoint, WatchedSlot, WatchedStandby


def alone(
    seconds: int,
    streams_until: int = -1,
    *,
    restored: int = 0,
    restored_until: int = 10_000,
    up_s: float = 3600,
    **changes: object,
) -> list[Concern]:
    """Of a standby that nobody watches with its upstream; ``restored`` is what it replays each second."""
    arrival = WatchedArrival(False, True, bool(restored), "Timeout/RecoveryRetrieveRetryInterval")
    arrival = replace(arrival, **changes)  # type: ignore[arg-type]
    found, named = assessor(), Concerns(Thresholds())
    for second in range(seconds):
        look = replace(Server().look(second), is_in_recovery=True, started_at=BEGAN + seconds - up_s)
        arrived = replace(arrival, streams=second <= streams_until)
        replayed = START + restored * min(second, restored_until)
        found.see([replace(look, lsn=START, replayed=replayed, arrival=arrived)])
        said = named.of(found.assess(float(second), BEGAN + second), None, None, {}, BEGAN + second)
    return [concern for concern in said if concern.key == "walreceiver"]


def test_a_standby_says_itself_that_no_wal_comes() -> None:
    """`--check` looks twice; while looks know a stream, a walreceiver has time to start again."""
    (concern,) = alone(2)
    assert concern.severity is Severity.WARNING
    assert concern.sentence.startswith("This standby gets no WAL: primary_conninfo is set")
    assert alone(15, streams_until=5) == []
    (concern,) = alone(17, streams_until=5)
    assert concern.since == BEGAN + 6


def test_an_archive_may_have_nothing_new_for_minutes() -> None:
    """A standby with archive_timeout = 1min, and no upstream that it reaches, gets a segment a minute."""
    assert alone(60, restores=True) == []
    assert alone(300, restores=True) == []
    assert "nothing comes from the archive" in alone(302, restores=True)[0].sentence
    assert alone(500, restored=MB, restored_until=220) == []
    # What was restored before does not hide it until all looks from then are forgotten.
    assert alone(530, restored=MB, restored_until=220) != []
    assert alone(400, restored=MB, restored_until=100, streams_until=150) == []


@pytest.mark.parametrize(
    "found",
    [
        alone(30, streams_until=30),
        alone(30, should_stream=False),
        alone(30, wait="running"),
        alone(30, restored=MB),
        alone(2, up_s=5),
    ],
)
def test_a_standby_that_streams_restores_or_replays_is_not_cut_off(found: list[Concern]) -> None:
    assert found == []


def left(until: int, seconds: int, **last: object) -> list[Concern]:
    """Of a server whose standby streams until a second; ``last`` changes the last look."""
    server = Server(standby=lambda lsn, second: standby(lsn, lsn, lsn) if second <= until else None)
    looks = [server.look(second) for second in range(seconds + 1)]
    found = assessor()
    found.see([*looks[:-1], replace(looks[-1], **last)])  # type: ignore[arg-type]
    seen = found.assess(float(seconds), BEGAN + seconds)
    return [concern for concern in concerns(seen) if concern.key.startswith("missing ")]


def test_a_standby_that_vanishes_is_missed_until_it_is_back() -> None:
    assert left(5, 19) == []
    (concern,) = left(5, 20)
    assert (concern.severity, concern.since) == (Severity.WARNING, BEGAN + 5)
    assert concern.sentence.startswith('Standby "a" is gone')
    assert left(5, 305)[0].severity is Severity.CRITICAL
    # Its upstream was started again meanwhile, which is no reason why it should not come back.
    assert left(5, 30, started_at=BEGAN + 29) != []
    assert left(5, 30, standbys=(replace(standby(START, START, START), pid=8),)) == []
    assert left(5, 30, is_in_recovery=True) == []
    assert left(5, 30, lacks=("standbys: permission denied",)) != []


def test_standbys_of_the_server_before_a_failover_are_not_missed() -> None:
    """A connection string with several hosts leads to the promoted one."""
    promoted = WatchedCheckpoint(START, BEGAN + 20, 2)
    assert left(5, 20, started_at=BEGAN - 60) == []
    # By its start alone this one may be the server from before.
    assert left(5, 20, started_at=BEGAN + 19.5) != []
    assert left(5, 20, started_at=BEGAN + 19.5, checkpoint=promoted) == []
    # The server itself shows its new timeline some time after the failover.
    assert left(5, 20, checkpoint=promoted) != []


def missed(*looks: tuple[WatchedStandby, ...], slots: tuple[WatchedSlot, ...] = ()) -> list[str]:
    """Whom the last look misses; a minute lies between two."""
    found = assessor()
    for minute, standbys in enumerate(looks):
        found.see([replace(Server(slots=slots).look(60 * minute), standbys=standbys)])
    seen = found.assess(60.0 * len(looks) - 60, BEGAN + 60 * len(looks) - 60)
    return [concern.key for concern in concerns(seen) if concern.key.startswith("missing ")]


def test_a_standby_is_the_same_with_another_temporary_slot() -> None:
    """It is called after the process (wal_receiver_create_temp_slot), and goes with it."""
    first = replace(standby(START, START, START), slot="pg_walreceiver_8")
    again = replace(first, pid=9, slot="pg_walreceiver_9")
    at = replace(first, host="10.0.0.2")
    temporary = tuple(replace(slot(f"pg_walreceiver_{pid}"), is_temporary=True) for pid in (8, 9))
    assert missed((first,), (again,), slots=temporary) == []
    # A look may show the walsender before the list of slots has its slot.
    assert missed((first,), (again,)) == []
    assert missed((first,), (), slots=temporary) == ["missing a"]
    assert missed((at,), (), slots=temporary) == ["missing a (10.0.0.2)"]


def test_a_standby_with_a_permanent_slot_is_the_same_under_another_name() -> None:
    first = replace(standby(START, START, START), slot="s2")
    renamed = replace(first, pid=9, name="new")
    assert missed((first,), (renamed,), slots=(slot("s2"),)) == []
    assert missed((first,), (renamed,), (), slots=(slot("s2"),)) == ["missing new (slot s2)"]


def test_a_standby_that_gets_a_slot_is_the_same() -> None:
    first = standby(START, START, START)
    with_slot = replace(first, pid=9, slot="s2")
    assert missed((first,), (with_slot,), slots=(slot("s2"),)) == []
    # Another one of the same name has come instead; or the first one is still there, and goes later.
    other = replace(first, pid=9, slot="s3")
    both = (slot("s2"), slot("s3"))
    assert missed((with_slot,), (other,), slots=both) == ["missing a (slot s2)"]
    assert missed((first, with_slot), (with_slot,), slots=both) == ["missing a"]


def test_a_standby_that_is_missed_has_the_name_that_it_had() -> None:
    with_slot = replace(standby(START, START, START), slot="s2")
    looks = [replace(Server(slots=(slot("s2"),)).look(second), standbys=(with_slot,)) for second in (0, 60)]
    found = assessor()
    found.see(looks)
    (state,) = found.assess(60.0, BEGAN + 60).standbys
    assert missed((with_slot,), (), slots=(slot("s2"),)) == [f"missing {state.name}"]
    # Two that were called the same, one after the other, are two concerns.
    first = standby(START, START, START)
    found_alike = missed((replace(first, slot="a"),), (first,), (), slots=(slot("a"),))
    assert found_alike == ["missing a", "missing a #2"]


def test_a_standby_that_was_promoted_is_said_to_be_so() -> None:
    server = Server(standby=lambda lsn, second: standby(lsn, lsn, lsn) if second <= 5 else None)
    found = assessor()
    found.see([server.look(second) for second in range(400)])
    seen = found.assess(399.0, BEGAN + 399)

    def said(promoted: dict[int, str | None]) -> list[Concern]:
        known = replace(seen, missing=with_promoted(seen.missing, promoted))
        return [concern for concern in concerns(known) if concern.key == "missing a"]

    assert "is gone" in said({})[0].sentence
    assert "is gone" in said({8: "db2"})[0].sentence
    (concern,) = said({7: "db2"})
    assert concern.severity is Severity.WARNING
    assert concern.sentence.startswith('Standby "a", watched as db2, was promoted')
    assert said({7: None}) == []


def test_a_standby_may_be_later_than_looks_are_kept() -> None:
    """One that is meant to be an hour late has limits beyond that."""
    late_s = 3000
    server = Server(standby=lambda lsn, second: standby(lsn, lsn, START + 2 * MB * max(0, second - late_s)))
    found = assessor()
    found.see([server.look(second) for second in range(0, 4001, 10)])
    seen = found.assess(4000.0, BEGAN + 4000)
    (state,) = seen.standbys
    assert state.split.lag_s == pytest.approx(late_s, abs=120)
    assert not state.split.is_least
    (concern,) = concerns(seen, Thresholds(lag_warning_s=1800.0, lag_critical_s=2700.0))
    assert (concern.key, concern.severity) == ("standby a", Severity.CRITICAL)
    assert concerns(seen, Thresholds(lag_warning_s=3600.0)) == ()
