"""How far a prediction may be off because a recording is only a sample of cycles and of compressed images.

Both errors are shares of WAL, at about 95 %. They do not include errors of the simulation itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from walproof.wal.whatif import Cycles, SimulatedRun, Target, WhatIf

ENOUGH_CYCLES = 4
"""Number of cycles that suffice to show how cycles differ."""
_UNKNOWN_SPREAD = 0.1
"""Spread of one cycle, when no server of the recording has enough cycles."""
_ONE_IMAGE = 0.5
"""Spread of the compressed size of an image, if a recording does not give the error."""
_SPAN = 1.96
"""Standard errors of a normal distribution that hold 95 %."""

Spreads = Mapping[int | None, float]
"""By checkpoint_timeout: relative standard deviation of one cycle."""


def spreads(outcomes: Mapping[Target, SimulatedRun]) -> Spreads:
    """How single cycles differ, by timeout: from the server with the fewest cycles that are still enough.

    Its cycles are shorter than those of servers with fewer cycles, and shorter cycles differ more: for those
    servers the spread is too large rather than too small.
    """
    found: dict[int | None, tuple[int, float]] = {}
    for target, outcome in outcomes.items():
        error = _of_one(outcome.cycles)
        if error is None or outcome.cycles.count < ENOUGH_CYCLES or target.late_segments:
            continue
        key = target.checkpoint_timeout_s
        had = found.get(key)
        if had is None or (outcome.cycles.count, -error) < (had[0], -had[1]):
            found[key] = (outcome.cycles.count, error)
    return {timeout: spread for timeout, (_, spread) in found.items()}


def cycle_error(target: Target, phases: Iterable[SimulatedRun], others: Spreads) -> float:
    """Share by which WAL may differ because the recording holds few cycles."""
    cycles = [phase.cycles for phase in phases if phase.cycles.count]
    count = max((cycle.count for cycle in cycles), default=1)
    spreads = [spread for cycle in cycles if (spread := _of_one(cycle)) is not None]
    spread = sum(spreads) / len(spreads) if spreads else 0.0
    if count < ENOUGH_CYCLES:
        known = others.get(target.checkpoint_timeout_s)
        if known is None:
            return _SPAN * max(spread, _UNKNOWN_SPREAD) / math.sqrt(count)
        spread = max(spread, known)
    return _student(max(count, ENOUGH_CYCLES) - 1) * spread / math.sqrt(count)


def image_error(target: Target, outcome: SimulatedRun, found: WhatIf) -> float:
    """Share by which WAL may differ because only some images were test-compressed."""
    method = target.wal_compression
    if method == "as recorded":
        method = found.recorded.compression
    if method in ("off", "as recorded") or not found.sample.count or not outcome.wal_bytes:
        return 0.0
    sample = found.sample.methods.get(method)
    error = None if sample is None else sample.error
    if error is None:
        error = _ONE_IMAGE / math.sqrt(found.sample.count)
    return _SPAN * error * outcome.image_bytes / outcome.wal_bytes


def together(errors: Sequence[float]) -> float:
    """The sum of independent errors."""
    return math.sqrt(sum(error * error for error in errors))


def plain(target: Target) -> Target:
    """The same server without the requested compression. This server has a curve."""
    return replace(target, wal_compression="as recorded")


def _of_one(cycles: Cycles) -> float | None:
    """Relative standard deviation of one cycle; None for fewer than two."""
    return None if cycles.error is None else cycles.error * math.sqrt(cycles.count)


def _student(degrees: int) -> float:
    """Quantile of 97.5 % of Student's t, by Cornish and Fisher; 0.12 too small for 3 degrees, 0.05 for 4."""
    z = _SPAN
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
