"""Where in the WAL a time begins and ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from walproof._native import wal_span
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.opened import Path, reading
from walproof.wal.progress import Observe


@dataclass(frozen=True, slots=True)
class Span:
    """Part of some WAL."""

    start: Lsn | None
    """None: from the first record at hand."""
    end: Lsn | None
    """None: to the last one."""
    doubt: str | None = None
    """Why it may not be what was asked for, if no transaction ended in it."""


def find_span(
    *paths: Path,
    since_s: float | None = None,
    until_s: float | None = None,
    timeline: int | None = None,
    observe: Observe | None = None,
) -> Span:
    """The WAL that may have been written between two moments (Unix times): from where the last transaction
    ended before ``since_s`` to where the first one ends after ``until_s``, whatever is between these.

    Looks into a few segments, since later ones have later times; a clock that was set back misleads it.
    Raises WalError where no record is in between, and as ``stats`` does, but not for damage and gaps.
    """
    with reading(paths) as wal:
        (start, end), has_records, covered = wal.call(
            wal_span, wal.sources, _microseconds(since_s), _microseconds(until_s), timeline,
            observe=wal.observed(observe),
        )  # fmt: skip
    doubt = None if covered is None else _say_covered(since_s, until_s, covered)
    if not has_records:
        raise WalError(
            f"no WAL here was written {_words(since_s, until_s)}",
            detail=doubt,
            hint="wal stats --by minute shows when WAL was written." if covered else None,
        )
    return Span(None if start is None else Lsn(start), None if end is None else Lsn(end), doubt)


def say_moment(unix_s: float) -> str:
    """``2026-11-27 14:30:00+01:00``: by the local clock, as ``--since`` takes it."""
    return datetime.fromtimestamp(unix_s).astimezone().isoformat(" ", "seconds")


def _words(since_s: float | None, until_s: float | None) -> str:
    since = "" if since_s is None else f"since {say_moment(since_s)}"
    until = "" if until_s is None else f"until {say_moment(until_s)}"
    return " ".join(filter(None, (since, until)))


def _say_covered(since_s: float | None, until_s: float | None, covered: list[int]) -> str:
    if not covered:
        return "No transaction ended in this WAL, so that nothing tells its time."
    first, last = (say_moment(moment / 1e6) for moment in covered)
    return (
        f"No transaction ended {_words(since_s, until_s)}: the first one in this WAL ended at {first}, the "
        f"last one at {last}."
    )


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
