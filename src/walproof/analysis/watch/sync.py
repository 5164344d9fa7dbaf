"""How long a crashed server syncs its data directory before redo (SyncDataDirectory in fd.c).

    fsync     files x file + files with dirty pages x flush + dirty MB x MB         one after the other
    syncfs    file system + files with dirty pages x flush + dirty MB x MB / at once, so flushes count a tenth
    fsync=off nothing

Dirty pages are those of the whole machine, an upper bound: the lower end of the range has none. Of a server
elsewhere the files are relations of pg_class, and how much is dirty is not known: the upper end has as much
as WAL since the redo point.
"""

from __future__ import annotations

from walproof.facts.calibration import SyncCosts
from walproof.facts.watch import DataDirectory, Span, SyncForecast

MB = float(1 << 20)
SHIPPED_SYNC = SyncCosts(file_us=100.0, flush_us=1000.0, mb_us=4000.0, filesystem_us=20000.0)
"""Orders of magnitude of disks in a cloud, rounded."""
BAND_CALIBRATED, BAND_SHIPPED, BAND_REMOTE = 2.0, 4.0, 2.0
"""Factors around the forecast; the last one is added for files that were not seen."""
JITTER_S = 0.01
"""Added to the upper end: what the kernel writes for itself meanwhile, which factors of a short sync miss."""
_TOGETHER = 0.1
"""Share of the cost of flushing files one by one: a single call for all leaves their order to the kernel."""


def sync_forecast(seen: DataDirectory, costs: SyncCosts | None, distance_bytes: int) -> SyncForecast:
    """``costs``: None for the shipped ones; ``distance_bytes``: WAL since the redo point."""
    if not seen.is_synced:
        return SyncForecast(Span(0.0, 0.0, 0.0), "off", seen.files, seen.dirty_bytes, seen.is_seen)
    band = BAND_SHIPPED if costs is None else BAND_CALIBRATED
    costs = costs or SHIPPED_SYNC
    if not seen.is_seen:
        band *= BAND_REMOTE
    clean_s = _seconds(seen, costs, 0, 0)
    if seen.dirty_bytes is None:
        likely_s, most_s = clean_s, _seconds(seen, costs, 0, distance_bytes)
    else:
        likely_s = most_s = _seconds(seen, costs, seen.dirty_files or 0, seen.dirty_bytes)
    span = Span(likely_s, clean_s / band, most_s * band + JITTER_S)
    return SyncForecast(span, seen.method, seen.files, seen.dirty_bytes, seen.is_seen)


def _seconds(seen: DataDirectory, costs: SyncCosts, dirty_files: int, dirty_bytes: int) -> float:
    dirty_us = dirty_bytes / MB * costs.mb_us
    if seen.method == "syncfs":
        return (costs.filesystem_us + dirty_files * costs.flush_us * _TOGETHER + dirty_us) / 1e6
    return (seen.files * costs.file_us + dirty_files * costs.flush_us + dirty_us) / 1e6
