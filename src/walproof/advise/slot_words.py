"""What is said of replication slots, of a server that is advised as of one that is watched."""

from __future__ import annotations

UNSYNCED_S = 120.0
"""Age in seconds from which the copy of a slot is not kept in step any more. The worker that keeps it rests
for 30 s at most (MAX_SLOTSYNC_WORKER_NAPTIME_MS, slotsync.c)."""
WAL_REMOVED = "wal_removed"
_CATALOGS = "replay has removed rows of catalogs that it needs"
_LEVEL = "the primary's wal_level was below logical"
_WHY = {
    WAL_REMOVED: "WAL that it needs is gone",
    "rows_removed": _CATALOGS,
    "wal_level_insufficient": _LEVEL,
    "idle_timeout": "nobody used it for idle_replication_slot_timeout",
    "conflict": f"{_CATALOGS}, or {_LEVEL}",
}
_PREVENTION = {
    "rows_removed": "hot_standby_feedback = on, and a slot of this standby on the primary "
    "(primary_slot_name), keep such rows.",
}
_PREVENTION["conflict"] = _PREVENTION["rows_removed"]
OF_PLATFORM = frozenset({"wal_proposer_slot", "wal_retention_slot"})
"""Slots by which Neon itself keeps WAL: nobody may drop them, and they are no sign of a lost consumer."""
MANAGED = "Patroni and CloudNativePG keep slots on standbys for a failover, unused, and advance them"


def why_lost(invalidation: str | None) -> str:
    """Why a slot is lost (pg_replication_slots.invalidation_reason), after its name."""
    if invalidation is None:
        return "the server has invalidated it"
    return _WHY.get(invalidation, f"the server has invalidated it ({invalidation})")


def after_lost(kind: str) -> str:
    """What is left to do for the consumer of a lost slot."""
    if kind == "physical":
        return (
            "If an archive has the WAL that its standby needs, the standby goes on from there "
            "(restore_command); otherwise make it again from a base backup."
        )
    return "Its consumer cannot go on: set it up again."


def prevention(invalidation: str | None) -> tuple[str, ...]:
    """The sentence that says how the next slot is spared, where a setting of this server spares it."""
    found = _PREVENTION.get(invalidation or "")
    return () if found is None else (found,)
