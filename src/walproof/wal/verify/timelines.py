"""Histories of timelines: which branched off which, and where (``readTimeLineHistory``, timeline.c)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from walproof._native import wal_text
from walproof.errors import UnitError, WalError
from walproof.units import Lsn
from walproof.wal.places.opened import call
from walproof.wal.places.place import FileSource, file_path
from walproof.wal.verify.problems import Problem
from walproof.wal.verify.reading import ArchiveReading, Segment

_PAGE = 8192


@dataclass(slots=True)
class Timelines:
    """How the timelines of an archive hang together."""

    ancestors: dict[int, tuple[tuple[int, Lsn], ...]] = field(default_factory=dict)
    """For each timeline: each ancestor and where it was left, oldest first."""
    problems: list[Problem] = field(default_factory=list)

    def parent(self, timeline: int) -> tuple[int, Lsn] | None:
        """The parent timeline, and where it was left."""
        known = self.ancestors.get(timeline)
        return known[-1] if known else None

    def path(self, timeline: int) -> tuple[int, ...]:
        """The timeline with its ancestors, oldest first."""
        return (*(ancestor for ancestor, _ in self.ancestors.get(timeline, ())), timeline)

    def owner(self, timeline: int, number: int, segment_size: int) -> int:
        """The timeline, on the way to ``timeline``, whose segment of that number a restore reads."""
        begun = Lsn(0)
        owner = self.path(timeline)[0]
        for ancestor, end in self.ancestors.get(timeline, ()):
            if begun // segment_size <= number:
                owner = ancestor
            begun = end
        return timeline if begun // segment_size <= number else owner

    def owners(self, timeline: int, segment_size: int) -> tuple[int, ...]:
        """The timelines on the way to ``timeline`` that own segments, oldest first: none that was left in the
        segment in which it began, because the next one's file has all of its records."""
        found: list[int] = []
        begun = -1
        for ancestor, end in self.ancestors.get(timeline, ()):
            if end // segment_size > begun:
                found.append(ancestor)
            begun = end // segment_size
        return (*found, timeline)

    def completed(self) -> Timelines:
        """The same with the ancestors of timelines whose own history is missing, where the history of a later
        timeline names them."""
        found = dict(self.ancestors)
        for ancestors in self.ancestors.values():
            for place, (ancestor, _) in enumerate(ancestors[1:], start=1):
                found.setdefault(ancestor, ancestors[:place])
        return Timelines(found)

    def switch(self, timeline: int, child: int) -> Lsn:
        """Where the way to ``child`` leaves an ancestor."""
        return next(end for ancestor, end in self.ancestors[child] if ancestor == timeline)


def read_timelines(reading: ArchiveReading) -> Timelines:
    """Read all histories of an archive, and compare them with each other and with the WAL."""
    found = Timelines()
    paths: dict[int, str] = {}
    for timeline, file in sorted(reading.archive.listing.histories, key=_place):
        path = file_path(file)
        try:
            ancestors = parse_history(call(reading.archive.places, wal_text, file), timeline)
        except WalError as error:
            found.problems.append(Problem("history damaged", error.message, path, timeline=timeline))
            continue
        known = found.ancestors.setdefault(timeline, ancestors)
        paths.setdefault(timeline, path)
        if known != ancestors:
            found.problems.append(
                Problem(
                    "switch point",
                    f"another history of timeline {timeline} says something else: {paths[timeline]}",
                    path, timeline=timeline, expected=_text(known), got=_text(ancestors),
                )
            )  # fmt: skip
    for timeline in found.ancestors:
        found.problems += _disagreements(found, timeline, paths)
        found.problems += _switch(reading, found, timeline, paths)
    return found


def _place(history: tuple[int, FileSource]) -> tuple[int, str]:
    return history[0], file_path(history[1])


def parse_history(text: str, timeline: int) -> tuple[tuple[int, Lsn], ...]:
    """Each ancestor and where it was left, oldest first, by a timeline's history. Raises WalError."""
    ancestors: list[tuple[int, Lsn]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            ancestor, end = int(words[0]), Lsn.parse(words[1])
        except (ValueError, IndexError, UnitError):
            raise WalError(f"invalid line {number} of a timeline history: {line.strip()[:80]!r}") from None
        if ancestor >= timeline or (ancestors and (ancestor <= ancestors[-1][0] or end < ancestors[-1][1])):
            raise WalError(f"line {number} of a timeline history is out of order: {line.strip()[:80]!r}")
        ancestors.append((ancestor, end))
    if not ancestors:
        raise WalError("the timeline history has no line that names an ancestor")
    return tuple(ancestors)


def _text(ancestors: tuple[tuple[int, Lsn], ...]) -> str:
    return ", ".join(f"timeline {timeline} to {end}" for timeline, end in ancestors)


def _disagreements(found: Timelines, timeline: int, paths: Mapping[int, str]) -> list[Problem]:
    """Check that a history begins with that of its timeline's parent."""
    *older, (parent, _) = found.ancestors[timeline]
    known = found.ancestors.get(parent)
    if known is None or known == tuple(older):
        return []
    return [
        Problem(
            "switch point",
            f"the histories of timelines {parent} and {timeline} tell different stories",
            paths[timeline], timeline=timeline, lsn=older[-1][1] if older else None,
            expected=_text(known), got=_text(tuple(older)) or "no older timeline",
        )
    ]  # fmt: skip


def _switch(
    reading: ArchiveReading, found: Timelines, timeline: int, paths: Mapping[int, str]
) -> list[Problem]:
    """Check that the WAL switches to a timeline where its history says."""
    parent, end = found.ancestors[timeline][-1]
    segment = reading.segments.get(timeline, {}).get(end // reading.segment_size)
    if segment is None or not segment.is_usable or segment.facts is None:
        return []
    switches = [switch for stretch in segment.facts.stretches for switch in stretch.switches]
    if any(to == timeline and before == parent and _is_at(lsn, end) for lsn, to, before in switches):
        return []
    tail = segment.facts.tail
    if tail is not None and _is_at(Lsn(tail[0]), end):
        return []  # the record that switches goes on in the next segment
    if segment.facts.faults and all(not start <= end < stop for start, stop in _stretches(segment)):
        return []  # the place is damaged, which is said already
    said = [f"timeline {before} to {to} at {lsn}" for lsn, to, before in switches]
    return [
        Problem(
            "switch point",
            f"the WAL does not switch to timeline {timeline} where its history says",
            paths[timeline], segment.file.name, timeline=timeline, lsn=end,
            expected=f"timeline {parent} to {timeline} at {end}",
            got=", ".join(said) or "no switch in the segment",
        )
    ]  # fmt: skip


def _is_at(lsn: Lsn, end: Lsn) -> bool:
    """Whether a record stands at that end of the WAL, apart from page headers and a record that was given
    up."""
    return end <= lsn <= (end // _PAGE + 1) * _PAGE + 128


def _stretches(segment: Segment) -> list[tuple[Lsn, Lsn]]:
    assert segment.facts is not None
    return [(stretch.start, stretch.end) for stretch in segment.facts.stretches]
