"""The plots of a watched server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from walproof.units import format_bytes, format_duration
from walproof.web.live.moment import IMAGES, Moment
from walproof.web.live.plot import Plot, PlotLine, Value, dated

_CAUSES_MOST = 5
_STANDBYS_MOST = 7
_STACKED = (1, 3, 4, 2, 5, 6)
"""Colours of causes; neighbours also differ in lightness."""
_LATE = 3.0
"""A pause longer than this multiple of the time that a moment covers is a gap."""
REST = "other records"
ALL = "all WAL"


def plots(moments: Sequence[Moment], since: float, until: float) -> tuple[Plot, ...]:
    """The plots that have anything to show. ``moments``: oldest first."""
    if not moments:
        return ()
    frame = _Frame(moments, since, until)
    return tuple(plot for make in (_clock, _causes, _pg_wal, _archive, _standbys) for plot in make(frame))


class _Frame:
    """The times that all plots of a server share."""

    def __init__(self, moments: Sequence[Moment], since: float, until: float) -> None:
        self.moments = moments
        self.since, self.until = since, until
        self.at = tuple(moment.at for moment in moments)
        pairs = enumerate(pairwise(moments))
        self.breaks = frozenset(
            place
            for place, (moment, later) in pairs
            if not later.answers
            or not moment.answers
            or later.at - moment.at > _LATE * max(moment.covers_s, later.covers_s) + 2
        )
        self.checkpoints = tuple(
            (at, f"checkpoint began {dated(at)}")
            for at in dict.fromkeys(moment.checkpoint_at for moment in moments)
            if at is not None
        )

    def values(self, figure: Callable[[Moment], float | None]) -> tuple[Value, ...]:
        return tuple(figure(moment) if moment.answers else None for moment in self.moments)


def _clock(frame: _Frame) -> Iterator[Plot]:
    warm = frame.values(lambda moment: moment.warm)
    if all(seconds is None for seconds in warm):
        return
    lines = [
        PlotLine(
            "if it crashed now", 1, warm, low=frame.values(lambda moment: moment.warm_low),
            high=frame.values(lambda moment: moment.warm_high),
        ),
        PlotLine("if the machine were lost", 0, frame.values(lambda moment: moment.cold)),
    ]  # fmt: skip
    targets = frame.values(lambda moment: moment.target)
    if any(target is not None for target in targets):
        lines.append(PlotLine("target", 2, targets, is_limit=True))
    known = [moment.syncs for moment in frame.moments if moment.warm is not None]
    line = " if the machine were lost" if any(known) else ""
    since = ", and before it was known" if any(known) and not all(known) else ""
    yield Plot(
        "clock", "Crash recovery, if it crashed then",
        "Band: the range that holds 9 of 10 recoveries. Vertical lines: checkpoints. "
        f"The sync of the data directory before redo is not included{line}{since}.",
        frame.since, frame.until, frame.at, frame.breaks, tuple(lines), format_duration, is_seconds=True,
        marks=frame.checkpoints,
    )  # fmt: skip


def _causes(frame: _Frame) -> Iterator[Plot]:
    sums: dict[str, float] = {}
    for moment in frame.moments:
        for name, value in moment.causes:
            sums[name] = sums.get(name, 0.0) + value
    if sums:
        ranked = sorted((name for name in sums if name != IMAGES), key=lambda name: -sums[name])
        named = [IMAGES, *ranked[:_CAUSES_MOST]]
        rest = set(ranked[_CAUSES_MOST:])

        def of(name: str) -> Callable[[Moment], float | None]:
            return lambda moment: dict(moment.causes).get(name, 0.0) if moment.causes else None

        lines = [
            PlotLine(name, colour, frame.values(of(name)))
            for colour, name in zip(_STACKED, named, strict=False)
        ]
        if rest:
            lines.append(
                PlotLine(
                    REST, 7, frame.values(
                        lambda moment: sum(rate for name, rate in moment.causes if name in rest)
                        if moment.causes else None
                    ),
                )
            )  # fmt: skip
        note = "Full-page images of all resource managers together, then records by resource manager."
    else:
        rates = frame.values(lambda moment: moment.wal_bytes_per_s)
        if all(rate is None for rate in rates):
            return
        lines = [PlotLine(ALL, 1, rates)]
        note = "It is split by cause if the WAL is streamed (REPLICATION)."
    yield Plot(
        "wal", "WAL by cause", note, frame.since, frame.until, frame.at, frame.breaks, tuple(lines), _rate,
        is_stacked=True, is_bytes=True, marks=frame.checkpoints,
    )  # fmt: skip


def _pg_wal(frame: _Frame) -> Iterator[Plot]:
    size = frame.values(lambda moment: moment.pg_wal_bytes)
    held = frame.values(lambda moment: moment.held_bytes)
    if all(value is None for value in (*size, *held)):
        return
    lines = [PlotLine("pg_wal", 1, size), PlotLine("needed by somebody", 0, held)]
    rooms = frame.values(lambda moment: moment.room_bytes)
    if any(room is not None for room in rooms):
        lines.append(PlotLine("room", 2, rooms, is_limit=True))
    lines = [line for line in lines if any(value is not None for value in line.values)]
    yield Plot(
        "pg_wal", "pg_wal", "Needed: from the oldest position that a checkpoint, slot, archiver or "
        "wal_keep_size keeps. The rest is recycled.", frame.since, frame.until, frame.at,
        frame.breaks, tuple(lines), _size, is_bytes=True, marks=frame.checkpoints,
    )  # fmt: skip


def _archive(frame: _Frame) -> Iterator[Plot]:
    waiting = frame.values(lambda moment: moment.waiting)
    if all(count is None for count in waiting):
        return
    yield Plot(
        "archive", "Segments that wait for the archiver", "", frame.since, frame.until, frame.at,
        frame.breaks,
        (PlotLine("waiting", 3, waiting),), lambda value: f"{value:,.0f}",
    )  # fmt: skip


def _standbys(frame: _Frame) -> Iterator[Plot]:
    known = (standby for moment in frame.moments for standby in moment.standbys if standby.lag_s is not None)
    names = list(dict.fromkeys(standby.name for standby in known))
    if not names:
        return

    def of(name: str) -> Callable[[Moment], float | None]:
        return lambda moment: next(
            (standby.lag_s for standby in moment.standbys if standby.name == name), None
        )

    lines = tuple(
        PlotLine(name, colour, frame.values(of(name))) for colour, name in enumerate(names[:_STANDBYS_MOST])
    )
    left_out = f" {len(names) - _STANDBYS_MOST} more are not drawn." if len(names) > _STANDBYS_MOST else ""
    yield Plot(
        "standbys", "Age of what standbys have replayed",
        f"Seen from the upstream alone, it may be 10 s too high.{left_out}", frame.since, frame.until,
        frame.at, frame.breaks, lines, format_duration, is_seconds=True,
    )  # fmt: skip


def _rate(value: float) -> str:
    return f"{format_bytes(round(value))}/s"


def _size(value: float) -> str:
    return format_bytes(round(value))
