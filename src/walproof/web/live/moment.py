"""What the page keeps of a watched server's look: the figures of its plots, and its sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from walproof.advise.watch.concern import Concern, Severity
from walproof.facts.wal_causes import RmgrWal
from walproof.facts.watch import StreamPhase
from walproof.facts.watch_sizes import SizeCurve
from walproof.report.watch.panels import Panel, panels
from walproof.report.watch.plain import notes
from walproof.report.watch.view import ServerView, about, known_lag_s, splits

IMAGES = "page images"
MARKS = {0: "●", int(Severity.WARNING): "▲", int(Severity.CRITICAL): "✖"}
"""Marks beside the colour, for readers who cannot tell colours apart."""
WORDS = {0: "fine", int(Severity.WARNING): "warning", int(Severity.CRITICAL): "critical"}
Rates = tuple[tuple[str, float], ...]
"""What writes the WAL, and how many bytes a second."""


@dataclass(frozen=True, slots=True)
class StandbyMoment:
    """A standby, as seen from its upstream or from both servers."""

    name: str
    lag_s: float | None
    """None where it was late before anybody looked, and that was a moment ago."""
    lag_bytes: int


@dataclass(frozen=True, slots=True)
class Moment:
    """One server at a moment. None stands for a value that was not known then."""

    at: float
    """Unix time of the observer."""
    covers_s: float
    """The time that it covers: from one look to the next, or a minute of looks."""
    answers: bool
    about: str
    severity: int
    warm: float | None = None
    """Seconds of crash recovery, with the range that holds 9 of 10 recoveries."""
    warm_low: float | None = None
    warm_high: float | None = None
    cold: float | None = None
    target: float | None = None
    wal_bytes_per_s: float | None = None
    causes: Rates = ()
    pg_wal_bytes: int | None = None
    room_bytes: int | None = None
    held_bytes: int | None = None
    """WAL since the oldest position that somebody needs."""
    waiting: int | None = None
    """Segments that the archiver has not archived."""
    checkpoint_at: float | None = None
    """When the last completed checkpoint began."""
    standbys: tuple[StandbyMoment, ...] = ()
    panels: tuple[Panel, ...] = ()
    concerns: tuple[Concern, ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    notes: tuple[str, ...] = ()
    gone: str = ""
    """Why the server does not answer."""
    streams: bool = False
    """Whether its WAL is streamed."""
    sizes: SizeCurve | None = None
    syncs: bool = False
    """Whether ``warm`` includes the sync of the data directory."""

    @property
    def mark(self) -> str:
        """Mark of its severity."""
        return MARKS[self.severity]

    @property
    def severity_word(self) -> str:
        """Its severity in a word."""
        return WORDS[self.severity]


def moment_of(view: ServerView, at: float, covers_s: float, causes: Rates) -> Moment:
    """The moment that is kept of a view."""
    seen, look = view.seen, view.seen.look
    events = tuple((event.at, event.text) for event in seen.events)
    if seen.no_answer is not None:
        return Moment(
            at, covers_s, False, about(view), view.severity, concerns=view.concerns, events=events,
            gone=seen.no_answer.reason, target=view.target_s,
            streams=view.stream.phase is not StreamPhase.OFF, sizes=view.sizes,
        )  # fmt: skip
    clock, disk = view.clock, seen.disk
    return Moment(
        at=at,
        covers_s=covers_s,
        answers=True,
        about=about(view),
        severity=view.severity,
        warm=None if clock is None else clock.warm.seconds,
        warm_low=None if clock is None else clock.warm.low,
        warm_high=None if clock is None else clock.warm.high,
        cold=None if clock is None else clock.cold.seconds,
        target=view.target_s,
        wal_bytes_per_s=seen.wal_bytes_per_s,
        causes=causes,
        pg_wal_bytes=None if disk is None else disk.pg_wal_bytes,
        room_bytes=None if disk is None else disk.room_bytes,
        held_bytes=None if disk is None or not disk.holders else disk.holders[0].held_bytes,
        waiting=None if seen.archive is None else seen.archive.waiting,
        checkpoint_at=None if look is None or look.checkpoint is None else look.checkpoint.at,
        standbys=tuple(
            StandbyMoment(name, known_lag_s(view, name, split), split.lag_bytes)
            for name, split in splits(view).items()
        ),
        panels=panels(view),
        concerns=view.concerns,
        events=events,
        notes=tuple(notes(view)),
        streams=view.stream.phase is not StreamPhase.OFF and look is not None and not look.is_in_recovery,
        sizes=view.sizes,
        syncs=clock is not None and clock.sync is not None,
    )


def sharing(moment: Moment, before: Moment) -> Moment:
    """The same moment, which holds what is equal to the one before only once with it: a day of looks at many
    servers stays in memory, and most of what is said does not change from one look to the next."""
    kept: dict[str, Any] = {
        name: getattr(before, name)
        for name in ("about", "concerns", "events", "notes", "gone", "standbys", "sizes")
        if getattr(moment, name) == getattr(before, name)
    }
    known = {panel: panel for panel in before.panels}
    return replace(moment, panels=tuple(known.get(panel, panel) for panel in moment.panels), **kept)


def merged(moments: Sequence[Moment]) -> Moment:
    """One moment for all of them: the worst values, the mean of the rates, and what the worst look said.

    If one of them has no answer, the result has none: no gap is hidden.
    """
    last = moments[-1]
    if len(moments) == 1:
        return last
    # What is said fits the severity that stands above it: no answer, or the last of the worst.
    gone = next((moment for moment in moments if not moment.answers), None)
    said = gone or max(reversed(moments), key=lambda moment: moment.severity)
    worst = max(moments, key=lambda moment: -1.0 if moment.warm is None else moment.warm)
    rates = [moment.wal_bytes_per_s for moment in moments if moment.wal_bytes_per_s is not None]
    sums: dict[str, float] = {}
    known = [moment for moment in moments if moment.causes]
    for moment in known:
        for name, value in moment.causes:
            sums[name] = sums.get(name, 0.0) + value / len(known)
    lags: dict[str, StandbyMoment] = {}
    for moment in moments:
        for standby in moment.standbys:
            known_s = lags[standby.name].lag_s if standby.name in lags else None
            if known_s is None or (standby.lag_s or 0.0) > known_s:
                lags[standby.name] = standby
    return replace(
        last,
        covers_s=sum(moment.covers_s for moment in moments),
        answers=gone is None,
        about=said.about,
        severity=max(moment.severity for moment in moments),
        warm=worst.warm,
        warm_low=worst.warm_low,
        warm_high=worst.warm_high,
        cold=worst.cold,
        wal_bytes_per_s=fmean(rates) if rates else None,
        causes=tuple(sums.items()),
        pg_wal_bytes=_most(moment.pg_wal_bytes for moment in moments),
        held_bytes=_most(moment.held_bytes for moment in moments),
        waiting=_most(moment.waiting for moment in moments),
        standbys=tuple(lags.values()),
        panels=said.panels,
        concerns=said.concerns,
        notes=said.notes,
        gone=said.gone,
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def rates_between(then: Mapping[str, RmgrWal], now: Mapping[str, RmgrWal], seconds: float) -> Rates:
    """Bytes a second between two totals of a stream: page images together, records by resource manager.

    Empty if the later total is of another stream.
    """
    if seconds <= 0:
        return ()
    none = RmgrWal(0, 0, 0, 0)
    pairs = {rmgr: (wal, then.get(rmgr, none)) for rmgr, wal in now.items()}
    if any(wal.records < before.records for wal, before in pairs.values()):
        return ()
    images = sum(wal.image_bytes - before.image_bytes for wal, before in pairs.values())
    found = [(IMAGES, images / seconds)] if images else []
    records = {rmgr: wal.record_bytes - before.record_bytes for rmgr, (wal, before) in pairs.items()}
    found += [(rmgr, grown / seconds) for rmgr, grown in records.items() if grown]
    return tuple(found) or ((IMAGES, 0.0),)
