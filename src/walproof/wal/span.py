"""Where in the WAL a time begins and ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from walproof._native import wal_span
from walproof.errors import WalError
from walproof.units import Lsn, format_bytes
from walproof.wal.places.opened import Path, reading
from walproof.wal.progress import Observe

_LEFT_LEAST = 1 << 20
_LEFT_SHARE = 0.1
"""Bytes up to the next end that are told of, and their share of the span's."""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of some WAL."""

    start: Lsn | None
    """None: from the first record at hand."""
    end: Lsn | None
    """None: to the last one."""
    doubt: str | None = None
    """Why it may not be what was asked for: no transaction ended in it, or much was written up to the next
    end, and nobody knows when."""


def find_span(
    *paths: Path,
    since_s: float | None = None,
    until_s: float | None = None,
    timeline: int | None = None,
    observe: Observe | None = None,
) -> Span:
    """The WAL of the transactions that ended between two moments (Unix times): from where the last one ended
    before ``since_s`` to the end of the last one up to ``until_s``, whatever is between these; as ``wal
    stats --by minute`` counts. If none ended in between, up to where the next one ends.

    Looks into a few segments, since later ones have later times; a clock that was set back misleads it.
    Raises WalError where no record is in between, and as ``stats`` does, but not for damage and gaps.
    """
    with reading(paths) as wal:
        (start, end), (has_records, has_end), (before_us, after_us), next_end = wal.call(
            wal_span, wal.sources, _microseconds(since_s), _microseconds(until_s), timeline,
            observe=wal.observed(observe),
        )  # fmt: skip
    doubt = None if has_end else _say_none_ended(since_s, until_s, before_us, after_us)
    if not has_records:
        raise WalError(
            f"no WAL here was written {_words(since_s, until_s)}",
            detail=doubt,
            hint="wal stats --by minute shows when WAL was written." if before_us or after_us else None,
        )
    if has_end and end is not None and next_end is not None and after_us is not None:
        left = next_end - end
        if left > max(_LEFT_LEAST, (end - (start or end)) * _LEFT_SHARE):
            doubt = (
                f"Another {format_bytes(left)} was written before the next transaction ended, at "
                f"{say_moment(after_us / 1e6)}: --end {Lsn(next_end)} has it, too."
            )
    return Span(None if start is None else Lsn(start), None if end is None else Lsn(end), doubt)


def say_moment(unix_s: float) -> str:
    """``2026-11-27 14:30:00+01:00``: by the local clock, as ``--since`` takes it."""
    return datetime.fromtimestamp(unix_s).astimezone().isoformat(" ", "seconds")


def _words(since_s: float | None, until_s: float | None) -> str:
    since = "" if since_s is None else f"since {say_moment(since_s)}"
    until = "" if until_s is None else f"until {say_moment(until_s)}"
    return " ".join(filter(None, (since, until)))


def _say_none_ended(
    since_s: float | None, until_s: float | None, before_us: int | None, after_us: int | None
) -> str:
    if before_us is None and after_us is None:
        return "No transaction ended in this WAL, so that nothing tells its time."
    before = "" if before_us is None else f"the last one before ended at {say_moment(before_us / 1e6)}"
    after = "" if after_us is None else f"the first one after ended at {say_moment(after_us / 1e6)}"
    return f"No transaction ended {_words(since_s, until_s)}: {', '.join(filter(None, (before, after)))}."


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
