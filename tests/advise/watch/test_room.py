"""The room for pg_wal: when it is full, whether the settings fit into it, and the slots that take it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import BEGAN, MB, SEGMENT, START, Server, assessed, assessor, concerns, slot
from walproof.advise.watch.concern import Severity, Thresholds
from walproof.advise.watch.suspicion import is_suspected
from walproof.analysis.watch.disk import HolderKind


def test_a_slot_fills_the_disk_also_while_wal_keep_size_holds_more() -> None:
    server = Server(slots=[slot("etl")], settings={"wal_keep_size": "1GB"})
    seen = assessed(server, room_bytes=100 * SEGMENT)
    assert seen.disk is not None
    assert seen.disk.holder is not None
    assert seen.disk.holder.kind is HolderKind.KEEP_SIZE
    # 61 MB are held, and pg_wal is no larger than wal_keep_size.
    assert seen.disk.full_s == pytest.approx((1600 - 61) / 2)
    found = {concern.key: concern for concern in concerns(seen)}
    assert found["pg_wal full"].severity is Severity.CRITICAL
    assert found["pg_wal full"].evidence[1].startswith('slot "etl" holds 61.0 MB, ')


def test_a_room_that_is_passed_is_critical_whatever_the_rates() -> None:
    seen = assessed(Server(wal_bytes_per_s=0), room_bytes=9 * SEGMENT)
    found = {concern.key: concern for concern in concerns(seen)}
    assert found["pg_wal full"].severity is Severity.CRITICAL
    assert found["pg_wal full"].sentence == "pg_wal has passed its room: 160 MB of 144 MB."


@pytest.mark.parametrize(("segments", "is_said"), [(96, False), (95, True)])
def test_max_wal_size_leaves_room_for_a_cycle_more(segments: int, is_said: bool) -> None:
    """Of 1 GB it takes 1.5: only a size above the whole room was named."""
    found = concerns(assessed(Server(), room_bytes=segments * SEGMENT))
    assert ("max_wal_size" in [concern.key for concern in found]) is is_said


@pytest.mark.parametrize(("kept", "is_named"), [("256MB", False), ("1300MB", True)])
def test_wal_keep_size_is_named_where_it_takes_the_room(kept: str, is_named: bool) -> None:
    (found,) = concerns(assessed(Server(settings={"wal_keep_size": kept}), room_bytes=90 * SEGMENT))
    assert found.key == "max_wal_size"
    assert ("wal_keep_size" in found.evidence[0]) is is_named
    assert ("wal_keep_size" in found.advice[0]) is is_named


def test_a_slot_that_its_limit_ends_first_fills_nothing_and_is_named_before_it_is_lost() -> None:
    server = Server(slots=[slot("etl", restart=START - 100 * MB, safe_bytes=200 * MB)])
    seen = assessed(server, room_bytes=100 * SEGMENT)
    assert seen.disk is not None
    assert seen.disk.full_s is None
    (concern,) = concerns(seen)
    assert (concern.key, concern.severity) == ("slot etl", Severity.CRITICAL)
    assert concern.sentence == 'Slot "etl" loses its WAL in 1 min 40 s at this rate.'
    # A larger limit, and a late checkpoint: the room is full before.
    later = Server(slots=[slot("etl", restart=START - 100 * MB, safe_bytes=800 * MB)])
    found = concerns(assessed(later, room_bytes=100 * SEGMENT))
    assert {one.key for one in found} == {"slot etl", "pg_wal full"}
    # At a rate of one look nothing is said, but looked on.
    short = assessed(server, 2, room_bytes=100 * SEGMENT)
    assert not any("loses its WAL" in one.sentence for one in concerns(short))
    assert is_suspected(short, None, Thresholds())


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_slot_that_is_polled_is_read_although_nobody_has_it_now(is_seen: bool) -> None:
    """Every 15 s somebody takes it for a moment, which falls on a look or between two."""
    found = assessor()
    for second in range(45):
        kept = slot("etl", restart=START - 20 * MB + 30 * MB * (second // 15))
        kept = replace(kept, is_active=is_seen and second % 15 == 0)
        found.see([replace(Server().look(second), slots=(kept,))])
    assert concerns(found.assess(44.0, BEGAN + 44)) == ()


def test_a_slot_whose_reader_has_left_is_read_by_nobody() -> None:
    found = assessor()
    for second in range(45):
        kept = slot("etl", is_active=second < 20, restart=START - 20 * MB + MB * min(second, 20))
        found.see([replace(Server().look(second), slots=(kept,))])
    (concern,) = concerns(found.assess(44.0, BEGAN + 44))
    assert concern.sentence.startswith('Nobody reads from slot "etl"')
