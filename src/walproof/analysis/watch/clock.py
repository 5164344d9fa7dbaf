"""The crash clock: how long the server would be away if it crashed now.

    server killed   its data is in the kernel's cache: redo with a warm cache, then the checkpoint
    machine lost    nothing is in a cache: redo and checkpoint with a cold one

The work comes from the stream, its price from a calibration or the shipped costs (`analysis.recovery`). The
phase before redo, in which a server syncs its data directory (recovery_init_sync_method), is not included: it
depends on files and dirty pages of the kernel, which SQL does not show.
"""

from __future__ import annotations

from dataclasses import dataclass

from walproof.analysis.forecast import Costs
from walproof.analysis.recovery import Prediction, predict
from walproof.wal.recovery import RecoveryWork

NOT_INCLUDED = "the sync of the data directory before redo is not included"


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds, and between what the measured time is expected in 9 of 10 cases."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CrashClock:
    """What a crash at this moment would cost."""

    warm: Span
    """Server killed: until connections are accepted."""
    redo_s: float
    checkpoint_s: float
    cold: Span
    """Machine lost."""
    cold_redo_s: float
    cold_checkpoint_s: float
    distance_bytes: int
    """WAL from the redo point to the end."""
    dominating: str
    """Into what most of warm redo goes."""
    costs: str
    """``calibrated``, ``own crash`` or ``shipped``."""
    is_recomputing: bool
    """A checkpoint has completed whose redo point was not known before (13 to 16): these are the figures from
    before it, a little too long, until all is simulated again."""


def crash_clock(
    work: RecoveryWork, buffers: int, costs: Costs, *, is_recomputing: bool = False
) -> CrashClock:
    """Price the work of a server with that many buffers of 8 kB (one of ``work.pools``)."""
    found = predict(work, buffers, costs.coefficients, costs.disk)
    has_prefetch = work.pool(buffers).prefetches > 0
    cold = found.cold if has_prefetch else found.cold_off
    return CrashClock(
        warm=_span(found, found.total_s, is_cold=False),
        redo_s=found.warm_s,
        checkpoint_s=found.checkpoint_s,
        cold=_span(found, found.cold_total_s(has_prefetch), is_cold=True),
        cold_redo_s=cold.redo_s,
        cold_checkpoint_s=found.cold_checkpoint_s,
        distance_bytes=work.wal_bytes,
        dominating=found.dominating.says,
        costs=costs.coefficients.source,
        is_recomputing=is_recomputing,
    )


def _span(found: Prediction, seconds: float, *, is_cold: bool) -> Span:
    low, high = found.band(seconds, is_cold=is_cold)
    return Span(seconds, low, high)
