"""What limited a load, and the batch size or number of sessions from which on more gains nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

FULL = 0.85
"""Share of a core from which a process that does nothing but work counts as the limit."""
_WAITING = 0.3
"""Share of samples from which waits for WAL or files count as the limit."""
GAIN = 0.05
"""A step of a sweep that gains less than this gains nothing."""
_DISK_WAITS = ("IO:", "LWLock:WALWrite", "LWLock:WALInsert", "LWLock:WALBufMapping")
_LOCK_WAITS = ("Lock:", "LWLock:", "Buffer:")
"""Waits for other sessions. Those for a page's content are of the type LWLock, from 19 on of Buffer."""


class Busy(Enum):
    """What a load was limited by."""

    CLIENT = "client"
    SERVER = "server"
    DISK = "disk"
    IN_TURN = "in turn"
    """Client and server together fill a core: each waits for the other."""
    LOCKS = "locks"
    WAITING = "neither"
    """Neither side used its core: other work on the machine, or waits too short to be seen."""


def who_was_busy(metrics: Mapping[str, float]) -> Busy | None:
    """Judge by the cores that a session's client and backend used, and by waits; None if CPU was not
    observed."""
    client, server = metrics.get("client_busy"), metrics.get("server_busy")
    if client is None or server is None:
        return None
    if client >= FULL and client >= server:
        return Busy.CLIENT
    if server >= FULL:
        return Busy.SERVER
    waits = {name.removeprefix("wait_share."): share for name, share in metrics.items()
             if name.startswith("wait_share.")}  # fmt: skip
    if sum(share for name, share in waits.items() if name.startswith(_DISK_WAITS)) >= _WAITING:
        return Busy.DISK
    if sum(share for name, share in waits.items() if name.startswith(_LOCK_WAITS)) >= _WAITING:
        return Busy.LOCKS
    return Busy.IN_TURN if client + server >= FULL else Busy.WAITING


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a rising curve stops rising."""

    at: int
    """The smallest of the tried values whose rate is within GAIN of the best."""
    rate: float
    is_past: bool
    """Whether larger values were tried and gained nothing; otherwise the curve may still rise."""


def find_knee(points: Sequence[tuple[int, float]]) -> Knee | None:
    """The knee of ``(batch rows or sessions, rate)``, ascending; None without points."""
    if not points:
        return None
    ordered = sorted(points)
    best = max(rate for _, rate in ordered)
    at, rate = next((x, y) for x, y in ordered if y >= best * (1 - GAIN))
    return Knee(at, rate, is_past=at < ordered[-1][0])
