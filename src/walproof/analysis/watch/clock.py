"""The crash clock: how long the server would be away if it crashed now.

    server killed   its data is in the kernel's cache: the sync of the data directory (`sync`), redo with a
                    warm cache, then the checkpoint
    machine lost    nothing is in a cache: redo and checkpoint with a cold one

The work comes from the stream, its price from a calibration or the shipped costs (`analysis.recovery`).
"""

from __future__ import annotations

from walproof.analysis.forecast import Costs
from walproof.analysis.recovery_costs import RecoveryPrediction, predict
from walproof.analysis.watch.sync import sync_forecast
from walproof.facts.watch import CrashClock, DataDirectory, Span
from walproof.wal.recovery import RecoveryWork

NOT_INCLUDED = "the sync of the data directory before redo is not included"
"""The note where nothing is known about the sync, and after a loss of the machine."""


def crash_clock(
    work: RecoveryWork,
    buffers: int,
    costs: Costs,
    *,
    is_recomputing: bool = False,
    directory: DataDirectory | None = None,
) -> CrashClock:
    """Price the work of a server with that many buffers of 8 kB (one of ``work.pools``).

    ``directory``: what it syncs before; None: not known, and not included.
    """
    found = predict(work, buffers, costs.coefficients, costs.disk)
    has_prefetch = work.pool(buffers).prefetches > 0
    cold = found.cold if has_prefetch else found.cold_off
    warm = _span(found, found.total_s, is_cold=False)
    sync = None if directory is None else sync_forecast(directory, costs.sync, work.wal_bytes)
    if sync is not None:
        warm = Span(
            warm.seconds + sync.span.seconds, warm.low + sync.span.low, warm.high + sync.span.high
        )  # fmt: skip
    return CrashClock(
        warm=warm,
        redo_s=found.warm_s,
        checkpoint_s=found.checkpoint_s,
        cold=_span(found, found.cold_total_s(has_prefetch), is_cold=True),
        cold_redo_s=cold.redo_s,
        cold_checkpoint_s=found.cold_checkpoint_s,
        distance_bytes=work.wal_bytes,
        dominating=found.dominating.says,
        costs=costs.coefficients.source,
        is_recomputing=is_recomputing,
        sync=sync,
    )


def _span(found: RecoveryPrediction, seconds: float, *, is_cold: bool) -> Span:
    low, high = found.band(seconds, is_cold=is_cold)
    return Span(seconds, low, high)
