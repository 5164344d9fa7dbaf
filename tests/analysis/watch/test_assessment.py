"""Looks become rates, limits and times; a server that goes away or becomes another one is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import BEGAN, MB, SEGMENT, START, Server, assessed, assessor, gone, standby
from walproof.analysis.watch.assessment import unique_names
from walproof.analysis.watch.disk import HolderKind
from walproof.facts.watch import WatchedCheckpoint
from walproof.settings.session import PATIENCE_S


def test_rates_do_not_see_a_clock_that_jumps() -> None:
    found = assessor()
    looks = [Server().look(second) for second in range(20)]
    found.see([replace(look, at=look.at + (3600 if place > 10 else 0)) for place, look in enumerate(looks)])
    assert found.assess(19.0, BEGAN).wal_bytes_per_s == pytest.approx(2 * MB)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"started_at": BEGAN + 14.5}, "the server was started again"),
        ({"started_at": BEGAN - 7200}, "another server of its system answers"),
        ({"started_at": BEGAN + 10}, "another server of its system answers"),
        ({"system_identifier": "2"}, "another database system answers"),
        ({"lsn": START}, "the server's WAL went back"),
        ({"is_in_recovery": True}, "the server is a standby now"),
        ({"checkpoint": WatchedCheckpoint(START, BEGAN, 2)}, "the server switched to timeline 2"),
    ],
)
def test_what_happens_to_a_server_begins_the_window_anew(change: dict[str, object], words: str) -> None:
    found = assessor()
    looks = [Server().look(second) for second in range(20)]
    found.see(looks[:15])
    found.see([replace(looks[15], **change)])  # type: ignore[arg-type]
    seen = found.assess(15.0, BEGAN + 15)
    assert [event.text for event in seen.events] == [words]
    assert seen.seen_s == 0.0
    assert seen.wal_bytes_per_s is None


def test_wal_that_is_written_is_counted_forward_whatever_happens_to_the_position() -> None:
    """A counter that went back would be a reset to Prometheus: it would add the whole position."""
    found = assessor()
    looks = [Server().look(second) for second in range(20)]
    found.see(looks[:15])
    promoted = WatchedCheckpoint(START, BEGAN, 2)
    found.see([replace(look, lsn=(look.lsn or 0) - 20 * MB, checkpoint=promoted) for look in looks[15:]])
    assert found.assess(19.0, BEGAN + 19).written_bytes == (14 + 4) * 2 * MB


def test_looks_without_a_position_and_a_restart_leave_out_no_wal_that_was_written() -> None:
    looks = [Server().look(second) for second in range(20)]
    found = assessor()
    found.see([replace(look, lsn=None) if place in (7, 8) else look for place, look in enumerate(looks)])
    assert found.assess(19.0, BEGAN + 19).written_bytes == 19 * 2 * MB
    again = assessor()
    again.see([replace(look, started_at=BEGAN + 10) if look.seen_s > 10 else look for look in looks])
    seen = again.assess(19.0, BEGAN + 19)
    assert seen.written_bytes == 19 * 2 * MB
    assert [event.text for event in seen.events] == ["the server was started again"]


@pytest.mark.parametrize("change", [{"system_identifier": "2"}, {"is_in_recovery": True}])
def test_wal_of_another_server_or_role_is_not_counted(change: dict[str, object]) -> None:
    found = assessor()
    looks = [Server().look(second) for second in range(20)]
    found.see([*looks[:15], *(replace(look, **change) for look in looks[15:])])  # type: ignore[arg-type]
    assert found.assess(19.0, BEGAN + 19).written_bytes == (14 + 4) * 2 * MB


def test_a_server_that_does_not_answer_keeps_its_last_figures_and_comes_back() -> None:
    found = assessor()
    found.see([Server().look(0), Server().look(1), gone(BEGAN + 2)])
    seen = found.assess(3.0, BEGAN + 3)
    assert seen.no_answer is not None
    assert seen.no_answer.since == BEGAN + 2
    assert seen.look is not None
    found.see([Server().look(4)])
    assert found.assess(4.0, BEGAN + 4).no_answer is None


def test_silence_is_told_before_the_session_notices_that_its_network_is_cut() -> None:
    found = assessor()
    found.see([Server().look(0)])
    assert found.assess(2.0, BEGAN + 2).no_answer is None
    seen = found.assess(10.0, BEGAN + 10)
    assert seen.no_answer is not None
    assert seen.no_answer.since == pytest.approx(BEGAN)


def test_a_server_that_answers_a_look_slowly_is_not_silent() -> None:
    found = assessor()
    found.see([Server().look(0)])
    seen = found.assess(10.0, BEGAN + 10, answered_s=1.0)
    assert seen.no_answer is None
    assert seen.slow_s == pytest.approx(9.0)
    assert found.assess(2.0, BEGAN + 2, answered_s=1.0).slow_s is None
    for now_s, answered_s in ((10.0, None), (2.0 + PATIENCE_S, 1.0)):
        silent = found.assess(now_s, BEGAN + now_s, answered_s)
        assert silent.no_answer is not None
        assert silent.slow_s is None


def test_a_server_that_was_never_seen() -> None:
    found = assessor()
    found.see([gone()])
    seen = found.assess(1.0, BEGAN)
    assert seen.look is None
    assert seen.no_answer is not None
    assert seen.no_answer.hint == "Is it running?"


def test_the_next_checkpoint_comes_by_time_or_by_size() -> None:
    slow = assessed(Server(wal_bytes_per_s=MB)).checkpoint
    assert slow is not None
    assert not slow.is_by_size
    assert slow.next_s == pytest.approx(270)
    fast = assessed(Server(wal_bytes_per_s=20 * MB)).checkpoint
    assert fast is not None
    assert fast.is_by_size
    # 1 GB / 1.9 since the redo point, of which 100 MB are there.
    assert fast.next_s == pytest.approx((1024 / 1.9 - 100) / 20, rel=1e-3)


def test_the_archive_catches_up_or_never() -> None:
    behind = assessed(Server(wal_bytes_per_s=32 * MB, archived_share=0.5)).archive
    assert behind is not None
    assert behind.caught_up_s is None
    assert behind.made_per_s == pytest.approx(2.0)
    assert behind.waiting == 30


def test_a_counter_that_is_reset_has_no_rate_until_that_is_out_of_the_window() -> None:
    """pg_stat_reset_shared, or a backend that crashes: the archiver seemed to take segments back."""
    found = assessor(room_bytes=64 << 30)
    for second in range(101):
        look = Server(archived_share=0.5).look(second)
        assert look.archiver is not None
        archived = look.archiver.archived - (500 if second >= 20 else 0)
        found.see([replace(look, archiver=replace(look.archiver, archived=archived))])
        if second not in (30, 100):
            continue
        seen = found.assess(float(second), BEGAN + second)
        assert seen.archive is not None
        assert seen.disk is not None
        (growth,) = (
            holder.growth_bytes_per_s for holder in seen.disk.holders if holder.kind is HolderKind.ARCHIVER
        )
        assert (seen.archive.archived_per_s is None) is (second == 30)
        assert (growth is None) is (second == 30)


def test_where_nothing_is_archived_there_is_no_archive() -> None:
    assert assessed(Server(settings={"archive_mode": "off"})).archive is None


def test_a_standby_is_split_by_stage_and_aged_by_when_the_upstream_passed_its_position() -> None:
    server = Server(standby=lambda lsn, second: standby(lsn, lsn - 4 * MB, lsn - 20 * MB))
    (state,) = assessed(server).standbys
    stages = {stage.stage.value: stage.lag_bytes for stage in state.split.stages if stage.lag_bytes}
    assert stages == {"write": 4 * MB, "replay": 16 * MB}
    assert state.split.lag_s == pytest.approx(10.0, abs=0.5)


def test_checkpoints_hold_what_max_wal_size_allows_and_fill_nothing() -> None:
    disk = assessed(Server(), room_bytes=20 * SEGMENT).disk
    assert disk is not None
    assert disk.holder is None
    assert disk.full_s is None


def test_servers_of_one_name_are_told_apart() -> None:
    assert unique_names(["a", "b", "a"]) == ["a #1", "b", "a #2"]
