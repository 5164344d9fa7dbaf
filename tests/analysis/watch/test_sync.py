"""What the sync of a data directory is forecast to take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walproof.analysis.watch.sync import JITTER_S, sync_forecast
from walproof.facts.calibration import SyncCosts
from walproof.facts.watch import DataDirectory

COSTS = SyncCosts(file_us=10.0, flush_us=1000.0, mb_us=5000.0, filesystem_us=20000.0)
SEEN = DataDirectory(True, "fsync", 100_000, 50, 10 << 20, True)


def test_fsync_pays_for_files_and_for_what_is_dirty() -> None:
    found = sync_forecast(SEEN, COSTS, 0)
    assert found.span.seconds == pytest.approx(100_000 * 10e-6 + 50 * 1e-3 + 10 * 5e-3)
    assert found.span.low == pytest.approx(0.5)
    assert found.span.high == pytest.approx(2 * found.span.seconds + JITTER_S)


def test_syncfs_pays_for_what_is_dirty_alone() -> None:
    found = sync_forecast(replace(SEEN, method="syncfs"), COSTS, 0)
    assert found.span.seconds == pytest.approx(0.02 + 0.005 + 0.05)
    assert sync_forecast(replace(SEEN, method="syncfs", files=1), COSTS, 0).span == found.span


def test_without_fsync_nothing_is_synced() -> None:
    found = sync_forecast(replace(SEEN, is_synced=False), COSTS, 1 << 40)
    assert (found.method, found.span.high) == ("off", 0.0)


def test_what_is_not_seen_widens_the_range() -> None:
    remote = DataDirectory(True, "fsync", 100_000, None, None, False)
    far, here = sync_forecast(remote, COSTS, 100 << 20).span, sync_forecast(SEEN, COSTS, 100 << 20).span
    assert far.seconds == pytest.approx(1.0)
    assert far.low < here.low
    assert far.high == pytest.approx(4 * (1.0 + 0.5) + JITTER_S)
    shipped = sync_forecast(SEEN, None, 0).span
    assert shipped.high == pytest.approx(4.0 * shipped.seconds + JITTER_S)


def test_a_short_sync_may_take_what_the_kernel_writes_for_itself() -> None:
    costs = SyncCosts(file_us=1.0, flush_us=100.0, mb_us=5000.0, filesystem_us=300.0)
    found = sync_forecast(DataDirectory(True, "syncfs", 1000, 0, 0, True), costs, 0)
    assert found.span.seconds == pytest.approx(0.0003)
    assert found.span.high >= JITTER_S
