"""A recovery that is under way, as it was seen from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class RecoveryPhase(Enum):
    """What a server that recovers is doing."""

    BEFORE_REDO = "before redo"
    """It starts, and syncs its data directory."""
    REDO = "redo"
    READ_ONLY = "read-only recovery"
    """A recovery to a target (recovery.signal) that accepts read-only connections and goes on."""
    CHECKPOINT = "checkpoint"
    """The checkpoint at the end of recovery."""
    HOT_STANDBY = "hot standby"
    """A standby that accepts read-only connections until it is promoted; its replay may be paused."""
    WARM_STANDBY = "warm standby"
    """A standby that replays and accepts no connections (hot_standby = off)."""
    OVER = "over"
    """It accepts connections."""

    @property
    def is_last(self) -> bool:
        """Whether the server is up as it was configured, so that nothing is waited for."""
        return self in (RecoveryPhase.HOT_STANDBY, RecoveryPhase.WARM_STANDBY, RecoveryPhase.OVER)

    @property
    def is_up(self) -> bool:
        """Whether a start-up probe has nothing left to wait for."""
        return self.is_last or self is RecoveryPhase.READ_ONLY


@dataclass(frozen=True, slots=True)
class SyncPlace:
    """A file that is synced before redo."""

    path: str
    """Absolute, without links."""
    is_flushed: bool
    """Whether it is flushed; false while the kernel is only asked to begin writing it."""


@dataclass(frozen=True, slots=True)
class SyncWalk:
    """The files of a data directory, in the order in which a start flushes them one by one."""

    places: Mapping[str, int]
    """Path -> place in the order, from 0."""
    recent: tuple[int, ...]
    """Places, ascending, of files written shortly before, so that pages of them may be dirty."""


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
    """Counters that change while the recovery works: CPU in ns, bytes read and written, as far as they are
    shown, of restore_command, too, and looks at which it waited for a disk. In a read-only recovery those of
    the startup process, in steps."""
    sync: SyncPlace | None = None
    """The file that is synced; None outside of the sync, and where none was seen."""
    awaited: str | None = None
    """The WAL segment that is being restored from an archive, or waited for."""
