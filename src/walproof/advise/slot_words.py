"""What is said of replication slots, of a server that is advised as of one that is watched."""

from __future__ import annotations

UNSYNCED_S = 120.0
"""Age in seconds from which the copy of a slot is not kept in step any more. The worker that keeps it rests
for 30 s at most (MAX_SLOTSYNC_WORKER_NAPTIME_MS, slotsync.c)."""
MANAGED = "Patroni and CloudNativePG keep slots on standbys for a failover, unused, and advance them"
