"""How far the sync of a data directory is: places of files at the speed that is seen, on made sights."""

from __future__ import annotations

import pytest

from walproof.analysis.recovery_progress import recovery_progress
from walproof.analysis.recovery_sync import SyncCourse, SyncProgress, sync_course, sync_progress
from walproof.facts.calibration import SyncCosts
from walproof.facts.recovering import RecoveryPhase, RecoverySight, SyncPlace, SyncWalk
from walproof.report.wal.recovery_progress import progress_line

FILES = 1000
COSTS = SyncCosts(file_us=10_000.0, flush_us=90_000.0, mb_us=0.0, filesystem_us=3e6)


def course(method: str = "fsync", recent: tuple[int, ...] = ()) -> SyncCourse:
    """Files of 10 ms each, recent ones of 100 ms."""
    walk = SyncWalk({f"/data/{number}": number for number in range(FILES)}, recent)
    return sync_course(walk, method, COSTS, 0)


def sight(at_s: float, place: int | None, *, is_flushed: bool = True) -> RecoverySight:
    sync = None if place is None else SyncPlace(f"/data/{place}", is_flushed)
    return RecoverySight(at_s, RecoveryPhase.BEFORE_REDO, None, at_s + 1.0, (), sync)


def progress(*seen: RecoverySight, of: SyncCourse | None = None) -> SyncProgress:
    return sync_progress(of or course(), seen)


def test_while_nothing_is_flushed_the_forecast_holds_less_what_has_passed() -> None:
    """Of the first walk, and of what is no file of the data directory, nothing is concluded."""
    for place in (None, 500, 5 * FILES):
        found = progress(sight(1.0, place, is_flushed=False))
        assert (found.files, found.at, found.done) == (FILES, None, None)
        assert found.left.seconds == pytest.approx(10.0 - 2.0)
        assert found.left.low < found.left.seconds < found.left.high


@pytest.mark.parametrize("slowness", [0.1, 1.0, 10.0])
def test_places_tell_the_speed(slowness: float) -> None:
    seen = [sight(0.01 * slowness * place, place) for place in range(0, 501, 50)]
    found = progress(*seen)
    assert found.at == 500
    assert found.done == pytest.approx(0.5)
    assert found.left.seconds == pytest.approx(5.0 * slowness, rel=0.3)
    assert found.left.low < 5.0 * slowness < found.left.high


def test_recent_files_take_longer() -> None:
    """The second half of the order holds all that was written shortly before."""
    found = progress(sight(0.0, 0), sight(5.0, 500), of=course(recent=tuple(range(500, 600))))
    assert found.done == pytest.approx(5 / 19)
    assert found.left.seconds == pytest.approx(14.0)


def test_one_file_that_takes_long_uses_up_what_is_left() -> None:
    stuck = [sight(0.0, 0), sight(9.0, 900), *(sight(9.0 + late, 900) for late in (0.5, 5.0))]
    assert progress(*stuck[:3]).left.seconds == pytest.approx(0.5)
    assert progress(*stuck).left.seconds == 0.0


def test_the_share_never_goes_back() -> None:
    seen = [sight(0.0, 10), sight(1.0, 300), sight(2.0, None), sight(3.0, 20)]
    shares = [progress(*seen[: count + 1]).done for count in range(len(seen))]
    assert shares == [0.01, 0.3, 0.3, 0.3]


def test_methods_that_show_no_file() -> None:
    syncfs = progress(sight(0.5, None), of=course("syncfs"))
    assert syncfs.done is None
    assert syncfs.left.seconds == pytest.approx(3.0 - 1.5)
    assert progress(sight(100.0, None), of=course("syncfs")).left.seconds == 0.0
    off = progress(sight(0.0, 500), of=course("off"))
    assert (off.left.low, off.left.seconds, off.left.high) == (0.0, 0.0, 0.0)


def test_what_is_said_of_a_sync() -> None:
    unseen, seen = [sight(0.0, None)], [sight(0.0, 0), sight(5.0, 500)]
    assert progress_line(recovery_progress(None, unseen, course()), None).startswith(
        "before redo for 1 s: syncing 1,000 files of the data directory; redo in "
    )
    assert progress_line(recovery_progress(None, seen, course()), None).startswith(
        "before redo for 6 s: 50 % of the sync, 500 of 1,000 files; redo in 5 s ("
    )
    assert progress_line(recovery_progress(None, seen), None) == "before redo for 6 s"
    late = [sight(0.0, 0), sight(900.0, 999), sight(1900.0, None)]
    line = progress_line(recovery_progress(None, late, course()), None)
    assert "; redo any moment now, longer than expected; nothing has advanced" in line
    replaying = RecoverySight(6.0, RecoveryPhase.REDO, "000000010000000000000003", 7.0, ())
    assert recovery_progress(None, [*seen, replaying], course()).sync is None
