"""An archive in one sentence: whether it is whole, and to which moments it can restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from walproof.sentences import say_count
from walproof.units import Lsn
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.verify import VerifiedArchive
from walproof.wal.verify.windows import ArchiveRange, RestoreWindow

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


def lines(archive: VerifiedArchive) -> tuple[int, ...]:
    """Timelines to speak of: the one that restores are meant for, which is that of the server whose pg_wal is
    there, else the newest that a backup leads to; then others with later WAL, newest first. None if no backup
    leads anywhere."""
    restorable = {window.timeline for window in archive.windows}
    if not restorable:
        return ()
    live = archive.live_timeline
    main = live if live in restorable and live is not None else max(restorable)
    ends = _ends(archive)
    others = [
        timeline
        for timeline in ends
        # What follows the main one and cannot be reached is what it has lost.
        if timeline != main
        and (timeline in restorable or not _follows(archive, timeline, main))
        and _is_later(ends[timeline], ends.get(main))
    ]
    return main, *sorted(others, reverse=True)


def _ends(archive: VerifiedArchive) -> dict[int, ArchiveRange]:
    """Of each timeline, the WAL that goes furthest."""
    furthest: dict[int, ArchiveRange] = {}
    for run in archive.ranges:
        known = furthest.get(run.timeline)
        if known is None or run.end > known.end:
            furthest[run.timeline] = run
    return furthest


def _is_later(run: ArchiveRange, than: ArchiveRange | None) -> bool:
    """By the clock where both have transactions: after a fork, equal locations are of different moments."""
    if than is None or run.end_time is None or than.end_time is None:
        return than is None or run.end > than.end
    return run.end_time > than.end_time


def _follows(archive: VerifiedArchive, timeline: int, other: int) -> bool:
    """Whether a timeline branched off another, or nothing says which it did."""
    known = archive.ancestors.get(timeline)
    return timeline > other and (known is None or any(ancestor == other for ancestor, _ in known))


def _leads(archive: VerifiedArchive, window: RestoreWindow, line: int) -> bool:
    """Whether a window is on the way to a timeline: its backup ended before that branched off."""
    backup, known = window.backup, archive.ancestors.get(line)
    is_before = known is None or any(
        ancestor == backup.last_timeline and backup.stop <= end for ancestor, end in known
    )
    is_on_way = window.timeline == line or _follows(archive, line, window.timeline)
    return is_on_way and (backup.last_timeline == line or is_before)


def _end_towards(archive: VerifiedArchive, window: RestoreWindow, line: int) -> tuple[Lsn, float | None]:
    """Where and when a window ends on the way to a timeline. What it has past the fork is of another branch.
    The time of a fork is not known."""
    forks = (end for ancestor, end in archive.ancestors.get(line, ()) if ancestor == window.timeline)
    fork = next(forks, window.end)
    return (window.end, window.end_time) if window.end <= fork else (fork, None)


def spans(archive: VerifiedArchive, line: int) -> tuple[RestorableSpan, ...]:
    """What can be restored on the way to a timeline, as far as each backup leads, in order of place."""
    newest: dict[ArchivedBackup, RestoreWindow] = {}
    for window in archive.windows:
        known = newest.get(window.backup)
        if _leads(archive, window, line) and (
            known is None or (window.timeline, window.end) > (known.timeline, known.end)
        ):
            newest[window.backup] = window
    found: list[RestorableSpan] = []
    for window in sorted(newest.values(), key=lambda window: (window.backup.stop, window.end)):
        start, start_time = window.backup.stop, window.start_time
        end, end_time = _end_towards(archive, window, line)
        last = found[-1] if found else None
        if last is not None and start <= last.end:
            times = [time for time in (last.end_time, end_time) if time is not None]
            found[-1] = RestorableSpan(
                last.start, max(last.end, end), last.start_time, max(times) if times else None
            )
        else:
            found.append(RestorableSpan(start, end, start_time, end_time))
    return tuple(found)


def verdict(archive: VerifiedArchive) -> str:
    """The sentence. Of a broken archive, what cannot be restored comes first."""
    unread = f"; not checked: {say_count(archive.skipped_files, 'file')}" if archive.skipped_files else ""
    head = "whole" if archive.is_whole else f"broken, {say_count(len(archive.faults), 'problem')}"
    labels = [backup for backup in archive.backups if backup.tool == "label"]
    lost = "" if archive.is_whole else _lost(archive)
    if archive.windows and not labels:
        moments = _moments(spans(archive, lines(archive)[0]))
        return f"{head}: {lost}you can restore to any moment {moments}{_others(archive)}{unread}"
    if archive.backups and not labels:
        several = len(archive.backups)
        if own := sum(problem.kind == "own WAL" for problem in archive.problems):
            which = "the backup" if several == 1 else f"{own} of the {several} backups"
            return (
                f"{head}: {which} can be restored, to {'its' if own == 1 else 'their'} own end alone{unread}"
            )
        none = "the backup" if several == 1 else f"none of the {several} backups"
        return f"{head}: {none} can{'not' if several == 1 else ''} be restored{unread}"
    found = _unseen(labels) if labels else "no base backup was found"
    if all(problem.kind != "no backup" for problem in archive.problems):
        found += " (--backups names where they are)"
    if not archive.is_whole:
        # That there is no backup is a problem only where one was looked for.
        first = next((f"{fault.message}; " for fault in archive.faults if fault.kind != "no backup"), "")
        return f"{head}: {lost}{first}{found}{unread}"
    if not archive.ranges:
        return f"nothing to restore: there is no whole segment; {found}{unread}"
    start, end = min(range_.start for range_ in archive.ranges), max(range_.end for range_ in archive.ranges)
    is_let_go = any(problem.kind == "expired" for problem in archive.problems)
    how = "with gaps that retention left" if is_let_go else "without a break"
    return f"{head}: the WAL goes from {start} to {end} {how}; {found}{unread}"


def _unseen(labels: Sequence[ArchivedBackup]) -> str:
    """What is known about backups that only left labels. Whether they are kept is not."""
    last = labels[-1]
    at = _place(last.stop, last.stopped_at)
    if len(labels) == 1:
        return f"a base backup was taken at {at}, and was not seen"
    return f"{len(labels)} base backups were taken, the last at {at}, and were not seen"


def _others(archive: VerifiedArchive) -> str:
    """Which timeline leads where, if they part, as the sentence's end."""
    main, *others = lines(archive)
    leading = [window.backup for window in archive.windows if _leads(archive, window, main)]
    newest = max(leading, key=lambda backup: backup.stop)
    latest, ends = _newest_from(archive, newest.timeline), _ends(archive)
    said = [
        f"; timeline {line} goes on to {_place(ends[line].end, ends[line].end_time)}"
        + ("" if spans(archive, line) else ", where no backup leads")
        for line in others
    ]
    for line, fork in archive.ancestors.get(main, ()):
        along = [window for window in archive.windows if window.timeline == line]
        reached = max(along, key=lambda window: window.end, default=None)
        if reached is not None and reached.end > fork and line not in others:
            place = _place(reached.end, reached.end_time)
            said.append(
                f"; timeline {line} parts from it at {fork}, and recovery_target_timeline = {line} leads on "
                f"to {place}"
            )
    if main != latest:
        said.append(
            f"; recovery_target_timeline = {main} leads to timeline {main}, latest to timeline {latest}"
        )
    elif others:
        said.append(f"; recovery_target_timeline = latest leads to timeline {latest}")
    begun = _newest_from(archive, main) + 1
    if begun in archive.timelines:
        said.append(f"; a restore there begins timeline {begun}, of which there is WAL already")
    return "".join(said)


def _newest_from(archive: VerifiedArchive, timeline: int) -> int:
    """Where ``latest`` leads: the server counts up to the first number without a history
    (``findNewestTimeLine``)."""
    while timeline + 1 in archive.ancestors:
        timeline += 1
    return timeline


def _lost(archive: VerifiedArchive) -> str:
    """Moments for which there was WAL, and that no restore reaches, as the sentence's beginning."""
    parts: list[str] = []
    for line in reversed(lines(archive)):
        found = spans(archive, line)
        of = f" of timeline {line}" if line != lines(archive)[0] else ""
        parts += [
            f"between {_place(before.end, before.end_time)} and {_place(after.start, after.start_time)}{of}"
            for before, after in pairwise(found)
        ]
        reached = {window.timeline for window in archive.windows} - {line}
        later = [
            run
            for run in archive.ranges
            if found
            and run.end > found[-1].end
            and (run.timeline == line or _follows(archive, run.timeline, line))
            and run.timeline not in reached
        ]
        if later:
            last, furthest = found[-1], max(later, key=lambda run: run.end)
            goes_on = f"(the WAL goes on to {furthest.end})"
            parts.append(f"after {_place(last.end, last.end_time)}{of} {goes_on}")
    return f"no restore to moments {', or '.join(parts[-_SPANS_MOST:])}; " if parts else ""


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
