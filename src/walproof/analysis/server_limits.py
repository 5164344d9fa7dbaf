"""What a server has to keep within, and how much of the room for pg_wal max_wal_size may take.

max_wal_size is a soft limit. On standbys, in recovery, and where a checkpoint takes too long, pg_wal passes
it by up to a checkpoint cycle (manual, "WAL Configuration"): max_wal_size / (1 +
checkpoint_completion_target), which is about half of it. Whoever keeps WAL needs room beside it. When pg_wal
is full the server stops, and does not start again before there is room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

ALONE = Fraction(2, 3)
"""Of the room, where nobody else keeps WAL: a cycle more than max_wal_size fits."""
SHARED = Fraction(1, 2)
"""Where an archiver, or slots with a limit, may keep WAL: there is time to act when they are late."""
UNLIMITED = Fraction(1, 3)
"""Where slots have no limit: beside max_wal_size there is room for a limit of half of it."""


@dataclass(frozen=True, slots=True)
class WalKeepers:
    """Who keeps WAL beside checkpoints."""

    kept_bytes: int = 0
    """wal_keep_size, which is kept always."""
    is_shared: bool = False
    """Whether an archiver or slots may keep WAL."""
    is_unlimited: bool = False
    """Whether there are slots without a limit."""

    def usable_bytes(self, room_bytes: int) -> int:
        """The most that max_wal_size, or a simulated pg_wal, may take of ``room_bytes``."""
        share = UNLIMITED if self.is_unlimited else SHARED if self.is_shared else ALONE
        return max(0, min(int(room_bytes * share), room_bytes - self.kept_bytes))


def may_slots_fill(limit_bytes: int | None, room_bytes: int | None) -> bool:
    """Whether max_slot_wal_keep_size lets a slot fill the room for pg_wal: there is no limit, or it is no
    less than that room. ``limit_bytes``: below 0 for no limit, None where it is not known."""
    if limit_bytes is None:
        return False
    return limit_bytes < 0 or (room_bytes is not None and limit_bytes >= room_bytes)


def wal_keepers(keep_bytes: int, *, has_slots: bool, archives: bool, may_fill: bool) -> WalKeepers:
    """Who keeps WAL on a server. ``keep_bytes``: wal_keep_size; ``has_slots``: slots that outlive a session;
    ``may_fill``: as `may_slots_fill` says."""
    return WalKeepers(keep_bytes, is_shared=has_slots or archives, is_unlimited=has_slots and may_fill)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server."""

    wal_disk_bytes: int | None = None
    """Room for pg_wal."""
    wal_per_hour_bytes: int | None = None
    recovery_s: float | None = None
    """Longest crash recovery."""
    keepers: WalKeepers = field(default_factory=WalKeepers)
    """Who keeps WAL in that room beside checkpoints."""

    @property
    def usable_wal_bytes(self) -> int | None:
        """The most that pg_wal and max_wal_size may take of the room; None where no room was named."""
        return None if self.wal_disk_bytes is None else self.keepers.usable_bytes(self.wal_disk_bytes)
