"""How far a recovery is: predicted work at the speed that is seen, on made sights of a made course."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.analysis.recovery_costs import SHIPPED, Disk, predict
from walproof.analysis.recovery_progress import (
    RecoveryCourse,
    RecoveryProgress,
    recovery_course,
    recovery_progress,
)
from walproof.facts.recovering import RecoveryPhase, RecoverySight
from walproof.report.wal.recovery_progress import progress_json, progress_line
from walproof.units import Lsn
from walproof.wal.recovery import analyse
from walproof.wal.segment import segment_name

MB = 1 << 20
# The first half of the WAL takes four times as long as the second; with a cold cache all of it twice as long.
COURSE = RecoveryCourse(
    places=tuple(Lsn(place * MB) for place in (100, 150, 200)),
    warm_s=(0.0, 40.0, 50.0), cold_s=(0.0, 100.0, 110.0), checkpoint_s=5.0, band=2.0, segment_size=MB,
)  # fmt: skip


def sights(slowness: float, until_s: float, *, every_s: float = 1.0) -> list[RecoverySight]:
    """Looks from before redo on; ``slowness``: seconds for each that is predicted (warm)."""
    found = [RecoverySight(0.0, RecoveryPhase.BEFORE_REDO, None, 2.0, (0,))]
    at_s = 0.0
    while (at_s := at_s + every_s) <= until_s:
        predicted = at_s / slowness
        megabytes = 100 + (predicted * 50 / 40 if predicted < 40 else 50 + (predicted - 40) * 5)
        segment = segment_name(Lsn(int(megabytes) * MB), 1, MB)
        found.append(RecoverySight(at_s, RecoveryPhase.REDO, segment, 2.0 + at_s, (int(at_s * 1e9),)))
    return found


def test_before_redo_all_of_it_is_left() -> None:
    progress = recovery_progress(COURSE, sights(1.0, 0.0))
    assert (progress.phase, progress.done, progress.at) == (RecoveryPhase.BEFORE_REDO, 0.0, None)
    assert progress.left is not None
    assert progress.left.seconds == 55.0
    assert progress.left.low < 55 / 2
    assert progress.left.high > 110, "the cache may be cold"


@pytest.mark.parametrize("slowness", [0.7, 1.0, 1.4])
def test_work_counts_and_not_bytes(slowness: float) -> None:
    """Half of the WAL is over after four fifths of the time."""
    progress = recovery_progress(COURSE, sights(slowness, 40 * slowness, every_s=0.25))
    assert progress.done == pytest.approx(0.8, abs=0.03)
    assert progress.left is not None
    assert progress.left.seconds == pytest.approx(15 * slowness, rel=0.1)
    assert progress.left.low < 15 * slowness < progress.left.high
    assert progress.wal_bytes_per_s == pytest.approx(50 * MB / (40 * slowness), rel=0.05)
    assert progress.at is not None
    assert abs(progress.at - 150 * MB) <= MB


def test_a_cold_cache_is_told_by_the_speed() -> None:
    """Seconds per place as with a cold cache: the second half is then as fast as predicted for it."""
    found = [RecoverySight(0.0, RecoveryPhase.BEFORE_REDO, None, 0.0, (0,))]
    found += [
        RecoverySight(2.0 * n, RecoveryPhase.REDO, segment_name(Lsn((100 + n) * MB), 1, MB), 2.0 * n, (n,))
        for n in range(1, 51)
    ]
    progress = recovery_progress(COURSE, found)
    assert progress.left is not None
    assert progress.left.seconds == pytest.approx(15, rel=0.1)


def test_the_band_narrows_as_more_is_seen() -> None:
    widths = []
    for until_s in (0.0, 2.0, 10.0, 40.0):
        left = recovery_progress(COURSE, sights(1.0, until_s, every_s=0.25)).left
        assert left is not None
        widths.append(left.high / left.low)
    assert all(wide > narrow for wide, narrow in pairwise(widths))
    assert widths[-1] < 2


def test_the_segment_of_the_first_look_had_begun_before() -> None:
    """Somebody who comes late measures from the next begin on."""
    progress = recovery_progress(COURSE, sights(1.2, 30.0, every_s=0.25)[60:])
    assert progress.left is not None
    assert progress.left.seconds == pytest.approx(55 * 1.2 - 30, rel=0.15)


def test_the_checkpoint_and_the_end() -> None:
    seen = sights(1.0, 50.0)
    checkpoint = [RecoverySight(at_s, RecoveryPhase.CHECKPOINT, None, at_s, (1,)) for at_s in (51.0, 53.0)]
    progress = recovery_progress(COURSE, [*seen, *checkpoint])
    assert progress.done == 1.0
    assert progress.left is not None
    assert progress.left.seconds == pytest.approx(3.0, rel=0.1)
    over = RecoverySight(56.0, RecoveryPhase.OVER, None, 58.0, ())
    progress = recovery_progress(COURSE, [*seen, *checkpoint, over])
    assert progress.left is not None
    assert (progress.left.seconds, progress.stalled_s) == (0.0, 0.0)


def in_checkpoint(until_s: float, course: RecoveryCourse = COURSE) -> RecoveryProgress:
    """Of a checkpoint that began at 50.25 s, for which 5 s are predicted."""
    begun = RecoverySight(50.25, RecoveryPhase.CHECKPOINT, None, 50.25, (1,))
    late = RecoverySight(50.25 + until_s, RecoveryPhase.CHECKPOINT, None, 50.25 + until_s, (2,))
    return recovery_progress(course, [*sights(1.0, 50.0, every_s=0.25), begun, late])


def test_a_checkpoint_that_takes_longer_than_predicted_has_the_rest_of_its_range() -> None:
    progress = in_checkpoint(5.5)
    assert progress.left is not None
    assert (progress.left.seconds, progress.left.low) == (0.0, 0.0)
    assert 0.5 < progress.left.high < 5.0
    line = progress_line(progress, COURSE)
    assert re.search(r"end of recovery; ready any moment now, within \d\.\d+ s$", line)
    nearly = progress_line(in_checkpoint(4.5), COURSE)
    assert re.search(r"; ready in \d+ ms \(0 s to \d\.\d+ s\)$", nearly)


def test_no_empty_range_is_said_of_a_server_that_is_not_ready() -> None:
    progress = in_checkpoint(60.0)
    assert progress.left is None
    assert progress_line(progress, COURSE).endswith("; ready any moment now, longer than expected")
    told = json.loads(progress_json(progress, COURSE, 0.0))
    assert (told["phase"], told["done"], told["left_s"], told["left_high_s"]) == (
        "checkpoint", 1.0, None, None,
    )  # fmt: skip


def test_the_last_segment_without_a_checkpoint_has_no_empty_range_either() -> None:
    course = replace(COURSE, checkpoint_s=0.0)
    segment = segment_name(Lsn(199 * MB), 1, MB)
    seen = [*sights(1.0, 49.0), RecoverySight(90.0, RecoveryPhase.REDO, segment, 92.0, (1,))]
    seen.append(replace(seen[-1], at_s=99.0))
    progress = recovery_progress(course, seen)
    assert progress.left is None
    assert progress_line(progress, course).endswith("; ready any moment now, longer than expected")


def test_what_does_not_advance_is_stalled() -> None:
    """A segment may take long: as long as the process computes or reads, it advances."""
    segment = segment_name(Lsn(120 * MB), 1, MB)
    busy = [RecoverySight(float(n), RecoveryPhase.REDO, segment, float(n), (n, 0)) for n in range(30)]
    assert recovery_progress(COURSE, busy).stalled_s == 0.0
    stuck = [RecoverySight(float(n), RecoveryPhase.REDO, segment, float(n), (7, 0)) for n in range(30)]
    assert recovery_progress(COURSE, stuck).stalled_s == 29.0
    assert recovery_progress(None, stuck).stalled_s == 29.0
    assert recovery_progress(None, stuck).left is None


def test_a_course_is_what_is_predicted_up_to_each_place(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    first = sorted(tmp_path.glob("0*"))[0].name
    start = Lsn(int(first[16:], 16) * MB)
    found = analyse(tmp_path, buffers=[64], start=start, marks=[Lsn(start + MB), Lsn(start + 2 * MB)])
    course = recovery_course(found, 64, SHIPPED, Disk())
    assert course.start == found.last.start
    assert course.end == found.last.end
    whole = predict(found.last, 64, SHIPPED, Disk())
    assert course.warm_s[-1] == pytest.approx(whole.warm_s)
    assert course.cold_s[-1] == pytest.approx(whole.cold.redo_s)
    assert course.checkpoint_s == whole.checkpoint_s
    assert list(course.warm_s) == sorted(course.warm_s)
    assert len(course.places) == len(course.warm_s) == len(course.cold_s) == len(found.steps) + 1


def test_the_share_never_goes_back() -> None:
    """Whatever becomes of the speed: a segment that takes long, then quick ones."""
    found = [RecoverySight(0.0, RecoveryPhase.REDO, segment_name(Lsn(110 * MB), 1, MB), 0.0, (0,))]
    at_s, shares = 0.0, []
    for megabytes, seconds in ((110, 60.0), (111, 0.1), (112, 0.1), (150, 30.0), (151, 0.1), (199, 1.0)):
        at_s += seconds
        found.append(
            RecoverySight(at_s, RecoveryPhase.REDO, segment_name(Lsn(megabytes * MB), 1, MB), at_s, (1,))
        )
        shares.append(recovery_progress(COURSE, found).done)
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    assert shares[0] == pytest.approx(8 / 50)


def replaying(phase: RecoveryPhase, until_s: int, work: int = 0) -> list[RecoverySight]:
    """Looks at a server that is up and replays; ``work``: how much it does in a second."""
    segment = segment_name(Lsn(120 * MB), 1, MB)
    return [RecoverySight(float(n), phase, segment, float(n), (n * work,)) for n in range(until_s + 1)]


def test_a_hot_standby_is_not_said_to_replay() -> None:
    """Its replay may be paused, with WAL that waits: nobody has looked."""
    line = progress_line(recovery_progress(None, replaying(RecoveryPhase.HOT_STANDBY, 1)), None)
    assert line.startswith("ready: a hot standby, which accepts read-only connections; whether it replays, ")


def test_a_recovery_to_a_target_that_stands_still_may_be_paused() -> None:
    progress = recovery_progress(None, replaying(RecoveryPhase.READ_ONLY, 9))
    said = "recovery to a target for 9 s: the server accepts read-only connections"
    assert progress_line(progress, None) == said
    stuck = recovery_progress(None, replaying(RecoveryPhase.READ_ONLY, 12))
    line = progress_line(stuck, None)
    assert "; nothing has advanced for 12 s; it may be paused at its target: SELECT pg_get" in line
    assert "pg_wal_replay_resume() or a promotion ends the recovery" in line
    working = recovery_progress(None, replaying(RecoveryPhase.READ_ONLY, 12, 1))
    assert "paused" not in progress_line(working, None)
    redo = recovery_progress(None, replaying(RecoveryPhase.REDO, 12))
    assert "nothing has advanced" in progress_line(redo, None)
    assert "paused" not in progress_line(redo, None)


def test_a_recovery_from_an_archive_says_where_it_is_and_what_it_waits_for() -> None:
    def sight(at_s: float, segment: int | None, awaited: int | None) -> RecoverySight:
        names = [None if number is None else segment_name(Lsn(number * MB), 1, MB)
                 for number in (segment, awaited)]  # fmt: skip
        return RecoverySight(at_s, RecoveryPhase.REDO, names[0], at_s, (0,), awaited=names[1])

    seen = [sight(0.0, 4, None), sight(1.0, None, 5), sight(2.0, 5, None), sight(3.0, None, 6)]
    progress = recovery_progress(None, [*seen, sight(8.0, None, 6)], segment_size=MB)
    assert (progress.at, progress.awaited_s, progress.wal_bytes_per_s) == (Lsn(6 * MB), 5.0, MB / 2)
    awaited = segment_name(Lsn(6 * MB), 1, MB)
    assert progress_line(progress, None, "recovery_target_time = '05:12'") == (
        f"redo to recovery_target_time = '05:12' for 8 s, at {Lsn(6 * MB)}, 512 kB/s; it waits for {awaited} "
        "from the archive, for 5 s now; its end is not known"
    )
    told = json.loads(progress_json(progress, None, 0.0, ""))
    assert (told["awaited"], told["awaited_s"], told["target"]) == (awaited, 5.0, "")
    # Without a segment's size there is no place, and one look is no speed.
    alone = recovery_progress(None, seen[:1])
    assert (alone.at, alone.wal_bytes_per_s, alone.awaited) == (None, None, None)


def test_a_recovery_without_a_target_is_not_said_to_be_paused_at_one() -> None:
    stuck = recovery_progress(None, replaying(RecoveryPhase.READ_ONLY, 12))
    line = progress_line(stuck, None, "")
    assert line.startswith("recovery to the end of the archive for 12 s: the server accepts read-only")
    assert line.endswith("; nothing has advanced for 12 s")


@pytest.mark.parametrize("course", [None, COURSE])
@pytest.mark.parametrize("phase", [RecoveryPhase.HOT_STANDBY, RecoveryPhase.WARM_STANDBY])
def test_a_standby_is_not_stalled_and_has_no_end(phase: RecoveryPhase, course: RecoveryCourse | None) -> None:
    progress = recovery_progress(course, replaying(phase, 30))
    assert (progress.stalled_s, progress.left, progress.done) == (0.0, None, None)
    assert ("read-only" in progress_line(progress, course)) == (phase is RecoveryPhase.HOT_STANDBY)
    assert ("accepts no connections" in progress_line(progress, course)) == (
        phase is RecoveryPhase.WARM_STANDBY
    )
