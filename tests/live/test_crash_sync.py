"""The phase before redo: servers killed in place, with 1,000 and 10,000 files, both methods."""

from __future__ import annotations

import pytest

from tests.live.crash_sync import SETTINGS, crash
from tests.postgres.replication import running_primary
from walproof.facts import Install
from walproof.lab.recovery.sync_cost import measure_sync
from walproof.postgres.workspace import Workspace

pytestmark = pytest.mark.live
_TIMES, _BESIDE_S = 4.0, 0.5
"""A disk that others use flushes now so fast, now so: the order of magnitude is tested here;
bench/recovery/sync_phase.py has every combination, and 100,000 files."""
CRASHES = ((1000, "fsync", False), (1000, "fsync", True), (10000, "syncfs", True), (10000, "fsync", False))


def test_the_sync_before_redo_is_forecast(embedded: Install, workspace: Workspace) -> None:
    with running_primary(embedded, workspace, SETTINGS) as cluster:
        seen = [
            crash(cluster, measure_sync(workspace.folder), files, method, is_dirty=is_dirty)
            for files, method, is_dirty in CRASHES
        ]
    said = "\n".join(map(str, seen))
    for call in seen:
        span = call.forecast.span
        assert call.forecast.files > call.files
        assert span.low <= span.seconds <= span.high
        assert call.measured_s <= _TIMES * span.high + _BESIDE_S, said
        assert call.measured_s >= span.low / _TIMES - _BESIDE_S, said
    few, _, at_once, many = seen
    assert many.measured_s > few.measured_s, said
    assert at_once.measured_s < many.measured_s, said
