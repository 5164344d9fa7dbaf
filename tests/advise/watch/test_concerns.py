"""Each trouble is named within 30 s of looks, and a healthy server has none for an hour."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import (
    BEGAN,
    MB,
    SEGMENT,
    START,
    Server,
    assessed,
    assessor,
    clock,
    concerns,
    gone,
    segment_name,
    slot,
    standby,
)
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.advise.watch.suspicion import is_suspected
from walproof.analysis.watch.assessment import Assessor
from walproof.analysis.watch.disk import HolderKind
from walproof.facts.wal_causes import WalCause, WalCauses
from walproof.facts.watch import WatchedArchiver


def test_a_healthy_server_is_no_concern_for_an_hour() -> None:
    """Its standby's replay position is as old as a status message every 10 s makes it."""
    server = Server(
        slots=[slot("standby", is_active=True)],
        standby=lambda lsn, second: standby(lsn, lsn, lsn - 2 * MB * (second % 10)),
    )
    found, named = assessor(64 << 30), Concerns(Thresholds(recovery_s=60.0))
    for second in range(3600):
        look = server.look(second)
        assert look.lsn is not None
        found.see([replace(look, slots=(replace(server.slots[0], restart=look.lsn - 2 * SEGMENT),))])
        if second % 5 == 0:
            seen = found.assess(float(second), BEGAN + second)
            assert named.of(seen, clock(20.0), None, {}, BEGAN) == (), second
            assert not is_suspected(seen, None, Thresholds(recovery_s=60.0)), second


def test_an_archiver_that_fails_is_named_with_its_file_and_since_when() -> None:
    seen = assessed(Server(archived_share=0.0, is_failing=True))
    (concern,) = concerns(seen)
    assert (concern.key, concern.severity) == ("archiver", Severity.CRITICAL)
    assert "fails" in concern.sentence
    assert any(" failed while walproof watched the last " in line for line in concern.evidence)
    # A short look may see no call.
    assert seen.archive is not None
    (unmoved,) = concerns(replace(seen, archive=replace(seen.archive, failures=0)))
    assert not any("0 call" in line for line in unmoved.evidence)
    assert any(f"{1:08X}{START // SEGMENT // 256:08X}" in line for line in concern.evidence)
    assert concern.since == BEGAN + 15  # the second segment began to wait at 16 s, at 2 MB/s


@pytest.mark.parametrize("last", [None, "00000002.history", "000000010000000000000007.00000028.backup"])
@pytest.mark.parametrize("failed", [segment_name(START // SEGMENT), "00000002.history"])
def test_an_archiver_that_fails_is_named_without_the_right_to_list_files(
    last: str | None, failed: str
) -> None:
    """The last file that was archived may be none that tells how far the archive is."""
    server = Server(archived_share=0.0, is_failing=True, lists_files=False)
    found = assessor()
    for second in range(31):
        look = server.look(second)
        assert look.archiver is not None
        archiver = replace(look.archiver, last_segment=last, failed_segment=failed)
        found.see([replace(look, archiver=archiver)])
    (concern,) = concerns(found.assess(30.0, BEGAN + 30))
    assert (concern.key, concern.severity) == ("archiver", Severity.CRITICAL)
    assert "fails" in concern.sentence
    waits = "how many segments wait is not known without pg_monitor"
    assert concern.evidence[-1] == (waits if failed.endswith("history") else "3 segments wait (estimated)")


def test_an_archiver_whose_call_never_ends_is_stuck() -> None:
    (concern,) = concerns(assessed(Server(archived_share=0.0), seconds=29))
    assert (concern.key, concern.severity) == ("archiver", Severity.CRITICAL)
    assert "stuck" in concern.sentence


def test_a_standby_says_itself_that_its_replay_is_paused() -> None:
    found = assessor()
    for second in range(5):
        look = replace(Server().look(second), is_in_recovery=True, is_paused=True)
        found.see([replace(look, replayed=START)])
    seen = found.assess(4.0, BEGAN + 4)
    (concern,) = concerns(seen)
    assert (concern.key, concern.severity) == ("replay paused", Severity.WARNING)
    assert concern.sentence.startswith("Replay is paused: 8.00 MB of WAL wait in pg_wal, ")
    assert "shut the server down" in concern.advice[1]
    # At its target it would not go on, but be promoted.
    found.see([replace(look, seen_s=4.5, replayed=START, has_recovery_target=True)])
    (concern,) = concerns(found.assess(4.5, BEGAN + 4.5))
    assert len(concern.advice) == 1
    assert "PROMOTES" in concern.advice[0]
    found.see([replace(look, seen_s=5.0, replayed=START, is_paused=False)])
    assert concerns(found.assess(5.0, BEGAN + 5)) == ()


def twice(archiver: WatchedArchiver, **change: object) -> list[Concern]:
    """Of the archiver, after two looks 2 s apart, as `--check` takes them."""
    found = assessor()
    look = replace(Server().look(100), started_at=BEGAN - 3600, archiver=archiver)
    look = replace(look, **change)  # type: ignore[arg-type]
    found.see([look, replace(look, seen_s=102.0, at=look.at + 2)])
    seen = found.assess(102.0, BEGAN + 102)
    return [concern for concern in concerns(seen) if concern.key == "archiver"]


def waiting(count: int, wait_s: float, archived_s: float | None = None) -> WatchedArchiver:
    """Ages at the first of the two looks."""
    at = BEGAN + 100
    last_at = None if archived_s is None else at - archived_s
    return WatchedArchiver(7, 0, segment_name(3), last_at, None, None, count, at - wait_s)


@pytest.mark.parametrize("archived_s", [None, 90.0])
def test_two_looks_see_an_archiver_that_is_stuck_by_the_servers_clock(archived_s: float | None) -> None:
    (concern,) = twice(waiting(18, 70.0, archived_s))
    assert concern.severity is Severity.CRITICAL
    assert "stuck" in concern.sentence
    assert "none was archived for 1 min 12 s, and no failure was counted" in concern.evidence


@pytest.mark.parametrize(
    "archiver",
    [
        pytest.param(replace(waiting(0, 0.0, 90000.0), ready_since=None), id="idle since yesterday"),
        pytest.param(waiting(1, 1.0, 90000.0), id="idle, and a fresh segment"),
        pytest.param(waiting(18, 5.0, 90000.0), id="idle, and a sudden load"),
        pytest.param(waiting(18, 4000.0, 3.0), id="a long backlog that is worked off"),
        pytest.param(waiting(1, 90.0, 95.0), id="one segment in a slow call"),
        pytest.param(replace(waiting(18, 4000.0), ready=None, ready_since=None), id="no right to see"),
    ],
)
def test_two_looks_suspect_no_archiver_that_works(archiver: WatchedArchiver) -> None:
    assert twice(archiver) == []


def test_what_waited_while_the_server_was_down_is_not_held_against_its_archiver() -> None:
    assert twice(waiting(18, 4000.0, 4000.0), started_at=BEGAN + 80) == []


def test_one_segment_that_waits_for_ten_minutes_is_stuck_too() -> None:
    assert len(twice(waiting(1, 700.0))) == 1


@pytest.mark.parametrize(
    ("version_num", "words"),
    [(140010, "archive_command is empty"), (170010, "archive_command and archive_library are empty")],
)
def test_an_archive_that_is_not_set_up_is_named(version_num: int, words: str) -> None:
    unset = replace(waiting(1, 90.0), is_unset=True)
    (concern,) = twice(unset, version_num=version_num)
    assert words in concern.sentence
    assert concern.severity is Severity.CRITICAL
    assert twice(replace(unset, ready_since=BEGAN + 95)) == [], "it may be set in a moment"


def test_an_archive_that_is_too_slow_falls_behind_although_every_call_succeeds() -> None:
    server = Server(wal_bytes_per_s=20 * MB, archived_share=0.7)
    (concern,) = concerns(assessed(server))
    assert (concern.key, concern.severity) == ("archiver", Severity.WARNING)
    assert "falls behind" in concern.sentence
    assert concern.since is not None
    assert BEGAN <= concern.since < BEGAN + 10


def test_without_the_right_to_list_files_the_backlog_is_estimated() -> None:
    seen = assessed(Server(wal_bytes_per_s=20 * MB, archived_share=0.7, lists_files=False))
    assert seen.archive is not None
    assert seen.archive.is_estimated
    exact = assessed(Server(wal_bytes_per_s=20 * MB, archived_share=0.7)).archive
    assert exact is not None
    assert seen.archive.waiting == exact.waiting
    assert [concern.key for concern in concerns(seen)] == ["archiver"]


def test_an_idle_slot_is_named_and_fills_the_disk() -> None:
    room = 100 * SEGMENT
    seen = assessed(Server(slots=[slot("etl")]), room_bytes=room)
    assert seen.disk is not None
    assert seen.disk.holder is not None
    assert (seen.disk.holder.kind, seen.disk.holder.name) == (HolderKind.SLOT, "etl")
    assert seen.disk.holder.held_bytes == 61 * MB
    # 10 segments are used, 90 are left, at 2 MB/s.
    assert seen.disk.full_s == pytest.approx(90 * 16 / 2)
    found = {concern.key: concern for concern in concerns(seen)}
    assert set(found) == {"slot etl", "pg_wal full"}
    assert found["pg_wal full"].severity is Severity.CRITICAL
    assert "without limit" in found["slot etl"].sentence


def test_a_slot_keeps_its_name_in_what_is_to_be_run() -> None:
    """A server's names are plain; those of a history come from a file."""
    (concern,) = concerns(assessed(Server(slots=[slot("it's")])))
    assert concern.advice[0].endswith(": SELECT pg_drop_replication_slot('it''s');")


@pytest.mark.parametrize(
    ("status", "words"),
    [("lost", "the server has invalidated it"), ("unreserved", "loses its WAL at the next checkpoint")],
)
def test_a_slot_that_loses_its_wal_is_critical(status: str, words: str) -> None:
    (concern,) = concerns(assessed(Server(slots=[slot("etl", wal_status=status)])))
    assert concern.severity is Severity.CRITICAL
    assert words in concern.sentence


@pytest.mark.parametrize(
    ("reason", "words", "names_limit"),
    [
        ("wal_removed", "WAL that it needs is gone", True),
        ("rows_removed", "replay has removed rows of catalogs that it needs", False),
        ("conflict", "or the primary's wal_level was below logical", False),
        ("idle_timeout", "nobody used it for idle_replication_slot_timeout", False),
        ("of a later version", "invalidated it (of a later version)", False),
    ],
)
def test_a_lost_slot_is_told_why_and_holds_nothing(reason: str, words: str, names_limit: bool) -> None:
    lost = replace(slot("etl", wal_status="lost"), invalidation=reason)
    seen = assessed(Server(slots=[lost]))
    assert seen.disk is not None
    assert HolderKind.SLOT not in {holder.kind for holder in seen.disk.holders}
    (concern,) = concerns(seen)
    assert words in concern.sentence
    assert any("max_slot_wal_keep_size" in line for line in concern.evidence) is names_limit
    assert any("hot_standby_feedback" in line for line in concern.advice) is (
        reason in ("rows_removed", "conflict")
    )


def test_a_standby_may_go_on_from_an_archive_when_its_slot_is_lost_a_subscriber_not() -> None:
    told = {
        kind: concerns(assessed(Server(slots=[replace(slot("a", wal_status="lost"), kind=kind)])))[0].advice
        for kind in ("physical", "logical")
    }
    assert "restore_command" in told["physical"][0]
    assert "set it up again" in told["logical"][0]


def of_standby(**change: object) -> tuple[Concern, ...]:
    """Concerns of a standby whose slot has changed like that."""
    looks = [replace(Server().look(second), is_in_recovery=True) for second in range(31)]
    kept = replace(slot("cdc", restart=START - 100 * MB), **change)  # type: ignore[arg-type]
    found = assessor()
    found.see([replace(look, slots=(kept,)) for look in looks])
    return concerns(found.assess(30.0, BEGAN + 30))


def test_a_slot_in_step_with_the_primary_is_no_concern() -> None:
    assert of_standby(is_synced=True, inactive_s=30.0, restart=START - 2000 * MB) == ()
    (old,) = of_standby(is_synced=True, inactive_s=300.0)
    assert (old.severity, old.since) == (Severity.WARNING, BEGAN + 30 - 300)
    assert "not kept in step" in old.sentence
    (lost,) = of_standby(is_synced=True, wal_status="lost")
    assert lost.severity is Severity.WARNING
    (leaving,) = of_standby(is_synced=True, wal_status="unreserved")
    assert "loses its WAL at the next checkpoint" in leaving.sentence


def test_a_slot_that_a_manager_keeps_on_a_standby_is_not_dropped() -> None:
    assert of_standby() == ()
    (concern,) = of_standby(restart=START - 2000 * MB)
    assert "Nobody reads" in concern.sentence
    assert not any("drop" in line for line in concern.advice)


def test_a_limit_of_slots_is_told_before_the_disk_is_full() -> None:
    seen = assessed(Server(slots=[slot("etl", safe_bytes=200 * MB)]), room_bytes=1000 * SEGMENT)
    assert seen.disk is not None
    assert seen.disk.lost_slot_s == pytest.approx(100.0)


def test_a_standby_that_receives_late_is_named_from_the_upstream_alone() -> None:
    server = Server(
        standby=lambda lsn, second: standby(
            START + second * MB // 2, START + second * MB // 2, START + second * MB // 2,
            "Client/WalSenderWriteData",
        )
    )  # fmt: skip
    (concern,) = concerns(assessed(server))
    assert concern.key == "standby a"
    assert "receives late" in concern.sentence
    assert "its own disk" in concern.sentence, "the upstream does not show why nobody takes the WAL"
    assert "network is the limit" not in concern.sentence
    assert any("to be sent" in line for line in concern.evidence)
    assert concern.advice == ("Name the standby on the command line, too.",)


def test_replay_that_stands_still_is_named_from_the_upstream_alone() -> None:
    """A long query on the standby: WAL arrives and is flushed, none is replayed."""
    (concern,) = concerns(assessed(Server(standby=lambda lsn, second: standby(lsn, lsn, START))))
    assert concern.key == "standby a"
    assert "replays late" in concern.sentence
    assert any("command line" in line for line in concern.advice)


def storm(kind: str, images_per_key: float, share: float = 0.6, of_keys: float = 0.95) -> WalCauses:
    """``of_keys``: share of images of pages into which keys came; all images are 95 %."""
    of = {"key_image_share": of_keys, "images_per_key": images_per_key}
    cause = WalCause((1663, 5, 16400), "shop: public.orders_id_idx", kind, 3e6, share, 0.95, 0.8, **of)
    return WalCauses(60.0, 5e6, 0.8, 100.0, (), {}, 20.0, (cause,))


def test_an_index_with_random_keys_is_named_while_it_floods_the_wal() -> None:
    (concern,) = concerns(assessed(Server()), causes=storm("index", 0.8))
    assert concern.key == "index shop: public.orders_id_idx"
    assert "random order" in concern.sentence


# The last is vacuumed: it writes images of the index, and many of the few keys that come have one, too.
CALM = [storm("table", 0.8), storm("index", 0.01), storm("index", 0.8, 0.1), storm("index", 0.8, 0.6, 0.1)]


@pytest.mark.parametrize("causes", CALM)
def test_a_table_or_an_index_with_keys_in_order_is_none(causes: WalCauses) -> None:
    assert concerns(assessed(Server()), causes=causes) == ()


@pytest.mark.parametrize(
    ("seconds", "severity"), [(40.0, None), (50.0, Severity.WARNING), (70.0, Severity.CRITICAL)]
)
def test_recovery_is_compared_with_its_target(seconds: float, severity: Severity | None) -> None:
    """The band of 40 s ends at 56 s, that of 50 s at 70 s."""
    found = concerns(assessed(Server()), Thresholds(recovery_s=60.0), clock(seconds))
    assert [concern.severity for concern in found] == ([] if severity is None else [severity])


def test_a_server_that_answers_slowly_keeps_its_other_concerns() -> None:
    found = assessor()
    found.see([Server(slots=[slot("etl")]).look(second) for second in range(31)])
    told = {concern.key: concern for concern in concerns(found.assess(40.0, BEGAN + 40, answered_s=31.0))}
    assert set(told) == {"answers", "slot etl"}
    assert told["answers"].severity is Severity.WARNING
    assert "has taken 9 s" in told["answers"].evidence[0]


def test_a_concern_keeps_the_time_of_its_beginning_until_it_goes() -> None:
    named, found = Concerns(Thresholds()), assessor()
    idle = Server(slots=[slot("etl")])
    sinces = []
    for second in range(20):
        server = Server() if second == 15 else idle
        found.see([server.look(second)])
        now = named.of(found.assess(float(second), BEGAN + second), None, None, {}, BEGAN)
        sinces.append(now[0].since if now else None)
    first = next(since for since in sinces if since is not None)
    assert sinces[14] == first
    assert sinces[15] is None
    assert sinces[19] == BEGAN + 16


def gone_for_a_while(found: Assessor, named: Concerns, since_s: int, until_s: int) -> None:
    for second in range(since_s, until_s):
        found.see([gone(BEGAN + since_s, float(second))])
        (concern,) = named.of(found.assess(float(second), BEGAN + second), None, None, {}, BEGAN)
        assert (concern.key, concern.since) == ("server", BEGAN + since_s)


def test_a_restart_of_the_server_is_no_new_beginning_of_its_troubles() -> None:
    """Of one that each look sees, of one that takes a window of looks, and of one that needs the stream."""
    named, found = Concerns(Thresholds(recovery_s=60.0)), assessor()
    # The archiver fails throughout; the oldest segment that waits is not seen.
    server = Server(slots=[slot("etl")], archived_share=0.0)
    since = {}
    for second in range(40):
        found.see([server.look(second)])
        told = named.of(found.assess(float(second), BEGAN + second), clock(90.0), None, {}, BEGAN)
        since = {concern.key: concern.since for concern in told}
    assert set(since) == {"slot etl", "archiver", "crash recovery"}
    gone_for_a_while(found, named, 40, 50)
    missing = set()
    for second in range(50, 90):
        look = replace(server.look(second), started_at=BEGAN + 50)
        slots = tuple(replace(slot, inactive_s=second - 50.0) for slot in look.slots)
        found.see([replace(look, slots=slots)])
        crash = clock(90.0) if second >= 60 else None
        told = named.of(found.assess(float(second), BEGAN + second), crash, None, {}, BEGAN)
        missing |= set(since) - {concern.key for concern in told}
        assert since.items() >= {concern.key: concern.since for concern in told}.items(), second
    assert missing == {"archiver", "crash recovery"}
    assert {concern.key for concern in told} == set(since)


def test_a_trouble_that_ended_while_the_server_was_away_begins_again() -> None:
    named, found = Concerns(Thresholds()), assessor()
    found.see([Server(slots=[slot("etl")]).look(100)])
    named.of(found.assess(100.0, BEGAN + 100), None, None, {}, BEGAN)
    gone_for_a_while(found, named, 101, 110)
    for second, server in ((110, Server()), (111, Server(slots=[slot("etl")]))):
        found.see([replace(server.look(second), started_at=BEGAN + 110)])
        told = named.of(found.assess(float(second), BEGAN + second), None, None, {}, BEGAN)
    assert [(concern.key, concern.since) for concern in told] == [("slot etl", BEGAN + 111)]


def work(**shares: float | None) -> WalCauses:
    """A table that writes 60 % of all WAL."""
    orders = WalCause((1663, 5, 16400), "shop: public.orders", "table", 3e6, 0.6, 0.3, 0.01)
    cause = replace(orders, **shares)  # type: ignore[arg-type]
    return WalCauses(60.0, 5e6, 0.3, 100.0, (), {}, 20.0, (cause,))


def test_freezing_and_a_bulk_update_are_named_with_the_time_they_began() -> None:
    (concern,) = concerns(assessed(Server()), causes=work(freeze_share=0.9, begun_s=12.0))
    assert concern.key == "freezing shop: public.orders"
    assert "that is 54 % of all WAL" in concern.sentence
    assert concern.evidence[1] == "90 % of it freezes rows"
    assert "autovacuum_vacuum_cost_delay" in concern.advice[1]
    assert concern.since == BEGAN + 30 - 12
    bulk = work(update_share=0.8, updates_per_s=9000.0, updates_per_run=4000.0, begun_s=7.0)
    (concern,) = concerns(assessed(Server()), causes=bulk)
    assert concern.key == "bulk update shop: public.orders"
    assert concern.since == BEGAN + 30 - 7


def test_the_time_at_which_a_storm_began_stays_when_it_leaves_the_window() -> None:
    named, seen = Concerns(Thresholds()), assessed(Server())
    sinces = []
    for begun_s in (12.0, 14.0, None):
        (concern,) = named.of(seen, None, work(freeze_share=0.9, begun_s=begun_s), {}, BEGAN)
        sinces.append(concern.since)
    assert sinces == [BEGAN + 18] * 3


@pytest.mark.parametrize(
    "causes",
    [
        work(update_share=0.9, updates_per_s=9000.0, updates_per_run=1.5),
        work(update_share=0.9, updates_per_s=20.0, updates_per_run=4000.0),
        work(update_share=0.2, updates_per_s=9000.0, updates_per_run=4000.0),
        work(freeze_share=0.2),
        work(freeze_share=0.9, bytes_per_s=100_000.0),
        replace(work(freeze_share=0.9), recent_s=5.0),
        replace(work(), top=work(freeze_share=0.9).recent),
    ],
)
def test_short_transactions_and_a_little_freezing_are_no_storm(causes: WalCauses) -> None:
    assert concerns(assessed(Server()), causes=causes) == ()
