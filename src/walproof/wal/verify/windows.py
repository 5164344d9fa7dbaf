"""To which moments each base backup can be restored, and what ends each window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from walproof.units import Lsn
from walproof.wal.segment import segment_start
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.chain import Chains, Ending, SegmentRun, gap, partial_ends
from walproof.wal.verify.problems import KINDS, Problem
from walproof.wal.verify.reading import ArchiveReading
from walproof.wal.verify.timelines import Timelines


@dataclass(frozen=True, slots=True)
class RestoreWindow:
    """What can be restored from one backup along one timeline."""

    backup: ArchivedBackup
    timeline: int
    """``recovery_target_timeline``."""
    start: Lsn
    """Earliest ``recovery_target_lsn``, where the backup is consistent."""
    end: Lsn
    """Where the last record ends."""
    last_record: Lsn | None
    """Latest ``recovery_target_lsn`` that is reached, which is the location of the last record."""
    start_time: float | None
    """Unix time from which ``recovery_target_time`` is fine."""
    end_time: float | None
    """End of the latest transaction (Unix time): ``recovery_target_time`` has to lie before it."""
    ending: Ending
    unread_segments: int
    """Segments on the way that were not looked into."""
    partial: tuple[str, Lsn] | None = None
    """A partial segment that continues from there, and where its last record ends."""


@dataclass(frozen=True, slots=True)
class ArchiveRange:
    """WAL of one timeline without a break."""

    timeline: int
    start: Lsn
    end: Lsn
    last_record: Lsn | None
    start_time: float | None
    end_time: float | None
    ending: Ending
    follows_parent: bool
    unread_segments: int


def ranges(chains: Chains) -> tuple[ArchiveRange, ...]:
    """All runs, by timeline and place."""
    return tuple(
        ArchiveRange(
            timeline, run.start, run.end, run.last_record, _seconds(run.first_time),
            _seconds(run.marks[-1][1] if run.marks else None), run.ending, run.follows_parent,
            run.unread_segments,
        )
        for timeline, runs in sorted(chains.runs.items())
        for run in runs
        if run.end > run.start
    )  # fmt: skip


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1e6


def windows(
    reading: ArchiveReading, timelines: Timelines, chains: Chains, backups: Sequence[ArchivedBackup]
) -> tuple[tuple[RestoreWindow, ...], tuple[Problem, ...]]:
    """A window for each backup and timeline that it can be restored along; backups that cannot be
    restored."""
    found: list[RestoreWindow] = []
    problems: list[Problem] = []
    partials = {(timeline, number): (path, end) for timeline, number, end, path in partial_ends(reading)}
    for backup in backups:
        found_here = list(_windows(reading, timelines, chains, backup, partials))
        found += [item for item in found_here if isinstance(item, RestoreWindow)]
        problems += [item for item in found_here if isinstance(item, Problem)]
    return tuple(found), tuple(problems)


def _windows(
    reading: ArchiveReading,
    timelines: Timelines,
    chains: Chains,
    backup: ArchivedBackup,
    partials: dict[tuple[int, int], tuple[str, Lsn]],
) -> Iterator[RestoreWindow | Problem]:
    targets = [backup.last_timeline] + [
        timeline
        for timeline in sorted(set(reading.segments) | set(timelines.ancestors))
        if backup.last_timeline in timelines.path(timeline)[:-1]
        and timelines.switch(backup.last_timeline, timeline) >= backup.stop
    ]
    reached = [_Way(reading, timelines, chains, backup, target).walk() for target in targets]
    if all(way.end < backup.stop for way in reached):
        if _is_expiring(reading, timelines, backup):
            return
        way = max(reached, key=lambda chain: chain.end)
        ending = way.ending
        where = "none of it is there" if way.end <= backup.start else f"it is there up to {way.end}"
        # A label that was left does not say that its backup is still kept.
        kind = "label" if backup.tool == "label" else "own WAL" if backup.has_own_wal else "backup unusable"
        place = ", which its own pg_wal has; in the archive " if backup.has_own_wal else ", and "
        yield Problem(
            kind,
            f"backup {backup.name} needs WAL from {backup.start} to {backup.stop}{place}{where}: "
            f"{ending.message}",
            backup.path, ending.problem.segment if ending.problem else None, timeline=backup.timeline,
            lsn=way.end, end_lsn=backup.stop,
        )  # fmt: skip
        return
    restorable = [way.window(partials) for way in reached if way.is_at_target and way.end >= backup.stop]
    for window in restorable:
        # The way to another timeline may lead through all of it.
        others = [
            longer.timeline
            for longer in restorable
            if window.timeline in timelines.path(longer.timeline)[:-1]
        ]
        if all(timelines.switch(window.timeline, other) < window.end for other in others):
            yield window


def _is_expiring(reading: ArchiveReading, timelines: Timelines, backup: ArchivedBackup) -> bool:
    """Whether WAL that a backup needs went while files were read: the backup expires with it."""
    first, last = backup.start // reading.segment_size, (backup.stop - 1) // reading.segment_size
    path = (backup.timeline, *timelines.path(backup.last_timeline))
    return any(timeline in path and first <= number <= last for timeline, number in reading.gone)


def with_later_backups(
    problems: Iterable[Problem], found: Sequence[RestoreWindow], timelines: Timelines, segment_size: int
) -> Iterator[Problem]:
    """The problems, with the first usable backup that begins after each, where that changes what to do."""
    # A label does not say that its backup is still kept, so nobody may rely on it.
    usable = sorted(
        {window.backup for window in found if window.backup.tool != "label"},
        key=lambda backup: (backup.start, backup.name),
    )
    for problem in problems:
        later = None
        if KINDS[problem.kind].advice_if_older and (place := _end(problem, segment_size)) is not None:
            timeline, end = place
            following = (backup for backup in usable if backup.start >= end)
            later = next(
                (backup.name for backup in following if timeline in timelines.path(backup.timeline)), None
            )
        yield problem if later is None else replace(problem, later_backup=later)


def _end(problem: Problem, size: int) -> tuple[int, int] | None:
    """(timeline, end) of a fault: backups begin after the whole segment that it is in."""
    name = problem.last_segment or problem.segment
    if name is None:
        if problem.timeline is None or problem.end_lsn is None:
            return None
        return problem.timeline, problem.end_lsn
    timeline = int(name[:8], 16) if problem.timeline is None else problem.timeline
    return timeline, max(int(problem.end_lsn or 0), segment_start(name, size) + size)


class _Way:
    """The WAL from a backup's start along the path to one timeline."""

    def __init__(
        self,
        reading: ArchiveReading,
        timelines: Timelines,
        chains: Chains,
        backup: ArchivedBackup,
        target: int,
    ) -> None:
        self._reading, self._timelines, self._chains = reading, timelines, chains
        self._backup, self._target = backup, target
        self.end = backup.start
        self.ending = Ending("missing", "the segment that it begins in is not there")
        self.is_at_target = False
        self._last_record: Lsn | None = None
        self._last_number = 0
        self._end_time: int | None = None
        self._start_time: int | None = None
        self._unread = 0

    def walk(self) -> _Way:
        """Go as far as there is WAL."""
        size, backup = self._reading.segment_size, self._backup
        timeline = self._timelines.owner(self._target, backup.start // size, size)
        if timeline < backup.timeline:
            timeline = backup.timeline
        path = self._timelines.path(self._target)
        if timeline not in path:
            return self
        owners = self._timelines.owners(self._target, size)
        rest = [step for step in path[path.index(timeline) :] if step == timeline or step in owners]
        run = self._chains.run_at(timeline, backup.start)
        if run is None:
            number = backup.start // size
            if number not in self._reading.segments.get(timeline, {}):
                (problem,) = gap(self._reading, timeline, number, number)
                self.ending = Ending(problem.kind, problem.message, problem)
            else:
                self.ending = Ending("damaged", f"the WAL at {backup.start} is damaged")
            return self
        for place, timeline in enumerate(rest):
            child = rest[place + 1] if place + 1 < len(rest) else None
            before = None if child is None else self._timelines.switch(timeline, self._target) // size - 1
            self._take(run, before)
            if child is None or before is None:
                self.is_at_target = True
                return self
            following = next(iter(self._chains.runs.get(child, ())), None)
            if not self._chains.holds(run, before, size):
                return self
            if following is None or not following.follows_parent:
                self._at_missing_child(child, before + 1)
                return self
            run = following
        return self

    def _take(self, run: SegmentRun, before: int | None) -> None:
        """Add a run, up to the segment that the next timeline begins after."""
        size = self._reading.segment_size
        is_cut = before is not None and self._chains.holds(run, before, size)
        limit = Lsn((before + 1) * size) if is_cut and before is not None else run.end
        if run.end > run.start:
            self.end = min(run.end, limit)
            self._last_number = run.last_number if before is None else min(run.last_number, before)
            self._last_record = run.last_record
        self.ending = run.ending
        self._unread += run.unread_segments
        latest = run.latest_time(limit)
        if latest is not None:
            self._end_time = latest if self._end_time is None else max(latest, self._end_time)
        early = run.latest_time(Lsn(min(limit, (self._backup.stop // size + 1) * size)))
        if early is not None and self._start_time is None:
            self._start_time = early

    def _at_missing_child(self, child: int, number: int) -> None:
        (problem,) = gap(self._reading, child, number, number)
        self.ending = Ending(problem.kind, problem.message, problem)

    def window(self, partials: dict[tuple[int, int], tuple[str, Lsn]]) -> RestoreWindow:
        """The window that was found."""
        stopped = self._backup.stopped_at
        if stopped is not None and stopped == int(stopped):
            stopped += 1  # whole seconds, cut off: it was within that second
        partial = partials.get((self._target, self._last_number + 1)) or partials.get(
            (self._target, self._last_number)
        )
        start_time = stopped if stopped is not None else _seconds(self._start_time)
        end_time = _seconds(self._end_time)
        return RestoreWindow(
            self._backup, self._target, self._backup.stop, self.end, self._last_record, start_time,
            end_time if end_time is None or start_time is None or end_time > start_time else None,
            self.ending, self._unread,
            partial if partial is not None and partial[1] > self.end else None,
        )  # fmt: skip
