"""Where in the WAL a time begins and ends."""

from __future__ import annotations

from dataclasses import dataclass

from walproof._native import wal_span
from walproof.errors import WalError
from walproof.units import Lsn, format_utc
from walproof.wal.places.opened import Path, reading
from walproof.wal.progress import Observe


@dataclass(frozen=True, slots=True)
class Span:
    """Part of some WAL."""

    start: Lsn | None
    """None: from the first record at hand."""
    end: Lsn | None
    """None: to the last one."""


def find_span(
    *paths: Path,
    since_s: float | None = None,
    until_s: float | None = None,
    timeline: int | None = None,
    observe: Observe | None = None,
) -> Span:
    """The WAL that may have been written between two moments (Unix times): from where the last transaction
    ended before ``since_s`` to where the first one ends after ``until_s``. Other records have no time.

    Looks into a few segments, since later ones have later times; a clock that was set back misleads it.
    Raises WalError where all transactions ended before or after, and as ``stats`` does.
    """
    with reading(paths) as wal:
        start, end, is_outside, covered = wal.call(
            wal_span, wal.sources, _microseconds(since_s), _microseconds(until_s), timeline,
            observe=wal.observed(observe),
        )  # fmt: skip
    if is_outside or (start is not None and end is not None and end <= start):
        raise WalError(
            f"no transaction ended {_words(since_s, until_s)} in this WAL",
            detail=_say_covered(covered) if is_outside else None,
        )
    return Span(None if start is None else Lsn(start), None if end is None else Lsn(end))


def _words(since_s: float | None, until_s: float | None) -> str:
    since = "" if since_s is None else f"since {format_utc(since_s)}"
    until = "" if until_s is None else f"until {format_utc(until_s)}"
    return " and ".join(filter(None, (since, until)))


def _say_covered(covered: tuple[int, int] | None) -> str:
    if covered is None:
        return "No record of it has a time."
    first, last = (format_utc(moment / 1e6) for moment in covered)
    return f"The first one ended at {first}, the last one at {last}."


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
