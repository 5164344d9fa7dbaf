"""The what-if curve of a watched server: today's point, the advised one, and when nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_whatif import GB, HOUR_US, PRESENT, make, recorded
from tests.watching import Server, slot
from walproof.advise.watch.sizes import size_curve
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.watch.away import TimesAway
from walproof.analysis.watch.disk import watched_keepers
from walproof.analysis.whatif import Question
from walproof.facts.watch import WatchedSlot
from walproof.facts.watch_sizes import SizeCurve
from walproof.units import Lsn
from walproof.wal.whatif import SourceFacts

QUESTION = Question(PRESENT, is_present_known=True, with_others=False)
NONE = ServerLimits()


def curve(
    limits: ServerLimits = NONE, facts: SourceFacts | None = None, s_per_gb: float | None = None
) -> SizeCurve:
    found = make(QUESTION, facts).found
    away = None if s_per_gb is None else lambda distance: s_per_gb * distance / GB
    made = size_curve(found, QUESTION, limits, away, 600_000)
    assert made is not None
    return made


def test_it_has_todays_point_and_the_advised_one() -> None:
    found = curve()
    assert found.present is not None
    assert found.present.max_wal_size_mb == found.present_mb == 1024
    assert found.present.wal_bytes_per_hour == pytest.approx(9 * GB, rel=0.02)
    assert found.advised is not None
    assert found.advised.wal_bytes_per_hour < 0.5 * found.present.wal_bytes_per_hour
    assert found.changes == (("max_wal_size", f"{found.advised.max_wal_size_mb // 1024}GB"),)
    assert found.advised.max_wal_size_mb in [point.max_wal_size_mb for point in found.points]
    sizes = [point.max_wal_size_mb for point in found.points]
    assert sizes == sorted(sizes)
    assert all(point.low <= point.wal_bytes_per_hour <= point.high for point in found.points)


def test_limits_bound_what_is_advised() -> None:
    free, bounded = curve(), curve(ServerLimits(wal_disk_bytes=4 * GB))
    assert free.advised is not None
    assert bounded.advised is not None
    assert bounded.advised.max_wal_size_mb <= 2048 < free.advised.max_wal_size_mb
    quick = curve(ServerLimits(recovery_s=30.0), s_per_gb=10.0)
    assert quick.advised is not None
    assert quick.advised.recovery_s is not None
    assert quick.advised.recovery_s <= 30.0
    # What a recovery takes is not known without a crash clock.
    assert curve(ServerLimits(recovery_s=1.0)).advised == free.advised


def test_a_sample_of_pages_widens_the_band() -> None:
    found = make(QUESTION).found
    outcomes = tuple(
        replace(outcome, sample_error_bytes=0.05 * outcome.wal_bytes) for outcome in found.outcomes
    )
    sampled = size_curve(replace(found, outcomes=outcomes), QUESTION, NONE, None, 0)
    exact = curve()
    assert sampled is not None
    assert sampled.present is not None
    assert exact.present is not None
    assert sampled.sample_error == pytest.approx(0.05)
    assert sampled.present.high > 1.09 * exact.present.high
    assert sampled.present.low < exact.present.low / 1.09


def test_too_little_says_nothing() -> None:
    found = make(QUESTION).found
    short = replace(found, recorded=recorded(last_time_us=HOUR_US // 100))
    assert size_curve(short, QUESTION, NONE, None, 0) is None
    small = replace(found, end=Lsn(1 << 20))
    assert size_curve(small, QUESTION, NONE, None, 0) is None
    timeless = replace(found, recorded=recorded(first_time_us=None, last_time_us=None))
    assert size_curve(timeless, QUESTION, NONE, None, 0) is None


def test_times_away_are_the_longest_seen_and_in_proportion_beyond() -> None:
    times = TimesAway(100.0)
    assert times.curve() is None
    times.see(0.0, 1 << 20, 1.0)
    assert times.curve() is None
    times.see(1.0, GB / 2, 20.0)
    times.see(2.0, GB / 2, 10.0)
    times.see(3.0, GB, 15.0)
    found = times.curve()
    assert found is not None
    assert found.seconds(GB / 2) == pytest.approx(20.0)
    assert found.seconds(GB) == pytest.approx(20.0)
    assert found.seconds(4 * GB) == pytest.approx(80.0)
    times.see(200.0, GB / 2, 5.0)
    again = times.curve()
    assert again is not None
    assert again.seconds(GB / 2) == pytest.approx(5.0)


def test_a_sync_of_the_data_directory_is_no_longer_for_more_wal() -> None:
    times = TimesAway(100.0)
    times.see(0.0, GB, 40.0, 30.0)
    found = times.curve()
    assert found is not None
    assert found.seconds(GB) == pytest.approx(40.0)
    assert found.seconds(4 * GB) == pytest.approx(70.0)


@pytest.mark.parametrize(
    ("slots", "settings", "usable_gb"),
    [
        ([], {"archive_mode": "off"}, 20),
        ([], {}, 15),
        ([], {"wal_keep_size": "16GB"}, 14),
        ([slot()], {"archive_mode": "off"}, 10),
        ([slot()], {"max_slot_wal_keep_size": "30GB"}, 10),
        ([slot()], {"max_slot_wal_keep_size": "8GB"}, 15),
        ([replace(slot(), is_temporary=True)], {"archive_mode": "off"}, 20),
    ],
)
def test_who_keeps_wal_leaves_less_room(
    slots: list[WatchedSlot], settings: dict[str, str], usable_gb: int
) -> None:
    """As `walproof advise` has it of the same server, with a room of 30 GB."""
    room = 30 << 30
    look = Server(slots=slots, settings=settings).look(0)
    assert watched_keepers(look, room).usable_bytes(room) == usable_gb << 30
