"""Advice about slots loses none that may come back, and names what the next checkpoint takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice, Fine
from walproof.advise.slot_words import after_lost
from walproof.analysis.server_limits import ServerLimits
from walproof.facts.server import ServerSlot, ServerWindow
from walproof.units import parse_bytes

KEPT_MB = 1300


def _slot(status: str = "extended", kept_mb: int = KEPT_MB, is_active: bool = False) -> ServerSlot:
    return ServerSlot("sb", "physical", is_active, False, kept_mb << 20, status)


def _advice(window: ServerWindow, wal_disk: str | None = None) -> Advice:
    room = None if wal_disk is None else parse_bytes(wal_disk)
    advice = found("slots", window, limits=ServerLimits(wal_disk_bytes=room))
    assert isinstance(advice, Advice)
    return advice


def _unlimited(*slots: ServerSlot, max_wal_size: str = "1GB") -> ServerWindow:
    window = with_settings(healthy(), max_slot_wal_keep_size="-1", max_wal_size=max_wal_size)
    return replace(window, slots=slots)


@pytest.mark.parametrize("wal_disk", [None, "3GB", "4GB", "5GB", "10GB", "200GB"])
@pytest.mark.parametrize("is_active", [False, True])
def test_a_limit_spares_every_slot_and_leaves_room_for_checkpoints(
    wal_disk: str | None, is_active: bool
) -> None:
    advice = _advice(_unlimited(_slot(is_active=is_active)), wal_disk)
    if wal_disk in ("3GB", "4GB"):
        assert advice.changes == ()
        assert any('spares slot "sb"' in sentence for sentence in advice.evidence)
        return
    (change,) = advice.changes
    cap = parse_bytes(change.value)
    assert cap >= (KEPT_MB + 1024) << 20
    if wal_disk is not None:
        assert cap + (1 << 30) <= parse_bytes(wal_disk)


@pytest.mark.parametrize(("wal_disk", "is_limited"), [(None, True), ("65GB", True), ("64GB", False)])
def test_a_limit_of_all_of_the_room_is_none(wal_disk: str | None, is_limited: bool) -> None:
    """It was fine, and the disk would have been full before the slot was lost."""
    room = None if wal_disk is None else parse_bytes(wal_disk)
    window = with_settings(healthy(), max_slot_wal_keep_size="64GB")
    answer = found("slots", window, limits=ServerLimits(wal_disk_bytes=room))
    if is_limited:
        assert answer == Fine("slots", "1 slot, each in use and limited.")
        return
    assert isinstance(answer, Advice)
    assert answer.evidence[0].startswith(
        "max_slot_wal_keep_size = 64GB bounds nothing within --wal-disk 64.0"
    )
    (change,) = answer.changes
    # More than max_wal_size, 8 GB, since a checkpoint takes what lies beyond the limit.
    assert change.value == "17GB"


@pytest.mark.parametrize("wal_disk", ["100MB", "120MB"])
def test_no_limit_is_advised_where_checkpoints_need_all_of_the_room(wal_disk: str) -> None:
    advice = _advice(_unlimited(_slot(kept_mb=1, is_active=True)), wal_disk)
    assert advice.changes == ()
    assert any("give pg_wal more, or make max_wal_size smaller" in sentence for sentence in advice.evidence)


def test_an_unreserved_slot_is_not_lost_yet() -> None:
    window = replace(
        with_settings(healthy(), max_slot_wal_keep_size="200MB", max_wal_size="1GB"),
        slots=(
            _slot("unreserved", 226),
            replace(_slot("lost", 500), name="gone"),
            replace(_slot("reserved", 90), name="idle"),
        ),
    )
    advice = _advice(window)
    (change,) = advice.changes
    assert parse_bytes(change.value) >= 2 * (226 << 20)
    assert not any("drop" in step and "'sb'" in step for step in advice.steps)
    assert any("drop" in step and "'gone'" in step for step in advice.steps)
    assert any('"idle"' in sentence for sentence in advice.evidence)
    assert "nothing is lost" in advice.evidence[0]


def test_no_room_is_promised_to_an_unreserved_slot_that_there_is_not() -> None:
    window = replace(
        with_settings(healthy(), max_slot_wal_keep_size="200MB", max_wal_size="1GB"),
        slots=(_slot("unreserved", 226),),
    )
    advice = _advice(window, "300MB")
    assert advice.changes == ()
    assert any("no room to keep more" in sentence for sentence in advice.evidence)


def test_a_lost_slot_does_not_hide_an_idle_one() -> None:
    window = _unlimited(_slot("lost", 500), replace(_slot(), name="idle"))
    advice = _advice(window)
    assert advice.steps == ("SELECT pg_drop_replication_slot('sb');",)
    assert any('Nobody uses slot "idle"' in sentence for sentence in advice.evidence)


def test_lost_slots_are_told_why_by_reason() -> None:
    def lost(name: str, reason: str | None) -> ServerSlot:
        return replace(_slot("lost", 500), name=name, invalidation=reason)

    window = _unlimited(lost("a", "wal_removed"), lost("b", "rows_removed"), lost("c", "wal_removed"))
    assert _advice(window).evidence == (
        'slot "a" (physical) and slot "c" (physical): WAL that it needs is gone.',
        'slot "b" (physical): replay has removed rows of catalogs that it needs.',
        "hot_standby_feedback = on, and a slot of this standby on the primary (primary_slot_name), keep such "
        "rows.",
        after_lost("physical"),
    )
    # A recording of before has no reason.
    assert _advice(_unlimited(lost("a", None))).evidence == (
        'slot "a" (physical): the server has invalidated it.',
        after_lost("physical"),
    )
    both = _advice(_unlimited(lost("a", None), replace(lost("b", None), kind="logical"))).evidence
    assert both[-2:] == (after_lost("physical"), after_lost("logical"))


def test_slots_of_the_platform_are_no_lost_consumers() -> None:
    of_neon = replace(_slot(), name="wal_retention_slot")
    assert found("slots", _unlimited(of_neon)) is None
    advice = _advice(_unlimited(of_neon, _slot()))
    assert [step for step in advice.steps if "drop" in step] == ["SELECT pg_drop_replication_slot('sb');"]


SYNCED = ServerSlot("cdc", "logical", False, False, KEPT_MB << 20, "extended", 15.0, is_synced=True)


def test_a_slot_in_step_with_the_primary_is_not_idle() -> None:
    window = replace(_unlimited(SYNCED), is_in_recovery=True)
    assert found("slots", window) == Fine("slots", "1 slot in step with the primary, for a failover.")
    # Its own cascading standby needs a limit, and that one spares the copy, too.
    own = ServerSlot("below", "physical", True, False, 1 << 20, "reserved")
    advice = _advice(replace(_unlimited(SYNCED, own), is_in_recovery=True))
    assert advice.title == "Limit what slots may keep"
    assert parse_bytes(advice.changes[0].value) >= (KEPT_MB + 1024) << 20
    assert advice.steps == ()


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (replace(SYNCED, inactive_s=7200.0), "was last synchronised 2 h 00 min ago"),
        (replace(SYNCED, wal_status="lost"), "The server makes it again, unless"),
    ],
)
def test_a_copy_that_serves_no_failover_is_named_and_not_dropped(slot: ServerSlot, words: str) -> None:
    advice = _advice(replace(_unlimited(slot), is_in_recovery=True))
    assert words in advice.evidence[0]
    assert (advice.changes, advice.steps[-1]) == ((), "SHOW sync_replication_slots;")
    beside = _advice(replace(_unlimited(slot, replace(_slot("lost"), name="gone")), is_in_recovery=True))
    assert words in beside.evidence[-1]
    assert beside.steps == ("SELECT pg_drop_replication_slot('gone');",)


def test_a_slot_that_a_manager_keeps_on_a_standby_is_not_dropped() -> None:
    kept = replace(_unlimited(_slot(kept_mb=900)), is_in_recovery=True)
    assert isinstance(found("slots", kept), Fine)
    advice = _advice(replace(_unlimited(_slot()), is_in_recovery=True))
    assert "Patroni" in advice.evidence[1]
    assert advice.changes == ()
    assert not any("drop" in step for step in advice.steps)


def test_without_a_named_room_no_room_is_spoken_of() -> None:
    advice = _advice(_unlimited(_slot(), max_wal_size="200GB"))
    assert advice.changes == ()
    assert not any("0 B" in sentence or "no room" in sentence for sentence in advice.evidence)
    assert any("has to be larger than max_wal_size = 200GB: say how much room" in s for s in advice.evidence)


def test_the_advised_max_wal_size_counts() -> None:
    # 200 GB do not fit, and 3 GB are advised: they leave room for a limit.
    advice = _advice(_unlimited(_slot(is_active=True), max_wal_size="200GB"), "10GB")
    (change,) = advice.changes
    assert KEPT_MB << 20 < parse_bytes(change.value) <= 5 << 30
    cramped = _advice(_unlimited(_slot(kept_mb=4000), max_wal_size="200GB"), "10GB")
    assert any("Beside max_wal_size = 3GB as advised, 10.0 GB have no room" in s for s in cramped.evidence)


@pytest.mark.parametrize(
    ("status", "kept_mb", "wal_disk", "least_mb"),
    [("unreserved", 11_000, "22400MB", 11_000), ("extended", 9_500, "21100MB", 9_500 + 1024)],
)
def test_a_large_limit_is_never_less_than_was_worked_out(
    status: str, kept_mb: int, wal_disk: str, least_mb: int
) -> None:
    """It was rounded down to whole GB, which may be less than the slot holds."""
    (change,) = _advice(_unlimited(_slot(status, kept_mb)), wal_disk).changes
    assert least_mb << 20 <= parse_bytes(change.value) <= parse_bytes(wal_disk) // 2
    (change,) = _advice(_unlimited(_slot(status, kept_mb)), "200GB").changes
    assert parse_bytes(change.value) >= 2 * kept_mb << 20
    assert change.value.endswith("GB")


@pytest.mark.parametrize("wal_disk", [None, "1GB"])
@pytest.mark.parametrize(
    ("status", "is_active", "title"),
    [
        ("extended", True, "Limit what slots may keep"),
        ("reserved", False, "Bring back the users of the idle slots, or drop them"),
        ("unreserved", True, "Keep the WAL of a slot that is about to lose it, and let it catch up"),
    ],
)
def test_no_limit_is_advised_where_it_is_not_known_what_the_slots_hold(
    status: str, is_active: bool, title: str, wal_disk: str | None
) -> None:
    """What is not known was taken for nothing, and the limit lost the slot."""
    lack = "how much they hold is not known without the position in the WAL"
    slot = replace(_slot(status, is_active=is_active), retained_bytes=None)
    advice = _advice(replace(_unlimited(slot), lacks=(f"slots: {lack}",)), wal_disk)
    assert (advice.title, advice.changes) == (title, ())
    assert advice.unknown[0].startswith("how much the slots hold")
    assert lack in advice.unknown[0]
    assert not any("no room" in sentence or "spares" in sentence for sentence in advice.evidence)


def test_a_slot_without_a_position_keeps_nothing() -> None:
    """Such a slot was made and never used: it has no wal_status either."""
    unused = replace(_slot(), retained_bytes=None, wal_status=None)
    advice = _advice(_unlimited(unused))
    assert advice.title == "Limit what slots may keep"
    assert [change.value for change in advice.changes] == ["8GB"]


def _busy(window: ServerWindow, per_hour: int) -> ServerWindow:
    first, last = window.looks
    return replace(window, looks=(first, replace(last, lsn=(first.lsn or 0) + per_hour // 6)))


def test_a_limit_lasts_while_a_standby_restarts() -> None:
    """8GB was the limit of a server that writes it in 98 seconds, with a room of 2 TB."""
    window = _busy(_unlimited(_slot(kept_mb=200, is_active=True), max_wal_size="4GB"), 300 << 30)
    unknown = _advice(window)
    assert unknown.changes == ()
    assert any("8GB are full within the hour" in sentence for sentence in unknown.evidence)
    assert any("--wal-disk" in what for what in unknown.unknown)
    roomy = _advice(window, "4TB")
    assert [change.value for change in roomy.changes] == ["1200GB"]
    assert any("after 4 h 00 min of a standby that is away" in cost for cost in roomy.costs)
    # Half of the room is the most.
    assert [change.value for change in _advice(window, "1TB").changes] == ["512GB"]


@pytest.mark.parametrize(
    ("seen", "is_idle"),
    [
        ({"was_used": True}, False),
        ({"was_used": False}, True),
        ({"was_used": False, "retained_bytes": 1 << 20}, False),
        ({"was_used": False, "inactive_s": 3.0}, False),
        ({"was_used": False, "inactive_s": 7200.0}, True),
        ({"inactive_s": 0.0}, False),
    ],
)
def test_a_standby_that_restarts_is_not_gone(seen: dict[str, float], is_idle: bool) -> None:
    """Its slot was named with the line that drops it, if the window ended in that second."""
    slot = replace(_slot(), **seen)  # type: ignore[arg-type]
    answer = found("slots", replace(healthy(), slots=(slot,)))
    assert isinstance(answer, Advice) is is_idle, answer
    if isinstance(answer, Fine):
        assert 'used before it or holding less than a segment: slot "sb"' in answer.sentence
