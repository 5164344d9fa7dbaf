"""A recovery that is under way, as it was seen from outside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RecoveryPhase(Enum):
    """What a server that recovers is doing."""

    BEFORE_REDO = "before redo"
    """It starts, and syncs its data directory."""
    REDO = "redo"
    CHECKPOINT = "checkpoint"
    """The checkpoint at the end of recovery."""
    OVER = "over"
    """It accepts connections."""


@dataclass(frozen=True, slots=True)
class RecoverySight:
    """One look at a server that recovers."""

    at_s: float
    """Time of the look, in seconds of the observer's monotonic clock."""
    phase: RecoveryPhase
    segment: str | None
    """The WAL segment that the startup process reads; None outside of redo."""
    running_s: float | None
    """Seconds since the recovery began; None if it was over before the first look."""
    work: tuple[int, ...]
    """Counters that grow while the recovery works: CPU in ns, bytes read and written, as far as they are
    shown, and looks at which it waited for a disk."""
