"""Columns of pg_replication_slots that not every version has, for `advise` as for `watch`."""

from __future__ import annotations


def synced_column(major: int) -> str:
    """Whether a standby synchronises the slot. A server that was promoted may still say so of its own."""
    return "synced AND pg_is_in_recovery()" if major >= 17 else "false"
