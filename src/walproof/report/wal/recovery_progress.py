"""A recovery that is under way as a line for people and as JSON."""

from __future__ import annotations

import json

from walproof.analysis.recovery_progress import RecoveryCourse, RecoveryProgress
from walproof.facts.recovering import RecoveryPhase
from walproof.facts.watch import Span
from walproof.report.numbers import percent
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration

_QUIET_S = 10.0
"""So long nothing may advance before a line says so."""
_PAUSED = (
    "; it may be paused at its target: SELECT pg_get_wal_replay_pause_state() (in 13 "
    "pg_is_wal_replay_paused()) says so, pg_wal_replay_resume() or a promotion ends the recovery"
)
_NO_TIME_S = 1e-3
"""Shorter times that are left count as none."""


def progress_line(
    progress: RecoveryProgress, course: RecoveryCourse | None, target: str | None = None
) -> str:
    """What the recovery does, how far it is, and when the server is ready.

    ``target``: how the target of a recovery is configured; empty where there is none, None where it is not
    known.
    """
    said = _phase_words(progress, course, target)
    if progress.stalled_s >= _QUIET_S:
        said += f"; nothing has advanced for {format_duration(progress.stalled_s)}"
        if progress.phase is RecoveryPhase.READ_ONLY and progress.awaited is None and target != "":
            said += _PAUSED
    return said


def _phase_words(progress: RecoveryProgress, course: RecoveryCourse | None, target: str | None) -> str:
    running = "" if progress.running_s is None else format_duration(progress.running_s)
    match progress.phase:
        case RecoveryPhase.OVER:
            said = "ready: the server accepts connections"
            return f"{said}, {running} after its recovery began" if running else said
        case RecoveryPhase.HOT_STANDBY:
            return (
                "ready: a hot standby, which accepts read-only connections; whether it replays, "
                "walproof replica watch says"
            )
        case RecoveryPhase.WARM_STANDBY:
            return "a standby that replays WAL and accepts no connections (hot_standby = off)"
        case RecoveryPhase.READ_ONLY:
            said = f"recovery{_goal(target)}"
            said += f" for {running}" if running else ""
            return f"{said}: the server accepts read-only connections{_from_archive(progress)}"
        case RecoveryPhase.BEFORE_REDO:
            return _sync_words(progress, f" for {running}" if running else "")
        case RecoveryPhase.CHECKPOINT:
            said = "redo is over, checkpoint at the end of recovery"
            return said if course is None else f"{said}; ready {_soon(progress.left)}"
        case RecoveryPhase.REDO:
            return _redo_words(progress, course, target)


def _goal(target: str | None) -> str:
    if target is None:
        return " to a target"
    return f" to {target}" if target else " to the end of the archive"


def _from_archive(progress: RecoveryProgress) -> str:
    """Where it is, how fast, and which segment it waits for."""
    said = "" if progress.at is None else f", at {progress.at}"
    if progress.wal_bytes_per_s is not None:
        said += f", {format_bytes(progress.wal_bytes_per_s)}/s"
    if progress.awaited is not None:
        said += f"; it waits for {progress.awaited} from the archive"
        said += f", for {format_duration(progress.awaited_s)} now" if progress.awaited_s >= 1 else ""
    return said


def _sync_words(progress: RecoveryProgress, running: str) -> str:
    sync = progress.sync
    if sync is None:
        said = f"before redo{running}"
        return said if progress.left is None else f"{said}; then {_span(progress.left)} to go"
    files = say_count(sync.files, "file")
    said = f"before redo{running}: syncing {files} of the data directory"
    if sync.at is not None and sync.done is not None:
        said = f"before redo{running}: {percent(sync.done)} of the sync, {sync.at:,} of {files}"
    if progress.left is None:
        return f"{said}; redo {_soon(sync.left)}"
    return f"{said}; ready {_soon(progress.left)}"


def _redo_words(progress: RecoveryProgress, course: RecoveryCourse | None, target: str | None) -> str:
    if course is None or progress.at is None or progress.done is None:
        goal = "" if target is None else _goal(target)
        since = "" if progress.running_s is None else f" for {format_duration(progress.running_s)}"
        return f"redo{goal}{since}{_from_archive(progress)}; its end is not known"
    replayed = format_bytes(progress.at - course.start)
    said = f"redo {percent(progress.done)}: at {progress.at}, {replayed} of {_distance(course)} of WAL"
    if progress.wal_bytes_per_s is not None:
        said += f", {format_bytes(progress.wal_bytes_per_s)}/s"
    return f"{said}; ready {_soon(progress.left)}"


def _distance(course: RecoveryCourse) -> str:
    return format_bytes(course.end - course.start)


def _soon(span: Span | None) -> str:
    """When, also where the forecast has no time left."""
    if span is None or span.high < _NO_TIME_S:
        return "any moment now, longer than expected"
    if span.seconds < _NO_TIME_S:
        return f"any moment now, within {format_duration(span.high)}"
    return f"in {_span(span)}"


def _span(span: Span) -> str:
    low = "0 s" if span.low < _NO_TIME_S else format_duration(span.low)
    return f"{format_duration(span.seconds)} ({low} to {format_duration(span.high)})"


def progress_json(
    progress: RecoveryProgress, course: RecoveryCourse | None, at: float, target: str | None = None
) -> str:
    """A line of JSON; ``at``: Unix time of the look; ``target``: as `progress_line` has it."""
    sync = progress.sync
    data = {
        "at": at,
        "phase": progress.phase.value,
        "running_s": progress.running_s,
        "lsn": None if progress.at is None else str(progress.at),
        "redo": None if course is None else str(course.start),
        "end": None if course is None else str(course.end),
        "wal_bytes": None if course is None else course.end - course.start,
        "wal_bytes_per_s": progress.wal_bytes_per_s,
        "done": progress.done,
        "left_s": None if progress.left is None else progress.left.seconds,
        "left_low_s": None if progress.left is None else progress.left.low,
        "left_high_s": None if progress.left is None else progress.left.high,
        "stalled_s": progress.stalled_s,
        "sync_files": None if sync is None else sync.files,
        "sync_at": None if sync is None else sync.at,
        "sync_done": None if sync is None else sync.done,
        "sync_left_s": None if sync is None else sync.left.seconds,
        "awaited": progress.awaited,
        "awaited_s": None if progress.awaited is None else progress.awaited_s,
        "target": target,
    }
    return json.dumps(data)
