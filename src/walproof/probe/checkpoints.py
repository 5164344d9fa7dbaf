"""Checkpoints of the window, from the server's log.

log_checkpoints writes a line when one starts, with why, and one when it is complete, with what it did
(LogCheckpointStart and LogCheckpointEnd in xlog.c). The second differs by version::

    13-15  checkpoint complete: wrote 344 buffers (4.2%); 0 WAL file(s) added, ...; write=0.002 s, sync=...
    16-17  the same, with "; lsn=0/20529A0, redo lsn=0/2052968" at its end
    18     checkpoint complete: wrote 344 buffers (4.2%), wrote 1 SLRU buffers; 0 WAL file(s) added, ...
    19     checkpoint complete: fast force wait: wrote 344 buffers (4.2%), wrote 1 SLRU buffers; ...

Every trial has log_line_prefix '%m [%p] ' and log_timezone UTC, which give each line its time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path

import psycopg

from walproof.errors import ProbeError, one_line
from walproof.probe.connection import connect
from walproof.probe.protocol import Observation, Subject

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (?:UTC|GMT) \[\d+\] \S*LOG:  "
_STARTING = re.compile(_STAMP + r"(?:check|restart)point starting:(?P<flags>[a-z -]*)$")
_COMPLETE = re.compile(
    _STAMP + r"(?:check|restart)point complete: (?:[a-z -]*: )?wrote (?P<buffers>\d+) buffers .*?"
    r"write=(?P<write>[\d.]+) s, sync=(?P<sync>[\d.]+) s, total=(?P<total>[\d.]+) s"
)
_ANY = re.compile(r"(?:check|restart)point (?:starting|complete):")
_LOOK_BACK_BYTES = 1 << 20
"""How far back the log is read before the window, to learn whether a checkpoint was running when it
opened."""


class CheckpointReason(Enum):
    """Why a checkpoint started."""

    TIMED = "timed"
    """checkpoint_timeout had passed."""
    REQUESTED = "requested"
    """So much WAL had been written that max_wal_size was near."""
    IMMEDIATE = "immediate"
    """Someone asked: CHECKPOINT, a base backup, CREATE DATABASE, a shutdown."""


@dataclass(frozen=True, slots=True)
class CheckpointStart:
    """A ``checkpoint starting`` line."""

    at: float
    """Unix time in seconds."""
    kind: CheckpointReason


@dataclass(frozen=True, slots=True)
class CheckpointEnd:
    """A ``checkpoint complete`` line."""

    at: float
    """Unix time in seconds."""
    buffers: int
    write_s: float
    sync_s: float
    total_s: float


def parse_checkpoint_line(line: str) -> CheckpointStart | CheckpointEnd | None:
    """Parse one line of a server log; None for a line that is not about a checkpoint's start or end."""
    if match := _STARTING.match(line):
        return CheckpointStart(_unix_time(match["stamp"]), _kind(match["flags"].split()))
    if match := _COMPLETE.match(line):
        return CheckpointEnd(
            _unix_time(match["stamp"]),
            int(match["buffers"]),
            float(match["write"]),
            float(match["sync"]),
            float(match["total"]),
        )
    return None


def _unix_time(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


def _kind(flags: list[str]) -> CheckpointReason:
    # Flags add up while a request waits: "immediate force wait time" was requested, whatever else was due.
    # "fast" is what PostgreSQL 19 calls "immediate".
    if not {"immediate", "fast", "force", "shutdown", "end-of-recovery"}.isdisjoint(flags):
        return CheckpointReason.IMMEDIATE
    return CheckpointReason.REQUESTED if "wal" in flags else CheckpointReason.TIMED


class CheckpointProbe:
    """Metrics: ``checkpoints_timed``, ``checkpoints_requested`` (by the volume of WAL) and
    ``checkpoints_immediate`` (someone asked) count what started in the window; ``checkpoint_active_share``
    is the share of the window in which one was in progress; ``checkpoint_buffers_written``,
    ``checkpoint_write_s`` and ``checkpoint_sync_s`` are sums over those that were completed in it. Series:
    ``checkpoint``, 1 from the start of one to its end and 0 in between, a point at each change and at both
    ends of the window.
    """

    def __init__(self) -> None:
        self._log: Path | None = None
        self._offset = 0
        self._opened_at = 0.0
        self._active = False
        self._warnings: list[str] = []

    def start(self, subject: Subject) -> None:
        """Mark the place in the log. Raises ProbeError when the log or the server cannot be read."""
        with connect(subject.conninfo) as connection:
            try:
                row = connection.execute("SELECT current_setting('log_checkpoints')::bool").fetchone()
            except psycopg.Error as error:
                raise ProbeError("could not read log_checkpoints", detail=one_line(error)) from error
        if row is None or not row[0]:
            self._warnings.append("checkpoints were not observed: log_checkpoints is off")
            return
        try:
            self._opened_at = time.time()
            self._offset = subject.log.stat().st_size
            before = _read_between(subject.log, max(0, self._offset - _LOOK_BACK_BYTES), self._offset)
        except OSError as error:
            raise ProbeError(f'could not read server log "{subject.log}"', detail=str(error)) from error
        events = [event for line in before if (event := parse_checkpoint_line(line)) is not None]
        self._active = bool(events) and isinstance(events[-1], CheckpointStart)
        self._log = subject.log

    def stop(self) -> Observation:
        """Read what the server logged since `start`."""
        log = self._log
        if log is None:
            return Observation(warnings=tuple(self._warnings) or ("checkpoints were not observed",))
        closed_at = time.time()
        self.abandon()
        try:
            lines = _read_between(log, self._offset, log.stat().st_size)
        except OSError as error:
            return Observation(warnings=(f"the server log can no longer be read: {error}",))
        return observe_checkpoints(lines, self._opened_at, closed_at, active=self._active)

    def abandon(self) -> None:
        """Forget the log."""
        self._log = None


def observe_checkpoints(
    lines: Iterable[str], window_start: float, window_end: float, *, active: bool
) -> Observation:
    """What the log lines of a window (Unix times in seconds) say. ``active``: the window opened during a
    checkpoint."""
    duration = max(window_end - window_start, 1e-9)
    started = dict.fromkeys(CheckpointReason, 0)
    ends: list[CheckpointEnd] = []
    steps = [(0.0, 1.0 if active else 0.0)]
    unread = 0
    for line in lines:
        event = parse_checkpoint_line(line)
        if event is None:
            unread += _ANY.search(line) is not None
            continue
        t_s = min(max(event.at - window_start, 0.0), duration)
        if isinstance(event, CheckpointStart):
            started[event.kind] += 1
            steps.append((t_s, 1.0))
        else:
            ends.append(event)
            steps.append((t_s, 0.0))
    steps.append((duration, steps[-1][1]))
    busy_s = sum((after - t_s) * value for (t_s, value), (after, _) in pairwise(steps))
    metrics = {f"checkpoints_{kind.value}": float(count) for kind, count in started.items()}
    metrics |= {
        "checkpoint_active_share": busy_s / duration,
        "checkpoint_buffers_written": float(sum(end.buffers for end in ends)),
        "checkpoint_write_s": sum((end.write_s for end in ends), 0.0),
        "checkpoint_sync_s": sum((end.sync_s for end in ends), 0.0),
    }
    series = {"checkpoint": (tuple(t_s for t_s, _ in steps), tuple(value for _, value in steps))}
    warnings = (
        (f"{unread} checkpoint lines of the server log were not understood: is log_line_prefix '%m [%p] '?",)
        if unread
        else ()
    )
    return Observation(metrics, series, warnings)


def _read_between(path: Path, begin: int, end: int) -> list[str]:
    """Lines of that part of the file; a last line that is still being written is left out."""
    with path.open("rb") as log:
        log.seek(begin)
        text = log.read(max(0, end - begin))
    return text[: text.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
