"""When the next checkpoint begins, by time or by WAL, whichever comes first.

By time checkpoint_timeout after the last one began; by WAL when max_wal_size / (1 +
checkpoint_completion_target) have been written since the last redo point (src/backend/access/transam/xlog.c,
CalculateCheckpointSegments, XLogCheckpointNeeded). One that is due by time is skipped where no important
record was written since the last (CreateCheckPoint, GetLastImportantRecPtr).
"""

from __future__ import annotations

from dataclasses import dataclass

from walproof.analysis.watch.history import grown, rate
from walproof.facts.watch import WatchLook

_IDLE_BYTES = 1024
"""A checkpoint leaves so much WAL at most by itself: its own record, one at the redo point (17 and newer),
one or two of running transactions, headers of pages; 320 bytes on an idle 17. Little work hides in the rest:
the first change of a page writes an image of it, and a checkpoint of so few pages is over in a moment, so
none is still running when its time is over."""


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The checkpoints of one server."""

    distance_bytes: int
    """Bytes of WAL since the redo point of the last completed checkpoint: what recovery reads."""
    age_s: float
    """Seconds since that checkpoint began."""
    next_s: float | None
    """Seconds until the next one begins; None while one should be running, or none is needed."""
    is_needless: bool
    """Whether its time is over, and next to nothing was written since the last: the server skips it."""
    is_by_size: bool
    """Whether WAL triggers it, not time."""
    requested: int | None
    """Checkpoints begun within the window for lack of room or by a command, not by time."""


def checkpoint_state(looks: tuple[WatchLook, ...]) -> CheckpointState | None:
    """The state from the looks of a window; None where the control file or the end of WAL cannot be read."""
    last = looks[-1]
    if last.checkpoint is None or last.lsn is None:
        return None
    distance = max(0, last.lsn - last.checkpoint.redo)
    age_s = max(0.0, last.at - last.checkpoint.at)
    by_time = (last.seconds("checkpoint_timeout") or 300.0) - age_s
    target = float(last.settings.get("checkpoint_completion_target", "0.9"))
    room = (last.size("max_wal_size") or 1 << 30) / (1 + target) - distance
    wal_rate = rate(looks, lambda look: look.lsn) or 0.0
    by_size = room / wal_rate if wal_rate > 0 else None
    is_by_size = by_size is not None and by_size < by_time
    requested = grown(looks, "checkpoints_requested")
    next_s = by_size if is_by_size else by_time
    return CheckpointState(
        distance_bytes=distance,
        age_s=age_s,
        next_s=None if next_s is None or next_s <= 0 else next_s,
        is_needless=by_time <= 0 and distance <= _IDLE_BYTES,
        is_by_size=is_by_size,
        requested=None if requested is None else int(requested),
    )
