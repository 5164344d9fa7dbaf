"""The settings that a recorded server should have: those that keep within limits, with the least WAL at the
present checkpoint_timeout, or at the default in place of a shorter one.

They are first chosen as if there were no limits; limits that these keep within change nothing. Otherwise the
size is made smaller, as far as the limits ask for it. So without a limit for the rate of WAL, a tighter room
for pg_wal, or a tighter recovery target, never gives a larger size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.analysis.whatif_slope import size_mb
from walproof.errors import AnalysisError
from walproof.units import format_bytes

COMPLETION_TARGET = 0.9
"""The least checkpoint_completion_target that is not advised against; 14 and newer have it as the default."""
DEFAULT_TIMEOUT_S = 300
_ENOUGH = 1.03
"""A size whose WAL is within 3 % of the least is large enough."""
_SLACK = 1.1
"""One checkpoint cycle has more WAL than another."""


@dataclass(frozen=True, slots=True)
class LimitsAnswer:
    """The best settings within the limits; if none keeps the limits, the nearest settings."""

    prediction: ServerPrediction
    """With these settings. A size that was not simulated has its figures from its neighbours: it may be
    filled completely, and recovery takes as long as with the next larger size."""
    is_within: bool
    simulated: ServerPrediction
    """What simulated cycles choose; ``prediction`` has a larger size where the rate of WAL needs one."""
    needed_mb: int | None
    """The max_wal_size with which checkpoints begin by time at the rate of WAL; None where simulated cycles
    say how large it has to be."""


def answer(study: Study, limits: ServerLimits) -> LimitsAnswer:
    """The best settings of the grid for these limits, and without any for ``ServerLimits()``.

    Raises AnalysisError where WAL an hour is limited and the recording has no times.
    """
    if limits.wal_per_hour_bytes is not None and study.hours is None:
        raise AnalysisError(
            "how much WAL an hour this is, is not known: the recording has no times",
            detail=f"No two transactions of its {format_bytes(study.recorded_bytes)} ended a second apart.",
            hint='Leave out --wal-per-hour, or record with "walproof wal capture", which keeps times.',
        )
    free = _free(study)
    if fits(free.prediction, limits):
        return free
    timeout_s = free.prediction.target.checkpoint_timeout_s
    # A size above one that is too large is too large as well, whatever its own simulation says.
    kept = list(takewhile(lambda point: _keeps(point, limits), _timed(study, timeout_s)))
    for pool in _pools(study, limits, timeout_s, kept):
        within = [point for point in pool if fits(point, limits)]
        if within:
            return _made_larger(study, limits, _least(within), kept, free.prediction)
    nearest = _nearest(study, limits)
    return LimitsAnswer(nearest, False, nearest, None)


def enough_mb(cycle_bytes: float, completion_target: float, segment_bytes: int) -> int:
    """A power of two as max_wal_size, with which a cycle of so much WAL does not begin a checkpoint by size.

    It begins one after max_wal_size / (1 + checkpoint_completion_target), in whole segments
    (CalculateCheckpointSegments). A lower completion target than is advised counts as the advised one.
    """
    spread = 1 + max(completion_target, COMPLETION_TARGET)
    needed = (_SLACK * cycle_bytes + segment_bytes) * spread / 2**20
    return 1 << max(0, math.ceil(math.log2(max(1.0, needed))))


def fits(prediction: ServerPrediction, limits: ServerLimits) -> bool:
    """Whether it keeps within all limits."""
    rate = limits.wal_per_hour_bytes
    return _keeps(prediction, limits) and (rate is None or prediction.wal_span.high <= rate)


def _keeps(prediction: ServerPrediction, limits: ServerLimits) -> bool:
    """Whether it keeps within the limits that a smaller size keeps within if a larger one does."""
    return _fits_disk(prediction, limits) and _fits_recovery(prediction, limits)


def _fits_disk(prediction: ServerPrediction, limits: ServerLimits) -> bool:
    needed = max(prediction.pg_wal_most, (prediction.target.max_wal_size_mb or 0) << 20)
    return limits.usable_wal_bytes is None or needed <= limits.usable_wal_bytes


def _fits_recovery(prediction: ServerPrediction, limits: ServerLimits) -> bool:
    target_s, found_s = limits.recovery_s, prediction.recovery_s
    return target_s is None or (found_s is not None and found_s <= target_s)


def _grid(study: Study) -> list[ServerPrediction]:
    return [study.predictions[target] for target in study.question.grid()]


def _timed(study: Study, timeout_s: int | None) -> list[ServerPrediction]:
    """Every size with that checkpoint_timeout, the smallest first."""
    found = [point for point in _grid(study) if point.target.checkpoint_timeout_s == timeout_s]
    return sorted(found, key=size_mb)


def _present_mb(study: Study) -> int:
    """The present max_wal_size; 0 if it is not known."""
    return size_mb(study.present) if study.question.is_present_known else 0


def _free(study: Study) -> LimitsAnswer:
    """The answer without limits."""
    timeout_s = study.question.present.checkpoint_timeout_s
    # A timeout below the default may itself be what makes the images.
    timeouts = {timeout_s, max(timeout_s, DEFAULT_TIMEOUT_S)} if timeout_s is not None else {None}
    curve = [point for timeout in timeouts for point in study.curve(timeout)]
    # A max_wal_size that is larger than needed costs nothing, so none is made smaller.
    chosen = _least([point for point in curve if size_mb(point) >= _present_mb(study)] or curve)
    needed_mb = _needed_mb(study, chosen)
    if needed_mb is None or needed_mb <= size_mb(chosen):
        return LimitsAnswer(chosen, True, chosen, None)
    return LimitsAnswer(_sized(study, chosen, needed_mb), True, chosen, needed_mb)


def _pools(
    study: Study, limits: ServerLimits, timeout_s: int | None, kept: Sequence[ServerPrediction]
) -> list[Sequence[ServerPrediction]]:
    """Points to choose from; the first pool that has one within the limits decides.

    ``kept``: sizes with that timeout that keep within the limits but for the rate of WAL.
    """
    grid, least_mb = _grid(study), _present_mb(study)
    told = [point for point in study.curve(timeout_s) if point in kept]
    pools: list[Sequence[ServerPrediction]] = [told, kept]
    if least_mb and _keeps(study.present, limits):
        # Nothing asks for a smaller size.
        pools = [[point for point in told if size_mb(point) >= least_mb], [study.present]]
    if not kept:
        # The smallest size is too large for the limits: checkpoints by time may keep within them.
        pools.append([point for point in grid if size_mb(point) == min(map(size_mb, grid))])
    if limits.wal_per_hour_bytes is not None:
        pools += [[point for point in grid if size_mb(point) >= least_mb], grid]
    return pools


def _least(points: Sequence[ServerPrediction]) -> ServerPrediction:
    """The smallest size that writes hardly more than the least WAL."""
    least = min(point.wal_bytes for point in points)
    enough = [point for point in points if point.wal_bytes <= least * _ENOUGH]
    chosen = min(enough, key=lambda point: (size_mb(point), point.target.checkpoint_timeout_s or 0))
    # Where the recording holds no whole cycle the WAL is an upper bound: such a size may write far less than
    # one that begins checkpoints by size.
    bounds = [
        point
        for point in enough
        if point.target.checkpoint_timeout_s == chosen.target.checkpoint_timeout_s
        and not point.has_whole_cycles
    ]
    return min(bounds, key=size_mb) if bounds and chosen.by_size_share > 0 else chosen


def _made_larger(
    study: Study,
    limits: ServerLimits,
    chosen: ServerPrediction,
    kept: Sequence[ServerPrediction],
    free: ServerPrediction,
) -> LimitsAnswer:
    """The chosen point with the size that the rate of WAL needs, as far as the limits leave room for it."""
    needed_mb = _needed_mb(study, chosen) if chosen in kept else None
    if needed_mb is None or needed_mb <= size_mb(chosen):
        return LimitsAnswer(chosen, True, chosen, None)
    timed = _timed(study, chosen.target.checkpoint_timeout_s)
    most_mb = min(needed_mb, size_mb(free))
    too_large_mb = min((size_mb(point) for point in timed if point not in kept), default=math.inf)
    sizes = {needed_mb}
    if not any(point.has_whole_cycles for point in kept if size_mb(point) >= size_mb(chosen)):
        sizes |= set(map(size_mb, kept))
        usable = limits.usable_wal_bytes
        # Beyond what was simulated a recovery that is too long is not known in parts.
        if usable is not None and (usable >> 20 < size_mb(timed[-1]) or _fits_recovery(free, limits)):
            sizes.add(usable >> 20)
    for size in sorted(sizes, reverse=True):
        sized = _sized(study, chosen, size)
        if size_mb(chosen) < size < too_large_mb and size <= most_mb and fits(sized, limits):
            return LimitsAnswer(sized, True, chosen, needed_mb)
    return LimitsAnswer(chosen, True, chosen, None if chosen.has_whole_cycles else needed_mb)


def _needed_mb(study: Study, chosen: ServerPrediction) -> int | None:
    """What checkpoints need to begin by time as chosen; None where the simulation tells more, or where the
    present settings are chosen."""
    target = chosen.target
    timeout_s, completion = target.checkpoint_timeout_s, target.checkpoint_completion_target
    is_present = study.question.is_present_known and target == study.question.present
    if study.hours is None or timeout_s is None or is_present:
        return None
    if not chosen.has_whole_cycles:
        cycle_bytes = chosen.wal_bytes / 3600 * timeout_s
    elif completion < COMPLETION_TARGET and chosen.spacing_bytes is not None:
        # The advised completion target begins a checkpoint earlier than was simulated.
        cycle_bytes = chosen.spacing_bytes
    else:
        return None
    return enough_mb(cycle_bytes, completion, study.found.segment_size)


def _sized(study: Study, chosen: ServerPrediction, needed_mb: int) -> ServerPrediction:
    """The chosen point with that size, simulated or not."""
    target = replace(chosen.target, max_wal_size_mb=needed_mb)
    if target in study.predictions:
        return study.predictions[target]
    size_bytes = needed_mb << 20
    return replace(
        chosen,
        target=target,
        distance_most=max(chosen.distance_most, float(size_bytes)),
        pg_wal_most=max(chosen.pg_wal_most, size_bytes),
        recovery_s=_recovery_s(_timed(study, target.checkpoint_timeout_s), needed_mb),
    )


def _recovery_s(timed: Sequence[ServerPrediction], needed_mb: int) -> float | None:
    """Of a size that was not simulated: as with the next larger one, and in proportion beyond the largest."""
    for point in timed:
        if size_mb(point) >= needed_mb:
            return point.recovery_s
    last = timed[-1]
    return None if last.recovery_s is None else last.recovery_s * needed_mb / size_mb(last)


def _nearest(study: Study, limits: ServerLimits) -> ServerPrediction:
    """Where nothing keeps within the limits."""
    grid = _grid(study)
    fitting = [point for point in grid if _fits_disk(point, limits)] or grid[:1]
    keeping = [point for point in fitting if _fits_recovery(point, limits)]
    if keeping:
        return min(keeping, key=lambda point: (point.wal_span.high, point.distance_most))
    least_mb = min(map(size_mb, fitting))
    return min(
        (point for point in fitting if size_mb(point) == least_mb),
        key=lambda point: (point.recovery_s or 0.0, point.wal_span.high),
    )
