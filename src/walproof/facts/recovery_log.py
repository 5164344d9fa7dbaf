"""What a server's log says of its last crash recovery.

::

    13        redo starts at 0/2000060             redo done at 0/5FFFF98
    14-19     redo starts at 0/2000060             redo done at 0/5FFFF98 system usage: CPU: user: 0.28 s, ...
    13-17     checkpoint starting: end-of-recovery immediate wait
    18-19     checkpoint starting: end-of-recovery fast wait
    13-18     checkpoint complete: wrote 923 buffers (5.6%)...; write=0.012 s, sync=0.008 s, total=0.033 s; ..
    19        checkpoint complete: end-of-recovery fast wait: wrote 923 buffers (5.6%)...

(StartupXLOG in xlog.c, PerformWalRecovery in xlogrecovery.c, LogCheckpointEnd in xlog.c.) Lines of
checkpoints are there with log_checkpoints, the default from 15 on; times of lines with ``%m`` or ``%t`` in
log_line_prefix. A csvlog and a jsonlog say the same, with times in any case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from walproof.errors import AnalysisError
from walproof.units import Lsn

_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_LOG = r'(?:LOG:  |,LOG,[0-9A-Z]{5},"|"message":")'
"""What comes before a message: on stderr, in a csvlog, in a jsonlog."""
_BEGUN = re.compile(_LOG + r"database system was (?:interrupted|shut down|not properly shut down)")
_REDO_STARTS = re.compile(_LOG + r"redo starts at (?P<lsn>[0-9A-F]+/[0-9A-F]+)")
_REDO_DONE = re.compile(
    _LOG + r"redo done at (?P<lsn>[0-9A-F]+/[0-9A-F]+)"
    r"(?: system usage: CPU: user: (?P<user>[\d.]+) s, system: (?P<system>[\d.]+) s, "
    r"elapsed: (?P<elapsed>[\d.]+) s)?"
)
_NOT_REQUIRED = re.compile(_LOG + r"redo is not required")
_CHECKPOINT_STARTS = re.compile(_LOG + r"checkpoint starting:.* end-of-recovery")
_CHECKPOINT_DONE = re.compile(
    _LOG + r"checkpoint complete: (?:[a-z -]*: )?wrote (?P<buffers>\d+) buffers .*?"
    r"(?P<removed>\d+) removed, (?P<recycled>\d+) recycled; "
    r"write=(?P<write>[\d.]+) s, sync=(?P<sync>[\d.]+) s, total=(?P<total>[\d.]+) s"
)
_READY = re.compile(_LOG + r"database system is ready to accept connections")


@dataclass(frozen=True, slots=True)
class RecoveryCheckpoint:
    """The checkpoint at the end of recovery."""

    buffers: int
    """Buffers that it wrote."""
    segments: int
    """Segments of replayed WAL that were removed or kept for new WAL (recycled)."""
    write_s: float
    sync_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class RecoveryTimes:
    """One crash recovery, in the server's own words. None where the log does not say."""

    redo_start: Lsn
    redo_end: Lsn
    """Where the last replayed record begins."""
    redo_elapsed_s: float | None
    """Seconds of redo: the server's own figure from 14 on, before that the time between two lines."""
    cpu_user_s: float | None
    """CPU seconds of redo alone, in steps of 10 ms (from 14)."""
    cpu_system_s: float | None
    checkpoint: RecoveryCheckpoint | None
    before_redo_s: float | None
    """Seconds from the first line to the beginning of redo: mostly the sync of the data directory."""
    total_s: float | None
    """Seconds from the first line to "ready to accept connections"."""

    @property
    def cpu_s(self) -> float | None:
        """User and system CPU of redo."""
        if self.cpu_user_s is None or self.cpu_system_s is None:
            return None
        return self.cpu_user_s + self.cpu_system_s

    @property
    def wal_bytes(self) -> int:
        """WAL from the redo point to the last record."""
        return self.redo_end - self.redo_start


def read_recovery_log(text: str) -> RecoveryTimes:
    """The last crash recovery in a server's log.

    Raises AnalysisError if the log has none, or one that needed no redo or is not complete.
    """
    lines = text.splitlines()
    start = _last(lines, _REDO_STARTS)
    unneeded = _last(lines, _NOT_REQUIRED)
    if start is None or (unneeded is not None and unneeded > start):
        if unneeded is not None:
            raise AnalysisError(
                "the server needed no redo",
                detail="Its log says: redo is not required. There was no WAL after the redo point.",
                hint="A recovery to learn from needs WAL that was written since the last checkpoint.",
            )
        raise AnalysisError(
            "the log has no crash recovery",
            detail='No line with "redo starts at" was found.',
            hint='Name the log of a start after a crash, in English (lc_messages = "C").',
        )
    begun = start
    while begun > 0 and start - begun < 20 and not _is_begin(lines, begun):
        begun -= 1
    if not _is_begin(lines, begun):
        begun = start
    after = lines[start:]
    done = next((i for i, line in enumerate(after) if _REDO_DONE.search(line)), None)
    if done is None:
        raise AnalysisError(
            'the log has no "redo done" after its last "redo starts"',
            detail=f"The last line is: {lines[-1].strip()[:200]}",
            hint="The recovery still runs, failed, or the log is cut off; use an earlier log.",
        )
    starts, ends = _REDO_STARTS.search(lines[start]), _REDO_DONE.search(after[done])
    assert starts is not None
    assert ends is not None
    rest = after[done:]
    ready = next((i for i, line in enumerate(rest) if _READY.search(line)), None)
    until = rest if ready is None else rest[: ready + 1]
    elapsed = _number(ends["elapsed"])
    return RecoveryTimes(
        redo_start=Lsn.parse(starts["lsn"]),
        redo_end=Lsn.parse(ends["lsn"]),
        redo_elapsed_s=_between(lines[start], after[done]) if elapsed is None else elapsed,
        cpu_user_s=_number(ends["user"]),
        cpu_system_s=_number(ends["system"]),
        checkpoint=_checkpoint(until),
        before_redo_s=_between(lines[begun], lines[start]) if begun < start else None,
        total_s=_between(lines[begun], rest[ready]) if ready is not None and begun < start else None,
    )


def _is_begin(lines: list[str], at: int) -> bool:
    return _BEGUN.search(lines[at]) is not None and "not properly" not in lines[at]


def _last(lines: list[str], pattern: re.Pattern[str]) -> int | None:
    return next((i for i in range(len(lines) - 1, -1, -1) if pattern.search(lines[i])), None)


def _checkpoint(lines: list[str]) -> RecoveryCheckpoint | None:
    begun = next((i for i, line in enumerate(lines) if _CHECKPOINT_STARTS.search(line)), None)
    for line in lines[begun:] if begun is not None else []:
        match = _CHECKPOINT_DONE.search(line)
        if match is not None:
            return RecoveryCheckpoint(
                int(match["buffers"]),
                int(match["removed"]) + int(match["recycled"]),
                float(match["write"]),
                float(match["sync"]),
                float(match["total"]),
            )
    return None


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _between(earlier: str, other: str) -> float | None:
    """Seconds between two lines; None if they have no time."""
    stamps = [_STAMP.search(line) for line in (earlier, other)]
    if None in stamps:
        return None
    first, second = (datetime.fromisoformat(stamp[0]) for stamp in stamps if stamp is not None)
    seconds = (second - first).total_seconds()
    return seconds if seconds >= 0 else None
