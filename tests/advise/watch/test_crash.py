"""What a recovery that takes too long is blamed on: WAL, or the sync of the data directory before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import Server, assessed, clock, concerns
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.facts.watch import CrashClock, Span, SyncForecast


def synced(redo_s: float, sync: Span, *, method: str = "fsync", costs: str = "calibrated") -> CrashClock:
    found = clock(redo_s)
    warm = found.warm
    return replace(
        found,
        warm=Span(warm.seconds + sync.seconds, warm.low + sync.low, warm.high + sync.high),
        costs=costs,
        sync=SyncForecast(sync, method, 500_000, 6 << 30, is_seen=True),
    )


def told(found: CrashClock) -> Concern:
    (concern,) = concerns(assessed(Server()), Thresholds(recovery_s=60.0), found)
    return concern


def test_a_long_sync_is_not_blamed_on_wal() -> None:
    concern = told(synced(6.0, Span(75.0, 25.0, 150.0)))
    assert concern.severity is Severity.CRITICAL
    assert concern.evidence[1].endswith(
        "the sync of the data directory before redo: 500,000 files, 6.00 GB dirty on the machine"
    )
    assert "syncfs" in concern.advice[0]
    assert not any("Lower max_wal_size" in line for line in concern.advice)
    assert not any("calibrate" in line for line in concern.advice)


def test_the_upper_end_of_a_sync_that_nobody_measured_is_named_as_a_guess() -> None:
    concern = told(synced(6.0, Span(5.0, 1.0, 52.0), method="syncfs", costs="shipped"))
    assert concern.severity is Severity.WARNING
    assert "sync of the data directory" in concern.evidence[1]
    assert "calibrate" in concern.advice[0]


@pytest.mark.parametrize("found", [clock(70.0), synced(65.0, Span(20.0, 10.0, 40.0))])
def test_a_long_redo_is_blamed_on_wal(found: CrashClock) -> None:
    concern = told(found)
    assert concern.evidence[1].endswith("changing pages")
    assert concern.advice[0].startswith("Lower max_wal_size")
