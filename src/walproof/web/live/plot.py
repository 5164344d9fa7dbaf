"""A plot over time as HTML: an SVG that stretches to any width, and texts beside it that do not stretch.

Reports are drawn with Vega-Lite, whose process takes tens of milliseconds for each chart. These plots are
drawn again for every look at every server, and are a few polylines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from walproof.sentences import say_count

WIDTH, HEIGHT = 1000.0, 100.0
"""Size of the drawing in its units; it has no fixed size on the page."""
_NEAR = 4.0
"""A limit up to this multiple of all other values is in the plot."""
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 36000, 86400)
_DAY_S = 86400.0
Value = float | None


@dataclass(frozen=True, slots=True)
class PlotLine:
    """Values at the plot's times; None breaks the line."""

    name: str
    colour: int
    values: tuple[Value, ...]
    is_limit: bool = False
    """Whether the other lines are compared with it: it is drawn dashed, if they come near it."""
    low: tuple[Value, ...] = ()
    """Ends of a range that is drawn as a band behind the line."""
    high: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines, or areas on each other, over the same times."""

    id: str
    title: str
    note: str
    since: float
    until: float
    at: tuple[float, ...]
    breaks: frozenset[int]
    """Places in ``at`` after which nothing was seen for a while."""
    lines: tuple[PlotLine, ...]
    shown: Callable[[float], str]
    """Says a value in words."""
    is_stacked: bool = False
    is_seconds: bool = False
    is_bytes: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    """Marked times, and what happened at each."""

    @property
    def top(self) -> float:
        """The upper end of the axis. Limits far above everything else do not flatten it."""
        most = 0.0
        drawn = [line for line in self.lines if not line.is_limit]
        for place in range(len(self.at)):
            found = [value for line in drawn if (value := line.values[place]) is not None]
            most = max(most, sum(found) if self.is_stacked else max(found, default=0.0))
        for line in self.lines:
            limit = max((value for value in line.values if line.is_limit and value is not None), default=0.0)
            most = max(most, limit if limit <= _NEAR * most else 0.0)
        return ceiling(most, is_seconds=self.is_seconds, is_bytes=self.is_bytes)

    @property
    def caption(self) -> str:
        """The note, and how far a band goes on where it is cut off."""
        most = max((value for line in self.lines for value in line.high if value is not None), default=0.0)
        cut = f" It continues above the plot, to {self.shown(most)}." if most > self.top else ""
        return self.note + cut

    def describe(self) -> str:
        """What the plot shows, for a reader who cannot see it."""
        said = []
        for line in self.lines:
            known = [value for value in line.values if value is not None]
            if not known:
                said.append(f"{line.name} not known")
                continue
            last = line.values[-1]
            now = "not known now" if last is None else f"{self.shown(last)} at the end"
            said.append(f"{line.name} {now}, {self.shown(min(known))} to {self.shown(max(known))}")
            if line.low and line.high and (low := line.low[-1]) is not None and line.high[-1] is not None:
                said[-1] += f", range at the end {self.shown(low)} to {self.shown(line.high[-1])}"
        gaps = f"; {say_count(len(self.breaks), 'gap')}" if self.breaks else ""
        marks = f"; {say_count(len(self.marks), 'mark')}" if self.marks else ""
        since, *_, until = self.x_labels
        return f"{self.title}, {since} to {until}: {'; '.join(said)}{gaps}{marks}."

    def svg(self) -> Markup:
        """The drawing alone."""
        top = self.top
        parts: list[str] = []
        if self.is_stacked:
            parts += self._areas(top)
        else:
            for line in self.lines:
                if not line.is_limit or max((value or 0.0 for value in line.values), default=0.0) <= top:
                    parts += self._line(line, top)
        for at, text in self.marks:
            if self.since <= at <= self.until:
                x = self._x(at)
                title = f"<title>{escape(text)}</title>"
                parts.append(f'<path class="mark" d="M{x:.1f} 0V100">{title}</path>')
        for place in sorted(self.breaks):
            if place + 1 < len(self.at):
                left, right = self._x(self.at[place]), self._x(self.at[place + 1])
                width = max(1.0, right - left)
                parts.append(
                    f'<rect class="gap" x="{left:.1f}" y="0" width="{width:.1f}" height="100">'
                    "<title>nothing was seen</title></rect>"
                )
        return framed(parts, self.describe())

    @property
    def y_labels(self) -> tuple[str, str, str]:
        """Top, middle and zero of the axis."""
        top = self.top
        return self.shown(top), self.shown(top / 2), "0"

    @property
    def x_labels(self) -> tuple[str, ...]:
        """Five evenly spaced times; both ends have their dates where these differ."""
        times = [self.since + (self.until - self.since) * part / 4 for part in range(5)]
        if self.until - self.since > _DAY_S:
            return tuple(map(day, times))
        first, *between, last = times
        ends = clock if time.localtime(first)[:3] == time.localtime(last)[:3] else day
        return (ends(first), *map(clock, between), ends(last))

    @property
    def legend(self) -> tuple[tuple[str, int, str, bool], ...]:
        """(name, colour, newest value, dashed) of each line; areas are listed from the top."""
        rows, top = [], self.top
        for line in self.lines:
            last = line.values[-1] if line.values else None
            now = "not known" if last is None else self.shown(last)
            if last is not None and line.is_limit and last > top:
                now = f"{now} (above the plot)"
            rows.append((line.name, line.colour, now, line.is_limit))
        return tuple(reversed(rows) if self.is_stacked else rows)

    def _x(self, at: float) -> float:
        return WIDTH * (at - self.since) / max(1e-9, self.until - self.since)

    def _y(self, value: float, top: float) -> float:
        return HEIGHT - HEIGHT * min(value, top) / top

    def _runs(self, values: Sequence[Value]) -> Iterator[list[int]]:
        """Yield runs of places without a break between them."""
        run: list[int] = []
        for place, value in enumerate(values):
            if value is not None:
                run.append(place)
            if run and (value is None or place in self.breaks):
                yield run
                run = []
        if run:
            yield run

    def _line(self, line: PlotLine, top: float) -> Iterator[str]:
        if line.low and line.high:
            for run in self._runs(line.high):
                upper = [(self._x(self.at[place]), self._y(line.high[place] or 0.0, top)) for place in run]
                lower = [(self._x(self.at[place]), self._y(line.low[place] or 0.0, top)) for place in run]
                yield f'<path class="band c{line.colour}" d="{path_of([*upper, *reversed(lower)])}Z"/>'
        look = f"line c{line.colour}{' dash' if line.is_limit else ''}"
        for run in self._runs(line.values):
            points = [(self._x(self.at[place]), self._y(line.values[place] or 0.0, top)) for place in run]
            if len(points) == 1:
                points = [points[0], (points[0][0] + 1.0, points[0][1])]
            yield f'<path class="{look}" d="{path_of(points)}"><title>{escape(line.name)}</title></path>'

    def _areas(self, top: float) -> Iterator[str]:
        bases = [0.0] * len(self.at)
        for line in self.lines:
            for run in self._runs(line.values):
                lower = [(self._x(self.at[place]), self._y(bases[place], top)) for place in run]
                upper = [
                    (self._x(self.at[place]), self._y(bases[place] + (line.values[place] or 0.0), top))
                    for place in run
                ]
                yield (
                    f'<path class="area c{line.colour}" d="{path_of([*upper, *reversed(lower)])}Z">'
                    f"<title>{escape(line.name)}</title></path>"
                )
            bases = [base + (value or 0.0) for base, value in zip(bases, line.values, strict=True)]


def framed(parts: Sequence[str], described: str) -> Markup:
    """The parts over a grid, as a drawing that says in words what it shows."""
    grid = "".join(f'<path class="grid" d="M0 {y}H1000"/>' for y in (0, 25, 50, 75))
    return Markup(
        f'<svg class="time" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(described)}">{grid}{"".join(parts)}</svg>'
    )


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """The line through the points, for an SVG path's ``d``."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def ceiling(most: float, *, is_seconds: bool = False, is_bytes: bool = False) -> float:
    """A round number that is at least ``most``, and so is half of it, which stands in the middle of the axis.
    Bytes and counts are whole: these axes end at 2 at least."""
    if is_seconds:
        if most <= 0:
            return 1.0
        known = next((float(seconds) for seconds in _SECONDS if seconds >= most), None)
        if known is not None and most > 0.5:
            return known
    else:
        most = max(2.0, most)
    scale = 1024.0 ** math.floor(math.log(most, 1024)) if is_bytes else 1.0
    if is_bytes and most > 1000 * scale:
        scale *= 1024  # after 1000 MB comes 1 GB
    decade = 10.0 ** math.floor(math.log10(most / scale))
    steps = (1, 2, 4, 6, 10) if is_bytes else (1, 2, 5, 10) if is_seconds else (1, 2, 4, 10)
    return next(scale * decade * step for step in steps if scale * decade * step >= most * (1 - 1e-9))


def clock(at: float) -> str:
    """Time of the day, where walproof runs."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def day(at: float) -> str:
    """Date and minute, where walproof runs."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def dated(at: float) -> str:
    """Date and second, where walproof runs: for what is read on another day."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def zoned(at: float) -> str:
    """Date, minute and time zone, where walproof runs: ``2026-11-24 03:05 UTC-05:00``."""
    return f"{day(at)} {_offset(at)}"


def zone(since: float, until: float) -> str:
    """The time zone between two times; a stretch may have summer time at one end alone."""
    begin, end = _offset(since), _offset(until)
    return end if begin == end else f"{begin}, then {end}"


def _offset(at: float) -> str:
    east = time.strftime("%z", time.localtime(at))
    return f"UTC{east[:3]}:{east[3:]}"
