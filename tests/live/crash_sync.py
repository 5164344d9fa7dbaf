"""Servers that are killed with many files in their data directory, and what was forecast just before."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tests.postgres.replication import run
from walproof.analysis.watch.sync import sync_forecast
from walproof.facts.calibration import SyncCosts
from walproof.facts.recovery_log import read_recovery_log
from walproof.facts.watch import DataDirectory, SyncForecast
from walproof.files import sync_filesystem
from walproof.observe.data_files import count_files, dirty_bytes
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.wal.recovery import PAGE_BYTES

SETTINGS = {"fsync": "on", "full_page_writes": "off", "autovacuum": "off", "checkpoint_timeout": "1h"}
_FILES_A_FOLDER = 1000
DIRTY_SHARE = 0.1
"""Of the files of a dirty crash: a page is written to each shortly before."""


@dataclass(frozen=True)
class SyncedCrash:
    files: int
    is_dirty: bool
    method: str
    forecast: SyncForecast
    measured_s: float
    """From the first line of the startup process to "redo starts"."""


def fill(cluster: Cluster, files: int) -> list[Path]:
    """Files of a page each in the data directory, as many as are missing."""
    root = cluster.data / "walproof_files"
    paths = [root / str(number // _FILES_A_FOLDER) / str(number) for number in range(files)]
    with acting_as(cluster.user):
        for path in paths:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(PAGE_BYTES))
    return paths


def crash(cluster: Cluster, costs: SyncCosts, files: int, method: str, *, is_dirty: bool) -> SyncedCrash:
    """Kill a running server in place and start it again."""
    paths = fill(cluster, files)
    sync_filesystem(cluster.data)
    run(cluster, "CHECKPOINT", "CREATE TABLE IF NOT EXISTS t (i int)", "INSERT INTO t VALUES (1)")
    dirty = paths[: int(files * DIRTY_SHARE)] if is_dirty else []
    with acting_as(cluster.user):
        for path in dirty:
            with path.open("r+b") as file:
                file.write(b"x" * PAGE_BYTES)
    count = count_files(cluster.data, time.time())
    recent = len(dirty) if is_dirty else 0
    seen = DataDirectory(True, method, count.files, recent, dirty_bytes(), True)
    forecast = sync_forecast(seen, costs, 0)
    cluster.kill()
    cluster.forget_postmaster()
    cluster.start({**SETTINGS, "recovery_init_sync_method": method})
    found = read_recovery_log(cluster.log_text())
    assert found.before_redo_s is not None
    return SyncedCrash(files, is_dirty, method, forecast, found.before_redo_s)
