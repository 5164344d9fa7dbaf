"""A history of three days: a peak, an outage, and a time in which nobody watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.facts.test_watch_history import Time, recorder
from tests.watching import BEGAN, MB, START, Server, clock, gone
from walproof.facts.wal_causes import RmgrWal, WalCauses
from walproof.facts.watch import SaidConcern, StreamPhase, StreamState, WatchRecord
from walproof.facts.watch_recorder import HistoryLimits

NAME = 'db1 "<i>"'
HOURS = 72
STEP_S = 600
PEAK, OUTAGE, UNWATCHED = 30.0, (40.0, 42.0), (50.0, 60.0)
"""Hours: of the longest recovery, of a server that was down, of a walproof that did not run."""
RATE = 2 * MB


def record(hour: float) -> WatchRecord:
    second = hour * 3600
    at = BEGAN + second
    if OUTAGE[0] <= hour < OUTAGE[1]:
        down = (SaidConcern("server", 2, "db1 does not answer.", None),)
        return WatchRecord(at, 1, gone(BEGAN + OUTAGE[0] * 3600, second), StreamState(StreamPhase.BROKEN),
                           concerns=down)  # fmt: skip
    look = replace(
        Server().look(0), seen_s=second, at=at, lsn=START + int(RATE * second), pg_wal_bytes=int(100 * MB),
    )  # fmt: skip
    made = int(RATE * second)
    totals = {
        "Heap": RmgrWal(int(second) * 10, made // 4, made // 2, int(second)),
        "Btree": RmgrWal(int(second) * 5, made // 4, 0, 0),
    }
    is_peak = abs(hour - PEAK) < 0.01
    said = (SaidConcern("crash recovery", 1, "A crash now would take <b>90 s</b>.", None),) if is_peak else ()
    return WatchRecord(
        at, 1, look, StreamState(StreamPhase.LIVE), clock(90.0 if is_peak else 5.0),
        WalCauses(10.0, RATE, 0.5, 1.0, (), totals), concerns=said, target_s=60.0,
    )  # fmt: skip


def keep_history(path: Path) -> None:
    """Three days with a peak, an outage and a time in which nobody watched."""
    clock_ = Time()
    with recorder(path, HistoryLimits(), clock_) as kept:
        hours = [step * STEP_S / 3600 for step in range(HOURS * 3600 // STEP_S)]
        clock_.now = BEGAN + hours[-1] * 3600
        kept.add([(NAME, record(hour)) for hour in hours if not UNWATCHED[0] <= hour < UNWATCHED[1]])
