"""Verified archives as JSON, under fixed names. Locations are text, times Unix seconds."""

from __future__ import annotations

import json
from typing import Any

from walproof.report.wal.verify_verdict import verdict
from walproof.wal.verify.backups import ArchivedBackup
from walproof.wal.verify.chain import Ending
from walproof.wal.verify.problems import KINDS, Problem
from walproof.wal.verify.verify import Verification, VerifiedArchive
from walproof.wal.verify.windows import ArchiveRange, RestoreWindow


def verification_json(found: Verification) -> str:
    """Everything that is known."""
    data = {
        "whole": found.is_whole,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "archives": [_archive(archive) for archive in found.archives],
    }
    return json.dumps(data, indent=2) + "\n"


def _archive(archive: VerifiedArchive) -> dict[str, Any]:
    identifier = archive.system_identifier
    return {
        "name": archive.name,
        "layout": archive.layout,
        "path": archive.path,
        "pg_wal": list(archive.pg_wal),
        "whole": archive.is_whole,
        "verdict": verdict(archive),
        "system_identifier": None if identifier is None else str(identifier),  # 64 bits do not fit a double
        "version": archive.version,
        "segment_size": archive.segment_size,
        "timelines": list(archive.timelines),
        "first_segment": archive.first_segment,
        "last_segment": archive.last_segment,
        "wal_bytes": archive.wal_bytes,
        "files": archive.files,
        "read_files": archive.read_files,
        "read_bytes": archive.read_bytes,
        "kept_files": archive.kept_files,
        "skipped_files": archive.skipped_files,
        "partial_files": archive.partial_files,
        "prepared_files": archive.prepared_files,
        "backups": [_backup(backup) for backup in archive.backups],
        "windows": [_window(window) for window in archive.windows],
        "ranges": [_range(range_) for range_ in archive.ranges],
        "problems": [_problem(problem) for problem in archive.problems],
    }


def _backup(backup: ArchivedBackup) -> dict[str, Any]:
    return {
        "name": backup.name,
        "tool": backup.tool,
        "path": backup.path,
        "timeline": backup.timeline,
        "start": str(backup.start),
        "stop": str(backup.stop),
        "stopped_at": backup.stopped_at,
    }


def _window(window: RestoreWindow) -> dict[str, Any]:
    return {
        "backup": window.backup.name,
        "timeline": window.timeline,
        "start": str(window.start),
        "end": str(window.end),
        "last_record": _text(window.last_record),
        "start_at": window.start_time,
        "end_at": window.end_time,
        "ended_by": _ending(window.ending),
        "unread_segments": window.unread_segments,
        "partial": None
        if window.partial is None
        else {"path": window.partial[0], "end": str(window.partial[1])},
    }


def _range(run: ArchiveRange) -> dict[str, Any]:
    return {
        "timeline": run.timeline,
        "start": str(run.start),
        "end": str(run.end),
        "last_record": _text(run.last_record),
        "first_transaction_at": run.start_time,
        "last_transaction_at": run.end_time,
        "ended_by": _ending(run.ending),
        "follows_parent": run.follows_parent,
        "unread_segments": run.unread_segments,
    }


def _ending(ending: Ending) -> dict[str, Any]:
    return {"reason": ending.reason, "message": ending.message}


def _problem(problem: Problem) -> dict[str, Any]:
    about = KINDS[problem.kind]
    return {
        "kind": problem.kind,
        "severity": problem.severity.value,
        "message": problem.message,
        "path": problem.path,
        "segment": problem.segment,
        "last_segment": problem.last_segment,
        "segments": problem.segments,
        "timeline": problem.timeline,
        "lsn": _text(problem.lsn),
        "end_lsn": _text(problem.end_lsn),
        "offset": problem.offset,
        "cause": problem.cause,
        "expected": problem.expected,
        "got": problem.got,
        "command": problem.command,
        "meaning": about.meaning,
        "advice": problem.advice or None,
        "later_backup": problem.later_backup,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
