"""Puts segments together: runs of WAL without a break, and what ends each. Every segment is looked at once,
on its own timeline. A timeline that branched off within a segment begins with its own file of that segment,
which has its parent's records up to the switch. So the parent's previous segment is followed by the child's,
and two files with one number are not a gap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from walproof._native import wal_join
from walproof.units import Lsn
from walproof.wal.segment import segment_name
from walproof.wal.verify.archived import not_archived, unarchived_gap
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.facts import Begun, FileFacts, Stretch
from walproof.wal.verify.files import damage
from walproof.wal.verify.problems import Problem
from walproof.wal.verify.reading import ArchiveReading, Segment
from walproof.wal.verify.timelines import Timelines


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run goes no further."""

    reason: str
    """``newest segment``, or the kind of the problem."""
    message: str
    problem: Problem | None = None


@dataclass(slots=True)
class SegmentRun:
    """WAL of one timeline in which every record follows from the one before."""

    timeline: int
    start: Lsn
    end: Lsn
    last_number: int
    last_record: Lsn | None = None
    ending: Ending = field(default_factory=lambda: Ending("newest segment", "there is no newer segment"))
    follows_parent: bool = False
    """Whether it goes on from the parent timeline's previous segment."""
    first_time: int | None = None
    """Earliest end of a transaction, us since 1970."""
    marks: list[tuple[Lsn, int]] = field(default_factory=list)
    """Where each stretch ends, and the latest end of a transaction up to there."""
    unread_segments: int = 0
    """Segments that were not looked into."""
    carry: Begun | None = None
    """The record that begins before the end and continues in the next segment."""

    def latest_time(self, until: Lsn) -> int | None:
        """Latest end of a transaction in the stretches that end by then."""
        place = bisect_right(self.marks, until, key=lambda mark: mark[0])
        return self.marks[place - 1][1] if place else None


@dataclass(slots=True)
class Chains:
    """Runs of each timeline in order of place, and what is wrong between segments."""

    runs: dict[int, list[SegmentRun]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def holds(self, run: SegmentRun, number: int, segment_size: int) -> bool:
        """Whether a run goes on without a break after the segment with that number."""
        is_full = run.carry is not None or run.end >= (number + 1) * segment_size
        return run.last_number > number or (run.last_number == number and is_full)

    def run_at(self, timeline: int, lsn: Lsn) -> SegmentRun | None:
        """The run of a timeline's own segments that holds a location."""
        runs = self.runs.get(timeline, [])
        place = bisect_right(runs, lsn, key=lambda run: run.start)
        if not place:
            return None
        run = runs[place - 1]
        return run if lsn <= run.end or run.carry is not None else None


def build_chains(reading: ArchiveReading, timelines: Timelines, backups: Sequence[ArchivedBackup]) -> Chains:
    """Join the segments of an archive."""
    chains, completed = Chains(), timelines.completed()
    for timeline in sorted(reading.segments):
        has_history = timeline in timelines.ancestors
        _Builder(reading, completed, chains, backups, timeline, has_history=has_history).build()
    return chains


def gap(
    reading: ArchiveReading,
    timeline: int,
    first: int,
    last: int,
    backups: Sequence[ArchivedBackup] = (),
    around: tuple[int, int] | None = None,
) -> list[Problem]:
    """The problems that segments are missing, in order of place. ``last``: the last of them. ``around``: the
    first and last of all that are missing there, if some are of another timeline."""
    whole = _missing(reading, timeline, first, last, backups, around)
    if whole.kind == "expired":
        return [whole]
    return [
        (not_archived if is_here else _missing)(reading, timeline, start, end)
        for is_here, start, end in unarchived_gap(reading, timeline, first, last)
    ]


def _missing(
    reading: ArchiveReading,
    timeline: int,
    first: int,
    last: int,
    backups: Sequence[ArchivedBackup] = (),
    around: tuple[int, int] | None = None,
) -> Problem:
    size = reading.segment_size
    start, end = reading.start_of(first), reading.start_of(last + 1)
    names = [segment_name(reading.start_of(number), timeline, size) for number in (first, last)]
    count = last - first + 1
    what = f"segment {names[0]} is" if count == 1 else f"{count} segments, {names[0]} to {names[1]}, are"
    partial = reading.partials.get((timeline, first))
    also = f"; there is only {partial.file.path}" if partial is not None else ""
    stops = {(backup.stop - 1) // size for backup in backups}
    starts = {backup.start // size for backup in backups}
    before, after = around or (first, last)
    is_expired = before - 1 in stops and after + 1 in starts
    return Problem(
        "expired" if is_expired else "missing",
        f"{what} missing{also}",
        None, names[0], names[1] if count > 1 else None, count, timeline, start, end,
    )  # fmt: skip


class _Builder:
    """The runs of one timeline."""

    def __init__(
        self,
        reading: ArchiveReading,
        timelines: Timelines,
        chains: Chains,
        backups: Sequence[ArchivedBackup],
        timeline: int,
        *,
        has_history: bool,
    ) -> None:
        self._reading, self._chains, self._backups = reading, chains, backups
        self._timeline, self._timelines, self._has_history = timeline, timelines, has_history
        self._own = reading.segments[timeline]
        forks = [
            end // reading.segment_size
            for other in reading.segments
            for ancestor, end in timelines.ancestors.get(other, ())
            if ancestor == timeline
        ]
        # The segment of a fork is in its child's file: the one before is not the newest, and has to be full.
        self._last = max(*self._own, *forks, 0)
        self._runs: list[SegmentRun] = chains.runs.setdefault(timeline, [])
        self._run: SegmentRun | None = None
        self._around: tuple[int, int] | None = None
        """First and last of the segments that are missing around the fork; None where none is before it."""

    def build(self) -> None:
        """Go through the timeline's segments in order."""
        expected = self._begin()
        for number in sorted(self._own):
            if expected is not None and number > expected:
                problems = gap(
                    self._reading, self._timeline, expected, number - 1, self._backups, self._around
                )
                self._chains.problems += problems
                problem = problems[0]
                self._close(Ending(problem.kind, problem.message, problem))
            self._add(self._own[number])
            expected = number + 1
            self._around = None
        self._close(None)

    def _begin(self) -> int | None:
        """Go on from the parent's WAL. Returns the number of the segment to begin with; None if that is not
        known."""
        branch = self._timelines.parent(self._timeline)
        older = [timeline for timeline in self._reading.segments if timeline < self._timeline]
        if older and not self._has_history:
            self._chains.problems.append(_no_history(self._timeline, max(older)))
        if branch is None:
            return None
        first = branch[1] // self._reading.segment_size
        older = [number for number in self._older() if number < first]
        if not older:
            return None  # the archive begins with this timeline
        owner = self._timelines.owner(self._timeline, first - 1, self._reading.segment_size)
        before = self._reading.segments.get(owner, {}).get(first - 1)
        if before is None:
            begun = min((number for number in self._own if number >= first), default=first)
            self._around = (max(older) + 1, begun - 1)
            self._chains.problems += gap(
                self._reading, owner, max(older) + 1, first - 1, self._backups, self._around
            )
        elif first in self._own and (edge := self._edge(before)) is not None:
            start = self._reading.start_of(first)
            self._run = SegmentRun(self._timeline, start, start, first, follows_parent=True)
            self._run.last_record, self._run.carry, self._run.unread_segments = edge
        return first

    def _older(self) -> Iterator[int]:
        """Numbers of the segments that there are on the way to this timeline."""
        size = self._reading.segment_size
        for timeline in self._timelines.path(self._timeline)[:-1]:
            for number in self._reading.segments.get(timeline, {}):
                if self._timelines.owner(self._timeline, number, size) == timeline:
                    yield number

    def _edge(self, segment: Segment) -> tuple[Lsn | None, Begun | None, int] | None:
        """Last record of an older timeline's segment, and the record that continues after it; None if it ends
        early."""
        facts, end = segment.facts, self._reading.start_of(segment.number + 1)
        if not segment.is_usable:
            return None
        if facts is None:
            return None, None, 1
        run = self._chains.run_at(segment.timeline, Lsn(end - 1))
        if run is not None and run.last_number == segment.number and (run.end == end or run.carry):
            return run.last_record, run.carry, 0
        if facts.tail is None and (not facts.stretches or facts.stretches[-1].end < end):
            return None
        return (facts.stretches[-1].last if facts.stretches else None), facts.tail, 0

    def _add(self, segment: Segment) -> None:
        if not segment.is_usable:
            self._close(self._unusable(segment))
            return
        start = self._reading.start_of(segment.number)
        end = self._reading.start_of(segment.number + 1)
        facts = segment.facts
        if facts is None:
            # It was not looked into, and is taken for what its name says.
            run = self._run or self._open(start, segment.number)
            run.end, run.last_number, run.last_record, run.carry = end, segment.number, None, None
            run.unread_segments += 1
            return
        first = _first_stretch(facts, start)
        if self._run is not None and not self._joins(segment, first):
            self._close(self._run.ending)
        if self._run is not None and self._run.carry is not None and first is not None and not first.records:
            self._run.last_number = segment.number  # nothing but the middle of one record
            return
        if _is_begun(facts):
            run = self._run or self._open(start, segment.number)
            run.last_number, run.carry = segment.number, facts.tail
            return
        for stretch in facts.stretches:
            if stretch is first:
                if self._run is None:
                    self._open(self._known_from(segment, stretch), segment.number)
            else:
                if self._run is not None:
                    self._close(self._damage(segment))
                self._open(stretch.start, segment.number)
            self._extend(stretch, segment.number)
        if facts.end is not None:
            self._close(self._ended(segment))
        if self._run is None:
            return
        if facts.tail is not None:
            self._run.carry = facts.tail
        elif self._run.end < end:
            # The rest is damaged, or belongs to a damaged record.
            self._close(self._damage(segment))

    def _known_from(self, segment: Segment, stretch: Stretch) -> Lsn:
        """Where a run begins if nothing comes before it: not in the rest of a record."""
        assert segment.facts is not None
        has_rest = segment.facts.head in ("rest", "broken")
        return (stretch.first or stretch.end) if has_rest else stretch.start

    def _open(self, start: Lsn, number: int) -> SegmentRun:
        self._run = SegmentRun(self._timeline, start, start, number)
        return self._run

    def _extend(self, stretch: Stretch, number: int) -> None:
        run = self._run
        assert run is not None
        run.end, run.last_number = stretch.end, number
        run.last_record = stretch.last or run.last_record
        if stretch.times is not None:
            earliest, latest = stretch.times
            run.first_time = earliest if run.first_time is None else min(run.first_time, earliest)
            run.marks.append((stretch.end, max(latest, run.marks[-1][1] if run.marks else latest)))

    def _joins(self, segment: Segment, first: Stretch | None) -> bool:
        """Whether a segment follows from the run's last one; if not, the run's ending says why."""
        run, facts = self._run, segment.facts
        assert run is not None
        assert facts is not None
        start = self._reading.start_of(segment.number)
        if first is None and not _is_begun(facts):
            run.ending = self._damage(segment)
            return False
        unread = run.unread_segments > 0 and run.last_record is None and run.carry is None
        message, previous = None, run.last_record
        carry, run.carry = run.carry, None
        begun = start if first is None else (first.first or start)
        place = Lsn(carry[0]) if carry is not None else begun
        if facts.head in ("rest", "broken") and not unread:
            if carry is None:
                message = f"contrecord is requested by {start}"
            elif facts.rest is not None:  # else it was given up
                version = facts.version or 0
                run.carry, message = wal_join(carry, facts.rest, previous, version)
                if message is None:
                    previous = place
                    run.last_record = run.last_record if run.carry is not None else place
        elif facts.head == "record" and carry is not None:
            message = f"there is no contrecord flag at {place}"
        is_known = message is None and previous is not None and run.carry is None
        if is_known and first is not None and first.first is not None and first.first_previous != previous:
            place = first.first
            message = f"record with incorrect prev-link {first.first_previous} at {place}"
        if message is None:
            return True
        problem = self._break(segment, message, place, previous)
        self._chains.problems.append(problem)
        run.ending = Ending(problem.kind, problem.message, problem)
        return False

    def _break(self, segment: Segment, message: str, place: Lsn, previous: Lsn | None) -> Problem:
        """What is wrong with the record at ``place``, over the edge to a segment or the first one in it."""
        is_link = "prev-link" in message
        is_damage = "checksum" in message  # both parts agree that they belong together
        return Problem(
            "damaged" if is_damage else "chain",
            message, segment.file.path, segment.file.name, timeline=self._timeline, lsn=place, offset=0,
            cause="checksum" if is_damage else "link" if is_link else "continuation",
            expected=f"previous record at {previous}" if is_link else None,
            got=message.split(" at ")[0].split()[-1] if is_link else None,
        )  # fmt: skip

    def _damage(self, segment: Segment) -> Ending:
        """The first damage at the run's end or after it."""
        assert segment.facts is not None
        end = self._run.end if self._run is not None else Lsn(0)
        faults = [*segment.facts.faults, *([segment.facts.end] if segment.facts.end else [])]
        if not faults:
            place = self._reading.start_of(segment.number)
            problem = Problem(
                "damaged", f"the WAL at {place} is damaged", segment.file.path, segment.file.name,
                timeline=self._timeline, lsn=place,
            )  # fmt: skip
            self._chains.problems.append(problem)
            return Ending(problem.kind, problem.message, problem)
        fault = next((candidate for candidate in faults if candidate.lsn >= end), faults[-1])
        return Ending("damaged", fault.message, damage(segment.file, fault))

    def _ended(self, segment: Segment) -> Ending:
        """What comes after the last record of a segment that is not full."""
        assert segment.facts is not None
        fault = segment.facts.end
        assert fault is not None
        is_last = segment.number == self._last
        is_live = any(segment.file.path.startswith(f"{folder}/") for folder in self._reading.archive.live)
        if is_last and (segment.facts.is_clean_end or is_live):
            kind = "unfinished" if segment.facts.is_clean_end else "ended early"
            end = self._run.end if self._run is not None else fault.lsn
            message = f"the last record of timeline {self._timeline} ends at {end}"
            problem = Problem(
                kind, message, segment.file.path, segment.file.name, timeline=self._timeline,
                lsn=end, offset=fault.offset,
            )  # fmt: skip
            self._chains.problems.append(problem)
            return Ending("newest segment", message, problem)
        problem = damage(segment.file, fault)
        self._chains.problems.append(problem)
        return Ending("damaged", fault.message, problem)

    def _unusable(self, segment: Segment) -> Ending:
        said = [problem for problem in self._reading.problems if problem.path == segment.file.path]
        return Ending(said[0].kind, said[0].message, said[0])

    def _close(self, ending: Ending | None) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        if ending is not None:
            run.ending = ending
        if run.end > run.start or run.follows_parent:
            self._runs.append(run)


def _first_stretch(facts: FileFacts, start: Lsn) -> Stretch | None:
    """The stretch that a segment begins with; None if its beginning is damaged, or no record ends in it.

    A head can be broken without damage: a server crashed in the record and later gave its rest up. Then
    records follow in the same stretch. Damage would have ended the stretch before its first record."""
    first = facts.stretches[0] if facts.stretches else None
    if first is None or first.start != start or (facts.head == "broken" and not first.records):
        return None
    return first


def _is_begun(facts: FileFacts) -> bool:
    """Whether a segment holds nothing but the first part of one record, which begins at its first byte."""
    return facts.tail is not None and not facts.stretches and not facts.faults


def _no_history(timeline: int, older: int) -> Problem:
    name = f"{timeline:08X}.history"
    return Problem(
        "history missing",
        f"there is WAL of timelines {older} and {timeline}, and no {name}",
        timeline=timeline,
    )


def partial_ends(reading: ArchiveReading) -> Iterator[tuple[int, int, Lsn, str]]:
    """(timeline, number, where its last record ends, path) of partial segments that hold records."""
    for (timeline, number), segment in sorted(reading.partials.items()):
        if segment.facts is not None and segment.is_usable and segment.facts.stretches:
            yield timeline, number, segment.facts.stretches[-1].end, segment.file.path
