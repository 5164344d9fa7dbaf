"""The phase before redo: servers killed in place, with 1,000 and 10,000 files, both methods."""

from __future__ import annotations

import pytest

from tests.live.crash_sync import SETTINGS, crash
from tests.postgres.replication import running_primary
from walproof.facts import Install
from walproof.lab.recovery.sync_cost import measure_sync
from walproof.postgres.workspace import Workspace

pytestmark = pytest.mark.live
CRASHES = ((1000, "fsync", False), (1000, "fsync", True), (10000, "syncfs", True), (10000, "fsync", False))


def test_the_sync_before_redo_is_forecast(embedded: Install, workspace: Workspace) -> None:
    """What is forecast from is seen, and the server's own time is found. How near they are is for
    bench/recovery/sync_phase.py: what a flush takes on a disk that others use changes 25-fold in seconds."""
    costs = measure_sync(workspace.folder)
    with running_primary(embedded, workspace, SETTINGS) as cluster:
        seen = [
            crash(cluster, costs, files, method, is_dirty=is_dirty) for files, method, is_dirty in CRASHES
        ]
    for call in seen:
        span = call.forecast.span
        assert call.forecast.is_seen
        assert call.forecast.files > call.files
        assert span.low <= span.seconds <= span.high
        assert call.measured_s > 0
    few, _, at_once, many = (call.forecast.span.seconds for call in seen)
    assert at_once < few < many
