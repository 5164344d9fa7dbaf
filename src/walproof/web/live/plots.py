"""Which plots a watched server has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from walproof.report.watch.panels import clock_time
from walproof.units import format_bytes, format_duration
from walproof.web.live.moment import IMAGES, Moment
from walproof.web.live.plot import Line, Plot, Value

_CAUSES_MOST = 5
_STANDBYS_MOST = 7
_STACKED = (1, 3, 4, 2, 5, 6)
"""Colours of causes; neighbours differ in lightness, too."""
_LATE = 3.0
"""Times what a moment covers: a longer pause is a gap."""
REST = "other records"
ALL = "all WAL"


def plots(moments: Sequence[Moment], since: float, until: float) -> tuple[Plot, ...]:
    """Those for which there is anything to show, oldest moment first."""
    if not moments:
        return ()
    frame = _Frame(moments, since, until)
    return tuple(plot for make in (_clock, _causes, _pg_wal, _archive, _standbys) for plot in make(frame))


class _Frame:
    """The times that all plots of a server share."""

    def __init__(self, moments: Sequence[Moment], since: float, until: float) -> None:
        self.moments = moments
        self.since, self.until = since, until
        self.at = tuple(one.at for one in moments)
        pairs = enumerate(pairwise(moments))
        self.breaks = frozenset(
            place
            for place, (one, other) in pairs
            if not other.answers
            or not one.answers
            or other.at - one.at > _LATE * max(one.covers_s, other.covers_s) + 2
        )
        self.checkpoints = tuple(
            (at, f"checkpoint began {clock_time(at)}")
            for at in dict.fromkeys(one.checkpoint_at for one in moments)
            if at is not None
        )

    def values(self, figure: Callable[[Moment], float | None]) -> tuple[Value, ...]:
        return tuple(figure(one) if one.answers else None for one in self.moments)


def _clock(frame: _Frame) -> Iterator[Plot]:
    warm = frame.values(lambda one: one.warm)
    if all(one is None for one in warm):
        return
    lines = [
        Line(
            "if it crashed now", 1, warm, low=frame.values(lambda one: one.warm_low),
            high=frame.values(lambda one: one.warm_high),
        ),
        Line("if the machine were lost", 0, frame.values(lambda one: one.cold)),
    ]  # fmt: skip
    targets = frame.values(lambda one: one.target)
    if any(one is not None for one in targets):
        lines.append(Line("target", 2, targets, is_limit=True))
    yield Plot(
        "clock", "Crash recovery, if it crashed then",
        "Band: the range that holds 9 of 10 recoveries. Vertical lines: checkpoints. "
        "The sync of the data directory before redo is not included.",
        frame.since, frame.until, frame.at, frame.breaks, tuple(lines), format_duration, is_seconds=True,
        marks=frame.checkpoints,
    )  # fmt: skip


def _causes(frame: _Frame) -> Iterator[Plot]:
    sums: dict[str, float] = {}
    for one in frame.moments:
        for name, value in one.causes:
            sums[name] = sums.get(name, 0.0) + value
    if sums:
        ranked = sorted((name for name in sums if name != IMAGES), key=lambda name: -sums[name])
        named = [IMAGES, *ranked[:_CAUSES_MOST]]
        rest = set(ranked[_CAUSES_MOST:])

        def of(name: str) -> Callable[[Moment], float | None]:
            return lambda one: dict(one.causes).get(name, 0.0) if one.causes else None

        lines = [
            Line(name, colour, frame.values(of(name))) for colour, name in zip(_STACKED, named, strict=False)
        ]
        if rest:
            lines.append(
                Line(
                    REST, 7, frame.values(
                        lambda one: sum(v for n, v in one.causes if n in rest) if one.causes else None
                    ),
                )
            )  # fmt: skip
        note = "Full-page images of all resource managers together, then records by resource manager."
    else:
        rates = frame.values(lambda one: one.wal_bytes_per_s)
        if all(one is None for one in rates):
            return
        lines = [Line(ALL, 1, rates)]
        note = "By cause where WAL is streamed (REPLICATION)."
    yield Plot(
        "wal", "WAL by cause", note, frame.since, frame.until, frame.at, frame.breaks, tuple(lines), _rate,
        is_stacked=True, is_bytes=True, marks=frame.checkpoints,
    )  # fmt: skip


def _pg_wal(frame: _Frame) -> Iterator[Plot]:
    size = frame.values(lambda one: one.pg_wal_bytes)
    held = frame.values(lambda one: one.held_bytes)
    if all(one is None for one in (*size, *held)):
        return
    lines = [Line("pg_wal", 1, size), Line("needed by somebody", 0, held)]
    rooms = frame.values(lambda one: one.room_bytes)
    if any(one is not None for one in rooms):
        lines.append(Line("room", 2, rooms, is_limit=True))
    lines = [line for line in lines if any(one is not None for one in line.values)]
    yield Plot(
        "pg_wal", "pg_wal", "Needed: from the oldest position that a checkpoint, slot, archiver or "
        "wal_keep_size keeps. The rest is recycled.", frame.since, frame.until, frame.at,
        frame.breaks, tuple(lines), _size, is_bytes=True, marks=frame.checkpoints,
    )  # fmt: skip


def _archive(frame: _Frame) -> Iterator[Plot]:
    waiting = frame.values(lambda one: one.waiting)
    if all(one is None for one in waiting):
        return
    yield Plot(
        "archive", "Segments that wait for the archiver", "", frame.since, frame.until, frame.at,
        frame.breaks,
        (Line("waiting", 3, waiting),), lambda value: f"{value:,.0f}" if value >= 1 else f"{value:.1f}",
    )  # fmt: skip


def _standbys(frame: _Frame) -> Iterator[Plot]:
    names = list(dict.fromkeys(standby.name for one in frame.moments for standby in one.standbys))
    if not names:
        return

    def of(name: str) -> Callable[[Moment], float | None]:
        return lambda one: next((each.lag_s for each in one.standbys if each.name == name), None)

    lines = tuple(
        Line(name, colour, frame.values(of(name))) for colour, name in enumerate(names[:_STANDBYS_MOST])
    )
    left_out = f" {len(names) - _STANDBYS_MOST} more are not drawn." if len(names) > _STANDBYS_MOST else ""
    yield Plot(
        "standbys", "Age of what standbys have replayed",
        f"Seen from the upstream alone it may be 10 s too high.{left_out}", frame.since, frame.until,
        frame.at, frame.breaks, lines, format_duration, is_seconds=True,
    )  # fmt: skip


def _rate(value: float) -> str:
    return f"{format_bytes(round(value))}/s"


def _size(value: float) -> str:
    return format_bytes(round(value))
