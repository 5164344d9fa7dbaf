"""Columns of pg_replication_slots that not every version has, for `advise` as for `watch`."""

from __future__ import annotations


def synced_column(major: int) -> str:
    """Whether a standby synchronises the slot. A server that was promoted may still say so of its own."""
    return "synced AND pg_is_in_recovery()" if major >= 17 else "false"


def invalidation_column(major: int) -> str:
    """Why the slot is lost, in the words of 17; ``conflict`` where 16 says no more than that."""
    if major >= 17:
        return "invalidation_reason"
    conflict = "WHEN conflicting THEN 'conflict' " if major == 16 else ""
    # Before 16 a slot was invalidated for its WAL alone.
    return f"CASE {conflict}WHEN wal_status = 'lost' THEN 'wal_removed' END"
