"""Whether max_wal_size and wal_keep_size fit into the room for pg_wal (``--wal-disk``)."""

from __future__ import annotations

from walproof.advise.server.case import ServerCase
from walproof.units import format_bytes

_FULL = "When pg_wal is full the server stops."


def over_room(case: ServerCase) -> str | None:
    """That max_wal_size does not fit into its room; None where it does, or no room was named."""
    limits = case.sized_limits
    size, room, usable = case.window.base("max_wal_size"), limits.wal_disk_bytes, limits.usable_wal_bytes
    if size is None or room is None or usable is None or int(size) << 20 <= usable:
        return None
    keepers = limits.keepers
    kept = f"; wal_keep_size keeps {format_bytes(keepers.kept_bytes)} beside it" if keepers.kept_bytes else ""
    beside = ", and slots or an archiver keep WAL beside it" if keepers.is_shared else ""
    return (
        f"max_wal_size = {case.window.value('max_wal_size')} is more than {format_bytes(usable)} of "
        f"--wal-disk {format_bytes(room)}: it is a soft limit that a busy server reaches and passes"
        f"{beside}{kept}. {_FULL}"
    )


def over_room_together(case: ServerCase) -> str:
    """That wal_keep_size leaves no room for max_wal_size, where ``fitting_keep_mb`` says so."""
    return (
        f"wal_keep_size = {case.window.value('wal_keep_size')} and max_wal_size = "
        f"{case.window.value('max_wal_size')} do not both fit into --wal-disk "
        f"{format_bytes(case.limits.wal_disk_bytes or 0)}: the server always keeps as much as the one says, "
        f"and a busy server passes the other, a soft limit. {_FULL}"
    )


def fitting_keep_mb(case: ServerCase) -> int | None:
    """The wal_keep_size, in MB, beside which max_wal_size fits. None where the present one may stay: it
    leaves max_wal_size a third of the room, which is what it may always take."""
    limits = case.sized_limits
    size, room, usable = case.window.base("max_wal_size"), limits.wal_disk_bytes, limits.usable_wal_bytes
    if size is None or room is None or usable is None:
        return None
    size_bytes = int(size) << 20
    if size_bytes <= usable or usable >= room // 3:
        return None
    # pg_wal passes max_wal_size by half of it.
    keep_mb = max(room // 3, room - size_bytes * 3 // 2) >> 20
    return keep_mb if keep_mb <= 1024 else keep_mb - keep_mb % 1024
