"""How far a recovery is and how long it will take: work that is predicted, at the speed that is seen.

WAL is no measure of progress: a megabyte of images is replayed in a fraction of the time of a megabyte of
small records, and most pages are read from the disk at the beginning. So each place of the WAL has the
seconds of redo up to it that `recovery_costs` predicts, with a warm and with a cold cache. What was replayed
while somebody looked says how much slower or faster this recovery is: the ratio counts the more, the more
predicted seconds it rests on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from walproof.analysis.recovery_costs import Coefficients, Disk, predict
from walproof.analysis.recovery_sync import SyncCourse, SyncProgress, sync_progress
from walproof.facts.recovering import RecoveryPhase, RecoverySight
from walproof.facts.watch import Span
from walproof.units import Lsn
from walproof.wal.recovery import RecoveryAnalysis
from walproof.wal.segment import segment_start

_BELIEF_S = 2.0
"""Predicted seconds that a prediction is worth beside what was seen."""
_SEEN_BAND = 1.3
"""Factor around the time that is left, once it rests on what was seen alone."""
_ENDLESS = (RecoveryPhase.READ_ONLY, RecoveryPhase.HOT_STANDBY, RecoveryPhase.WARM_STANDBY)
"""Phases whose WAL comes from elsewhere, so that how much is left is not known."""


@dataclass(frozen=True, slots=True)
class RecoveryCourse:
    """Predicted seconds of redo up to places of the WAL."""

    places: tuple[Lsn, ...]
    """Ascending, from the redo point to the end of the WAL."""
    warm_s: tuple[float, ...]
    cold_s: tuple[float, ...]
    checkpoint_s: float
    band: float
    """Factor around predictions before anything was seen."""
    segment_size: int

    @property
    def start(self) -> Lsn:
        """The redo point."""
        return self.places[0]

    @property
    def end(self) -> Lsn:
        """Where the WAL ends."""
        return self.places[-1]


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """Where a recovery is."""

    phase: RecoveryPhase
    running_s: float | None
    """Seconds since the recovery began; None if it was over before the first look."""
    at: Lsn | None
    """Begin of the segment that is read; None outside of redo."""
    done: float | None
    """Share of redo's time, predicted with a warm cache, up to ``at``; None where it is not known. It never
    goes back."""
    wal_bytes_per_s: float | None
    """WAL that was replayed, over the time of looking; None before a second segment was seen."""
    left: Span | None
    """Seconds until the server is ready; None where they are not known, or where it is not ready after the
    longest time that was forecast. Before redo a sync that is not known comes on top."""
    stalled_s: float
    """Seconds in which nothing was seen to advance."""
    sync: SyncProgress | None = None
    """The sync of the data directory; None where it is over, or not known."""
    awaited: str | None = None
    """The segment that is restored from an archive, or waited for."""
    awaited_s: float = 0.0
    """Seconds for which it has been seen to be."""


def recovery_course(
    analysis: RecoveryAnalysis, buffers: int, coefficients: Coefficients, disk: Disk
) -> RecoveryCourse:
    """Predict each step of a simulated recovery with that many buffers."""
    found = [predict(step, buffers, coefficients, disk) for step in analysis.steps]
    # What is dropped later on is found to have been no work: a place never has less than one before it.
    warm, cold = [0.0], [0.0]
    for prediction in found:
        warm.append(max(warm[-1], prediction.warm_s))
        cold.append(max(cold[-1], prediction.cold.redo_s))
    return RecoveryCourse(
        (analysis.last.start, *(step.end for step in analysis.steps)), tuple(warm), tuple(cold),
        found[-1].checkpoint_s, coefficients.band, analysis.segment_size,
    )  # fmt: skip


def recovery_progress(
    course: RecoveryCourse | None,
    sights: Sequence[RecoverySight],
    syncing: SyncCourse | None = None,
    segment_size: int | None = None,
) -> RecoveryProgress:
    """What was seen so far, oldest first, comes to.

    ``course``, ``syncing``: None where the end of redo, or the sync, is not known. ``segment_size``: bytes of
    a segment, for a recovery without a course.
    """
    last = sights[-1]
    sync = None
    if syncing is not None and last.phase is RecoveryPhase.BEFORE_REDO:
        sync = sync_progress(syncing, sights)
    if course is None or last.phase in _ENDLESS:
        return _endless(sights, sync, segment_size)
    starts = _segment_starts(course.start, course.segment_size, sights)
    at = Lsn(starts[-1][1]) if last.phase is RecoveryPhase.REDO else None
    (first_s, first), (begun_s, now) = _measured(sights, starts)
    rate = (now - first) / (begun_s - first_s) if begun_s > first_s else None
    done, left = _left(course, sights, starts)
    if sync is not None and left is not None:
        ahead = sync.left
        left = Span(left.seconds + ahead.seconds, left.low + ahead.low, left.high + ahead.high)
    return RecoveryProgress(last.phase, last.running_s, at, done, rate, left, _stalled_s(sights), sync)


def _endless(
    sights: Sequence[RecoverySight], sync: SyncProgress | None, segment_size: int | None
) -> RecoveryProgress:
    """Of a recovery whose WAL comes from elsewhere: where it is, and what it waits for."""
    last = sights[-1]
    at = rate = None
    if segment_size is not None and not last.phase.is_last:
        # A segment that is waited for has not been replayed; what was before it has.
        places = [replace(sight, segment=sight.segment or sight.awaited) for sight in sights]
        starts = _segment_starts(Lsn(0), segment_size, places)
        if starts:
            (first_s, first), (begun_s, now) = _measured(places, starts)
            at = Lsn(starts[-1][1])
            rate = (now - first) / (begun_s - first_s) if begun_s > first_s else None
    since_s = last.at_s
    for sight in reversed(sights):
        if last.awaited is None or sight.awaited != last.awaited:
            break
        since_s = sight.at_s
    return RecoveryProgress(
        last.phase, last.running_s, at, None, rate, None, _stalled_s(sights), sync, last.awaited,
        last.at_s - since_s,
    )  # fmt: skip


def _segment_starts(
    start: Lsn, segment_size: int, sights: Sequence[RecoverySight]
) -> list[tuple[float, int]]:
    """(time, location) at which each segment was first seen."""
    starts: list[tuple[float, int]] = []
    for sight in sights:
        if sight.segment is not None:
            begin = max(int(start), segment_start(sight.segment, segment_size))
            if not starts or begin > starts[-1][1]:
                starts.append((sight.at_s, begin))
    return starts


def _measured(
    sights: Sequence[RecoverySight], starts: Sequence[tuple[float, int]]
) -> tuple[tuple[float, int], tuple[float, int]]:
    """The first and the last begin of a segment that was seen; the same where there are no two.

    The segment of the first look had been begun some time before.
    """
    seen = starts if sights[0].segment is None else starts[1:]
    if not seen:
        return (0.0, 0), (0.0, 0)
    return seen[0], seen[-1]


def _left(
    course: RecoveryCourse, sights: Sequence[RecoverySight], starts: Sequence[tuple[float, int]]
) -> tuple[float, Span | None]:
    """Share of redo that is over, and the seconds that are left; None when all that was forecast is over."""
    last = sights[-1]
    if last.phase is RecoveryPhase.OVER:
        return 1.0, Span(0.0, 0.0, 0.0)
    seconds, speed, band = _chosen(course, sights, starts)
    total = seconds[-1]
    if last.phase is RecoveryPhase.BEFORE_REDO:
        return 0.0, _span(total + course.checkpoint_s, band)
    if last.phase is RecoveryPhase.CHECKPOINT:
        begun_s = next(sight.at_s for sight in sights if sight.phase is RecoveryPhase.CHECKPOINT)
        return 1.0, _rest(_span(course.checkpoint_s * speed, band), last.at_s - begun_s)
    begun_s, begin = starts[-1]
    upper = _at(course, seconds, begin + course.segment_size)
    over = min(_at(course, seconds, begin) + (last.at_s - begun_s) / speed, upper)
    left = _rest(_span((total - over + course.checkpoint_s) * speed, band), 0.0)
    # By the place alone: what is estimated of the speed would let the share go back.
    return (_at(course, course.warm_s, begin) / course.warm_s[-1] if course.warm_s[-1] > 0 else 1.0), left


def _chosen(
    course: RecoveryCourse, sights: Sequence[RecoverySight], starts: Sequence[tuple[float, int]]
) -> tuple[tuple[float, ...], float, float]:
    """Predicted seconds (warm or cold, whichever are nearer to what was seen), speed, and band.

    ``speed``: seconds for each predicted one.
    """
    (first_s, first), (begun_s, now) = _measured(sights, starts)
    choices = []
    for seconds in (course.warm_s, course.cold_s):
        predicted = _at(course, seconds, now) - _at(course, seconds, first)
        if predicted > 0 and begun_s > first_s:
            choices.append((abs(math.log((begun_s - first_s) / predicted)), predicted, seconds))
    if not choices:
        coldest = course.cold_s[-1] / course.warm_s[-1] if course.warm_s[-1] > 0 else 1.0
        return course.warm_s, 1.0, course.band * max(1.0, coldest)
    _, predicted, seconds = min(choices)
    weight = predicted / (predicted + _BELIEF_S)
    speed = ((begun_s - first_s) / predicted) ** weight
    return seconds, speed, course.band ** (1 - weight) * _SEEN_BAND**weight


def _at(course: RecoveryCourse, seconds: Sequence[float], location: int) -> float:
    """Predicted seconds up to a location, straight between places."""
    after = bisect_right(course.places, location)
    if after == 0:
        return 0.0
    if after == len(course.places):
        return seconds[-1]
    low, high = course.places[after - 1], course.places[after]
    return seconds[after - 1] + (seconds[after] - seconds[after - 1]) * (location - low) / (high - low)


def _span(seconds: float, band: float) -> Span:
    return Span(seconds, seconds / band, seconds * band)


def _rest(span: Span, passed_s: float) -> Span | None:
    # The range is that of the whole: what was forecast too short is not surer because most of it has passed.
    rest = Span(*(max(0.0, seconds - passed_s) for seconds in (span.seconds, span.low, span.high)))
    return rest if rest.high > 0 else None


def _stalled_s(sights: Sequence[RecoverySight]) -> float:
    last = sights[-1]
    if last.phase.is_last:
        return 0.0
    same = last
    for sight in reversed(sights):
        if (sight.phase, sight.segment, sight.awaited, sight.work) != (
            last.phase, last.segment, last.awaited, last.work,
        ):  # fmt: skip
            break
        same = sight
    return last.at_s - same.at_s
