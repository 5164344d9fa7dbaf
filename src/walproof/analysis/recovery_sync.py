"""How far the sync of a data directory before redo is: files at the speed that is seen.

A file costs what it was calibrated to cost, one with dirty pages more (`walproof.analysis.watch.sync`). The
file that is flushed now has a place in the order, so the seconds up to it are predicted; how long they took
says how much slower or faster this disk is. It counts the more, the more files it rests on. A sync by syncfs
is one call, of which nothing is seen: the forecast less the time that has passed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.watch.sync import MB, SHIPPED_SYNC, sync_forecast
from walproof.facts.calibration import SyncCosts
from walproof.facts.recovering import RecoverySight, SyncWalk
from walproof.facts.watch import DataDirectory, Span, SyncForecast

_BELIEF_FILES = 50
"""Files that were seen to be flushed weigh as much as the forecast."""
_SEEN_BAND = 1.5
"""Factor around the time that is left, once it rests on what was seen alone."""


@dataclass(frozen=True, slots=True)
class SyncCourse:
    """What is predicted of a sync."""

    walk: SyncWalk
    forecast: SyncForecast
    file_s: float
    """Predicted seconds of a file."""
    dirty_file_s: float
    """In addition, of a file with dirty pages."""

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self.walk.places)

    def seconds(self, place: int) -> float:
        """Predicted seconds of the files before that place."""
        return place * self.file_s + bisect_left(self.walk.recent, place) * self.dirty_file_s


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """Where a sync is."""

    files: int
    at: int | None
    """Files that are flushed; None where that is not seen."""
    done: float | None
    """Share of the predicted seconds; None where it is not seen."""
    left: Span


def sync_course(walk: SyncWalk, method: str, costs: SyncCosts | None, dirty_bytes: int) -> SyncCourse:
    """``method``: ``fsync``, ``syncfs``, or ``off``; ``costs``: None for the shipped ones; ``dirty_bytes``:
    of the whole machine."""
    seen = DataDirectory(
        method != "off", method, len(walk.places), len(walk.recent), dirty_bytes, is_seen=True
    )
    forecast = sync_forecast(seen, costs, 0)
    costs = costs or SHIPPED_SYNC
    dirty_s = costs.flush_us / 1e6
    if walk.recent:
        dirty_s += dirty_bytes / MB * costs.mb_us / 1e6 / len(walk.recent)
    return SyncCourse(walk, forecast, costs.file_us / 1e6, dirty_s)


def sync_progress(course: SyncCourse, sights: Sequence[RecoverySight]) -> SyncProgress:
    """What was seen of a sync that is under way, oldest first, comes to."""
    last = sights[-1]
    places = course.walk.places
    seen = [
        (sight.at_s, places[sight.sync.path])
        for sight in sights
        if sight.sync is not None and sight.sync.is_flushed and sight.sync.path in places
    ]
    span = course.forecast.span
    if not seen or span.seconds <= 0:
        passed_s = last.running_s or 0.0
        rest = (max(0.0, seconds - passed_s) for seconds in (span.seconds, span.low, span.high))
        return SyncProgress(course.files, None, None, Span(*rest))
    (first_s, first), (at_s, at) = seen[0], max(seen, key=lambda look: look[1])
    total, over = course.seconds(course.files), course.seconds(at)
    weight, speed = 0.0, 1.0
    if at > first:
        weight = (at - first) / (at - first + _BELIEF_FILES)
        speed = ((at_s - first_s) / (over - course.seconds(first))) ** weight
    band = (span.high / span.seconds) ** (1 - weight) * _SEEN_BAND**weight
    left_s = max(0.0, (total - over) * speed - (last.at_s - at_s))
    return SyncProgress(course.files, at, over / total, Span(left_s, left_s / band, left_s * band))
