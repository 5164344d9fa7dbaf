"""What a server's checkpoints should be set to, from simulated servers or from its rate of WAL."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import ServerPrediction, Study, fits, fits_disk
from walproof.settings.change import Change

WORTH = 0.1
"""Share of the WAL that a larger max_wal_size has to save before it is advised."""
COMPLETION_TARGET = 0.9
"""The least checkpoint_completion_target that is not advised against; 14 and newer have it as the default."""
DEFAULT_TIMEOUT_S = 300
_ENOUGH = 1.03
"""A size whose WAL is within 3 % of the least is large enough."""
_SLACK = 1.1
"""One checkpoint cycle has more WAL than another."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a server's checkpoints should be set to."""

    prediction: ServerPrediction
    """With these settings; with a smaller max_wal_size where none of this size was simulated."""
    size_mb: int | None
    needed_mb: int | None
    """The size where the rate of WAL decides it; None where simulated cycles do."""
    changes: tuple[Change, ...]


def choice(study: Study, limits: ServerLimits) -> Choice | None:
    """Settings that keep within the limits, or save a tenth of the WAL; None where none is better."""
    present = study.present
    chosen = _chosen(limits, study)
    saved = 1 - chosen.wal_bytes / present.wal_bytes if present.wal_bytes else 0.0
    if chosen.target == present.target or (saved < WORTH and fits(present, limits)):
        return None
    size_mb = chosen.target.max_wal_size_mb
    needed_mb = _needed_mb(limits, study, chosen)
    if needed_mb is not None and needed_mb > (size_mb or 0):
        size_mb = needed_mb
        # Figures are those of the advised size, as the curve has them.
        chosen = study.predictions.get(replace(chosen.target, max_wal_size_mb=size_mb), chosen)
    else:
        needed_mb = None
    now, found = present.target, chosen.target
    changes = settings(
        size_mb if size_mb != now.max_wal_size_mb else None,
        found.checkpoint_timeout_s if found.checkpoint_timeout_s != now.checkpoint_timeout_s else None,
    )
    return Choice(chosen, size_mb, needed_mb, changes) if changes else None


def enough_mb(cycle_bytes: float, completion_target: float, segment_bytes: int) -> int:
    """A power of two as max_wal_size, with which a cycle of so much WAL does not begin a checkpoint by size.

    It begins one after max_wal_size / (1 + checkpoint_completion_target), in whole segments
    (CalculateCheckpointSegments). A lower completion target than is advised counts as the advised one.
    """
    spread = 1 + max(completion_target, COMPLETION_TARGET)
    needed = (_SLACK * cycle_bytes + segment_bytes) * spread / 2**20
    return 1 << max(0, math.ceil(math.log2(max(1.0, needed))))


def settings(size_mb: int | None, timeout_s: int | None) -> tuple[Change, ...]:
    """The changes that set these; None is not set."""
    changes = []
    if size_mb is not None:
        changes.append(Change("max_wal_size", say_size(size_mb)))
    if timeout_s is not None:
        changes.append(
            Change("checkpoint_timeout", f"{timeout_s // 60}min" if timeout_s % 60 == 0 else f"{timeout_s}s")
        )
    return tuple(changes)


def say_size(size_mb: int) -> str:
    """A size as postgresql.conf takes it."""
    return f"{size_mb // 1024}GB" if size_mb % 1024 == 0 else f"{size_mb}MB"


def _chosen(limits: ServerLimits, study: Study) -> ServerPrediction:
    if limits.recovery_s is not None or limits.wal_per_hour_bytes is not None:
        return study.answer(limits).prediction
    timeout_s = study.question.present.checkpoint_timeout_s
    # A timeout below the default may itself be what makes the images.
    timeouts = {timeout_s, max(timeout_s, DEFAULT_TIMEOUT_S)} if timeout_s is not None else {None}
    fitting = [point for timeout in timeouts for point in study.curve(timeout) if fits_disk(point, limits)]
    # A max_wal_size that is larger than needed costs nothing, so none that has its room is made smaller.
    least_mb = study.question.present.max_wal_size_mb or 0
    curve = [point for point in fitting if (point.target.max_wal_size_mb or 0) >= least_mb] or fitting
    if not curve:
        return study.answer(limits).prediction
    least = min(point.wal_bytes for point in curve)
    return min(
        (point for point in curve if point.wal_bytes <= least * _ENOUGH),
        key=lambda point: (point.target.max_wal_size_mb or 0, point.target.checkpoint_timeout_s or 0),
    )


def _needed_mb(limits: ServerLimits, study: Study, chosen: ServerPrediction) -> int | None:
    """What checkpoints need to begin by time as chosen; None where the simulation tells more."""
    target = chosen.target
    timeout_s, completion = target.checkpoint_timeout_s, target.checkpoint_completion_target
    if study.hours is None or timeout_s is None or limits.recovery_s:
        return None
    if not chosen.has_whole_cycles:
        cycle_bytes = chosen.wal_bytes / 3600 * timeout_s
    elif completion < COMPLETION_TARGET and chosen.spacing_bytes is not None:
        # The advised completion target begins a checkpoint earlier than was simulated.
        cycle_bytes = chosen.spacing_bytes
    else:
        return None
    found = enough_mb(cycle_bytes, completion, study.found.segment_size)
    usable = limits.usable_wal_bytes
    if usable is None or found << 20 <= usable:
        return found
    # What was simulated is known to fit.
    return None if chosen.has_whole_cycles else usable >> 20
