"""An archive in one sentence: whether it is whole, and to which moments it can restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from walproof.units import Lsn
from walproof.wal.verify.verify import VerifiedArchive
from walproof.wal.verify.windows import RestoreWindow

_SPANS_MOST = 3


@dataclass(frozen=True, slots=True)
class RestorableSpan:
    """Moments that can be restored without a gap, from one backup or from the next."""

    start: Lsn
    end: Lsn
    start_time: float | None
    end_time: float | None


def moment(unix_s: float | None) -> str:
    """``2026-11-23 14:05:12.345678+00``, as recovery_target_time takes it; empty when it is not known."""
    if unix_s is None:
        return ""
    text = datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return text.removesuffix(".000000") + "+00"


def spans(archive: VerifiedArchive) -> tuple[RestorableSpan, ...]:
    """What can be restored along the newest timeline that each backup leads to, in order of place."""
    newest: dict[str, RestoreWindow] = {}
    for window in archive.windows:
        known = newest.get(window.backup.name)
        if known is None or (window.timeline, window.end) > (known.timeline, known.end):
            newest[window.backup.name] = window
    found: list[RestorableSpan] = []
    for window in sorted(newest.values(), key=lambda window: (window.backup.stop, window.end)):
        start, start_time = window.backup.stop, window.start_time
        last = found[-1] if found else None
        if last is not None and start <= last.end:
            times = [time for time in (last.end_time, window.end_time) if time is not None]
            found[-1] = RestorableSpan(
                last.start, max(last.end, window.end), last.start_time, max(times) if times else None
            )
        else:
            found.append(RestorableSpan(start, window.end, start_time, window.end_time))
    return tuple(found)


def verdict(archive: VerifiedArchive) -> str:
    """The sentence. Of a broken archive, what cannot be restored comes first."""
    found_spans = spans(archive)
    moments = _moments(found_spans)
    unread = f"; {archive.skipped_files:,} files were not checked" if archive.skipped_files else ""
    count = len(archive.faults)
    problems = f"{count} problem{'' if count == 1 else 's'}"
    if moments:
        lost = "" if archive.is_whole else _lost(archive, found_spans)
        head = "whole" if archive.is_whole else f"broken, {problems}"
        return f"{head}: {lost}you can restore to any moment {moments}{unread}"
    if archive.backups:
        head = "whole" if archive.is_whole else f"broken, {problems}"
        return f"{head}: none of the {len(archive.backups)} backups can be restored{unread}"
    found = "; no base backup was found (--backups names where they are)"
    if not archive.is_whole:
        return f"broken, {problems}{found}{unread}"
    if not archive.ranges:
        return f"nothing to restore: there is no whole segment{found}{unread}"
    start, end = min(range_.start for range_ in archive.ranges), max(range_.end for range_ in archive.ranges)
    return f"whole: the WAL goes from {start} to {end} without a break{found}{unread}"


def _lost(archive: VerifiedArchive, found: Sequence[RestorableSpan]) -> str:
    """Moments for which there was WAL, and that no restore reaches, as the sentence's beginning."""
    parts = [
        f"between {_place(before.end, before.end_time)} and {_place(after.start, after.start_time)}"
        for before, after in pairwise(found)
    ][-_SPANS_MOST:]
    last = found[-1]
    newest = max(window.timeline for window in archive.windows)
    later = [run for run in archive.ranges if run.timeline >= newest and run.end > last.end]
    if later:
        furthest = max(later, key=lambda run: run.end)
        parts.append(f"after {_place(last.end, last.end_time)} (the WAL goes on to {furthest.end})")
    return f"no restore to moments {', or '.join(parts)}; " if parts else ""


def _place(lsn: Lsn, unix_s: float | None) -> str:
    time = moment(unix_s)
    return f"{time} ({lsn})" if time else str(lsn)


def _moments(found: Sequence[RestorableSpan]) -> str:
    parts = [
        f"from {_place(span.start, span.start_time)} to {_place(span.end, span.end_time)}"
        for span in found[:_SPANS_MOST]
    ]
    more = len(found) - _SPANS_MOST
    return ", and ".join(parts) + (f", and {more} more" if more > 0 else "")
