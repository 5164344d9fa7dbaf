"""Whether the archive keeps up with the WAL, also where every call of the archiver succeeds but too slowly.

The backlog is what waits in archive_status; where the role may not list it, the segments between the last
one that was archived, or the one that fails, and the one that is written (names of segments count up;
timelines are left out).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from walproof.analysis.watch.history import counted, rate
from walproof.facts.watch import WatchedArchiver, WatchLook
from walproof.wal.segment import segment_number

_SEGMENT = re.compile(r"[0-9A-F]{24}")
_CLEAR = 1
"""Segments that may wait without delay: one is always being archived."""


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """The state of the archiver."""

    waiting: int | None
    """Segments that wait; None where this cannot be seen."""
    is_estimated: bool
    """Whether ``waiting`` comes from the name of a segment: the last archived one, or the one that fails."""
    waiting_change: int
    """How many segments the backlog grew by within the window."""
    made_per_s: float | None
    """Segments of WAL filled per second."""
    archived_per_s: float | None
    failures: int
    """Failed calls within the window."""
    is_failing: bool
    """Whether the last call failed."""
    failed_segment: str | None
    since: float | None
    """When the backlog began, seconds since the epoch by the server's clock; None without a backlog."""
    is_least: bool
    """Whether it had begun before anybody looked."""
    still_s: float
    """Seconds for which segments have waited and none was archived, as it was watched."""
    unmoved_s: float
    """The same by the server's clock, known from one look: since the oldest segment waits, the last one was
    archived, or the server was started, whichever came last. 0 where it cannot be seen."""
    is_unset: bool
    """Whether the settings name nothing that archives."""
    caught_up_s: float | None
    """Seconds until none waits, at these rates; None: never, or nothing waits."""


class ArchiveWatch:
    """Follows the archiver of one server from look to look."""

    def __init__(self) -> None:
        self._clear_at: float | None = None
        self._moved_s: float | None = None
        self._archived: int | None = None

    def see(self, look: WatchLook) -> None:
        """Take note of a look."""
        archiver = look.archiver
        if archiver is None:
            return
        waiting, _ = waiting_segments(look, archiver)
        if waiting is not None and waiting <= _CLEAR:
            self._clear_at = look.at
        if self._moved_s is None or archiver.archived != self._archived or not waiting:
            self._moved_s = look.seen_s
        self._archived = archiver.archived

    def state(self, looks: tuple[WatchLook, ...]) -> ArchiveState | None:
        """The state from the looks of a window; None where the server archives nothing."""
        last = looks[-1]
        archiver = last.archiver
        if archiver is None or last.settings.get("archive_mode", "off") == "off":
            return None
        if last.is_in_recovery and last.settings.get("archive_mode") != "always":
            return None
        waiting, is_estimated = waiting_segments(last, archiver)
        first = looks[0].archiver
        before = None if first is None else waiting_segments(looks[0], first)[0]
        made = rate(looks, lambda look: look.lsn)
        made = None if made is None else made / last.segment_bytes
        done = counted(looks, lambda look: None if look.archiver is None else look.archiver.archived)
        is_late = _is_failing(archiver) if waiting is None else waiting > _CLEAR
        since = None
        if is_late:
            since = self._clear_at
            if since is None:
                since = archiver.last_at if _is_failing(archiver) else archiver.ready_since or looks[0].at
        return ArchiveState(
            waiting=waiting,
            is_estimated=is_estimated,
            waiting_change=0 if waiting is None or before is None else waiting - before,
            made_per_s=made,
            archived_per_s=done,
            failures=0 if first is None else max(0, archiver.failed - first.failed),
            is_failing=_is_failing(archiver),
            failed_segment=archiver.failed_segment,
            since=since,
            is_least=is_late and self._clear_at is None,
            still_s=0.0 if not waiting or self._moved_s is None else last.seen_s - self._moved_s,
            unmoved_s=_unmoved_s(last, archiver),
            is_unset=archiver.is_unset is True,
            caught_up_s=_caught_up_s(waiting, made, done),
        )


def waiting_segments(look: WatchLook, archiver: WatchedArchiver) -> tuple[int | None, bool]:
    """(segments that wait for the archiver, whether that is estimated)."""
    if archiver.ready is not None:
        return archiver.ready, False
    # An archiver that fails tries the oldest segment again and again. The last file that was archived may be
    # the history of a timeline or of a backup, whose name says nothing about the segments that wait.
    oldest = _number(archiver.failed_segment, look.segment_bytes) if _is_failing(archiver) else None
    if oldest is None and (last := _number(archiver.last_segment, look.segment_bytes)) is not None:
        oldest = last + 1
    if look.lsn is None or oldest is None:
        return None, True
    return max(0, look.lsn // look.segment_bytes - oldest), True


def _number(file: str | None, segment_bytes: int) -> int | None:
    """The number of a segment since the beginning of WAL; None for other files."""
    if file is None or not _SEGMENT.fullmatch(file):
        return None
    return segment_number(file, segment_bytes)


def _unmoved_s(look: WatchLook, archiver: WatchedArchiver) -> float:
    if not archiver.ready or archiver.ready_since is None:
        return 0.0
    # What waited while the server was down is no fault of an archiver that has just been started.
    known = (archiver.ready_since, archiver.last_at, look.started_at)
    return max(0.0, look.at - max(moment for moment in known if moment is not None))


def _is_failing(archiver: WatchedArchiver) -> bool:
    if archiver.failed_at is None:
        return False
    return archiver.last_at is None or archiver.failed_at > archiver.last_at


def _caught_up_s(waiting: int | None, made: float | None, done: float | None) -> float | None:
    if not waiting or made is None or done is None or done <= made:
        return None
    return waiting / (done - made)
