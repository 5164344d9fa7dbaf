"""How far recovery is, and what each segment cost: the startup process, seen from outside.

Its title names the segment that it reads ("postgres: startup recovering 000000010000000000000003";
XLogPageRead in xlogrecovery.c), /proc/PID/schedstat its CPU time in ns and /proc/PID/io what it read from the
disk. So one replay gives the CPU of every segment, without touching the server. The kernel updates the CPU
time of a running process once a tick (1 to 10 ms), so between ticks it is taken from the clock, less the time
that the process waited for a processor. A segment's CPU is then known up to the time between two looks;
reading may be ahead of replaying by as much as the prefetcher looks ahead."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field

from walproof.probe.processes import read_io, read_schedule, read_title, startup_pid

POLL_S = 0.001
_TICK_S = 0.01
"""The longest time by which the kernel's count of CPU lags (CONFIG_HZ=100)."""
_RECOVERING = re.compile(r"startup\s+(?:process\s+)?recovering ([0-9A-F]{24})")


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """When the startup process began a segment."""

    segment: str
    cpu_s: float
    """By the process's CPU clock, which stands still between ticks."""
    ran_s: float
    """By the wall clock, less the time that it had waited for a processor."""


@dataclass(frozen=True, slots=True)
class ReplayCourse:
    """One recovery as seen from outside."""

    starts: tuple[SegmentStart, ...]
    cpu_s: float
    """CPU of the startup process when it was last seen."""
    waited_s: float
    """How long it was ready to run and had no processor: other work on the machine."""
    read_bytes: int | None
    """What it made the disk read; None if /proc does not show it."""

    def segments_cpu_s(self) -> dict[str, float]:
        """Segment -> CPU from its beginning to that of the next. The last one has no end and is left out."""
        return {
            begun.segment: _within(after.ran_s - begun.ran_s, after.cpu_s - begun.cpu_s)
            for begun, after in zip(self.starts, self.starts[1:], strict=False)
        }


@dataclass(slots=True)
class ReplayWatch:
    """Looks at the startup process of a postmaster in a thread, from `start` to `stop`."""

    poll_s: float = POLL_S
    _starts: list[SegmentStart] = field(default_factory=list)
    _cpu_s: float = 0.0
    _waited_s: float = 0.0
    _read_bytes: int | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, postmaster: int) -> None:
        """Begin to look; the startup process need not be there yet."""
        self._thread = threading.Thread(target=self._look, args=(postmaster,), daemon=True)
        self._thread.start()

    def stop(self) -> ReplayCourse:
        """End looking."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        return ReplayCourse(tuple(self._starts), self._cpu_s, self._waited_s, self._read_bytes)

    def _look(self, postmaster: int) -> None:
        startup: int | None = None
        while not self._stopping.wait(self.poll_s):
            if startup is None:
                startup = startup_pid(postmaster)
                continue
            title = read_title(startup)
            schedule = read_schedule(startup)
            if schedule is None:
                return
            self._note(startup, title, schedule)

    def _note(self, pid: int, title: str, schedule: tuple[int, int]) -> None:
        now_s = time.monotonic()
        self._cpu_s, self._waited_s = (ns / 1e9 for ns in schedule)
        counters = read_io(pid)
        if counters:
            self._read_bytes = counters.get("read_bytes")
        segment = segment_of(title)
        if segment is not None and (not self._starts or self._starts[-1].segment != segment):
            self._starts.append(SegmentStart(segment, self._cpu_s, now_s - self._waited_s))


def segment_of(title: str) -> str | None:
    """The segment that a startup process with this title reads; None outside of redo."""
    match = _RECOVERING.search(title)
    return None if match is None else match[1]


def _within(ran_s: float, cpu_s: float) -> float:
    """The time that passed, as far as it may have been CPU; the rest was spent waiting for a disk or a
    lock."""
    return max(0.0, cpu_s - _TICK_S, min(ran_s, cpu_s + _TICK_S))
