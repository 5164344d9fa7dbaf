"""The what-if curve of a watched server as HTML: a drawing that stretches as plots do, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

from walproof.facts.watch_sizes import SizeCurve, SizePoint
from walproof.report.figures.wal_curve import size_label
from walproof.report.numbers import UNKNOWN
from walproof.sentences import say_percent
from walproof.units import format_bytes, format_duration
from walproof.web.live.plot import HEIGHT, WIDTH, ceiling, day, framed, path_of

_NOW, _ADVISED = "now", "advised"
_NEAR = 2.0
"""A range up to this multiple of the highest point is in the plot."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A line of the table."""

    size: str
    mark: str
    """``now``, ``advised``, or empty."""
    wal: str
    span: str
    away: str
    reads: str
    sure: str


@dataclass(frozen=True, slots=True)
class SizePicture:
    """WAL an hour as a function of max_wal_size."""

    curve: SizeCurve

    @property
    def sentence(self) -> str:
        """What to do, in words."""
        present, advised = self.curve.present, self.curve.advised
        now = "" if present is None else (
            f"Now, with {self._label(present)}: {_rate(present.wal_bytes_per_hour)}, "
            f"simulated for steady operation{self._seen}. "
        )  # fmt: skip
        if advised is None:
            return f"{now}No other setting saves a tenth of the WAL within the given limits."
        settings = ", ".join(f"{name} = {value}" for name, value in self.curve.changes)
        away = "" if advised.recovery_s is None else (
            f", and a crash recovery at most {format_duration(advised.recovery_s)}"
        )  # fmt: skip
        wal = f"{_rate(advised.wal_bytes_per_hour)} ({_span(advised)})"
        return (
            f"{now}Advised: {settings}: {wal}{away}; how sure: {advised.sure}. "
            '"walproof advise" has the lines to paste, and what they cost.'
        )

    @property
    def _seen(self) -> str:
        """What was written in the time that is simulated; rates of other panels are of shorter times."""
        seconds = self.curve.until - self.curve.since
        if self.curve.gaps or seconds <= 0:
            return ""
        rate = _rate(self.curve.wal_bytes / seconds * 3600)
        return f" (written in these {format_duration(seconds)}: {rate})"

    @property
    def note(self) -> str:
        """Which WAL the curve is simulated from, and how large its error may be."""
        curve = self.curve
        gaps = f" with {curve.gaps} gaps" if curve.gaps > 1 else " with a gap" if curve.gaps else ""
        if curve.held_pages >= curve.pages:
            followed, band = f"all {curve.pages:,} pages that it touched were followed", "what is expected"
        else:
            followed = (
                f"{curve.held_pages:,} of about {curve.pages:,} pages that it touched were followed, "
                f"a standard error of {say_percent(curve.sample_error)} of the WAL"
            )
            band = "what is expected, with that error twice"
        cut = " It continues above the plot." if self._most > self._top else ""
        return (
            f"Simulated from {format_bytes(curve.wal_bytes)} of WAL{gaps}, "
            f"{day(curve.since)} to {day(curve.until)}; {followed}. Band: {band}.{cut} "
            "Time away: from the crash clock; beyond what it has seen, in proportion to the WAL."
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the horizontal axis, each in the middle of its part."""
        return tuple(self._label(point) for point in self.curve.points)

    @property
    def y_labels(self) -> tuple[str, str, str]:
        """Labels of the top, the middle and zero of the vertical axis."""
        return _rate(self._top), _rate(self._top / 2), "0"

    @property
    def rows(self) -> tuple[SizeRow, ...]:
        """The points, smallest size first; then what is advised, where it has another checkpoint_timeout."""
        rows = [self._row(point, self._label(point), self._mark(point)) for point in self.curve.points]
        other = self._other
        if other is not None:
            timeout = format_duration(other.checkpoint_timeout_s or 0)
            rows.append(self._row(other, f"{self._label(other)}, checkpoint_timeout = {timeout}", _ADVISED))
        return tuple(rows)

    @property
    def caption(self) -> str:
        """What the rows of the table have in common."""
        timeout_s = self.curve.points[0].checkpoint_timeout_s
        if timeout_s is None:
            return "WAL of the last hours under other sizes of max_wal_size"
        return (
            "WAL of the last hours under other sizes of max_wal_size, with checkpoint_timeout = "
            f"{format_duration(timeout_s)} as now{' where a row names no other' if self._other else ''}"
        )

    def _row(self, point: SizePoint, label: str, mark: str) -> SizeRow:
        return SizeRow(
            label, mark, _rate(point.wal_bytes_per_hour), _span(point),
            UNKNOWN if point.recovery_s is None else format_duration(point.recovery_s),
            _bytes(point.redo_bytes_most), point.sure,
        )  # fmt: skip

    def describe(self) -> str:
        """What the drawing shows, for a reader who cannot see it."""
        points = ", ".join(
            f"{self._label(point)} {_rate(point.wal_bytes_per_hour)}" for point in self.curve.points
        )
        return f"WAL an hour by max_wal_size: {points}. {self.sentence}"

    def svg(self) -> Markup:
        """The drawing alone."""
        points = self.curve.points
        parts: list[str] = []
        xs = [self._x(place) for place in range(len(points))]
        upper = [(x, self._y(point.high)) for x, point in zip(xs, points, strict=True)]
        lower = [(x, self._y(point.low)) for x, point in zip(xs, points, strict=True)]
        parts.append(f'<path class="band c1" d="{path_of([*upper, *reversed(lower)])}Z"/>')
        line = [(x, self._y(point.wal_bytes_per_hour)) for x, point in zip(xs, points, strict=True)]
        parts.append(f'<path class="line c1" d="{path_of(line)}"/>')
        for x, point in zip(xs, points, strict=True):
            parts += self._dot(x, point, self._mark(point))
        if self._other is not None:
            # It is off the curve, which has the present checkpoint_timeout.
            parts += [
                part
                for x, point in zip(xs, points, strict=True)
                if point.max_wal_size_mb == self._other.max_wal_size_mb
                for part in self._dot(x, self._other, _ADVISED)
            ]
        return framed(parts, self.describe())

    def _dot(self, x: float, point: SizePoint, mark: str) -> Iterator[str]:
        y = self._y(point.wal_bytes_per_hour)
        colour = "c4" if mark == _ADVISED else "c0"
        if mark:
            dash = "" if mark == _ADVISED else " dash"
            yield f'<path class="line {colour}{dash}" d="M{x:.1f} 0V100"/>'
        look = f"big {colour}" if mark else "c1"
        rate = _rate(point.wal_bytes_per_hour)
        title = f"{self._label(point)}{f', {mark}' if mark else ''}: {rate}"
        yield f'<path class="dot {look}" d="M{x:.1f} {y:.1f}h0"><title>{escape(title)}</title></path>'

    def _label(self, point: SizePoint) -> str:
        return size_label(point.max_wal_size_mb)

    @property
    def _other(self) -> SizePoint | None:
        """What is advised, where it has another checkpoint_timeout than the points."""
        advised = self.curve.advised
        timeouts = {point.checkpoint_timeout_s for point in self.curve.points}
        return None if advised is None or advised.checkpoint_timeout_s in timeouts else advised

    def _mark(self, point: SizePoint) -> str:
        if point.max_wal_size_mb == self.curve.present_mb:
            return _NOW
        advised = self.curve.advised
        is_advised = advised is not None and point.max_wal_size_mb == advised.max_wal_size_mb
        return _ADVISED if is_advised and self._other is None else ""

    @property
    def _most(self) -> float:
        return max(point.high for point in self.curve.points)

    @property
    def _top(self) -> float:
        """The upper end of the axis. A range that is far above the curve does not flatten it."""
        advised = 0.0 if self.curve.advised is None else self.curve.advised.wal_bytes_per_hour
        highest = max(advised, *(point.wal_bytes_per_hour for point in self.curve.points))
        return ceiling(max(highest, min(self._most, _NEAR * highest)), is_bytes=True)

    def _x(self, place: int) -> float:
        return WIDTH * (place + 0.5) / len(self.curve.points)

    def _y(self, value: float) -> float:
        return HEIGHT - HEIGHT * min(value, self._top) / self._top


def _bytes(value: float) -> str:
    return format_bytes(round(value))


def _rate(bytes_per_hour: float) -> str:
    return f"{_bytes(bytes_per_hour)}/h"


def _span(point: SizePoint) -> str:
    return f"{_rate(point.low)} to {_rate(point.high)}"
