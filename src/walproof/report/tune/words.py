"""What a tuning is for, and what was promised, in words."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts.tuning import Promises
from walproof.units import format_bytes, format_duration

OBJECTIVES: Mapping[str, str] = {
    "tps": "throughput",
    "latency_ms_p99": "99th percentile of latency",
    "wal_bytes_per_txn": "WAL per transaction",
    "recovery_s": "time away after a crash",
}

CLASS_WORDS: Mapping[str, str] = {
    "none": "loses nothing",
    "may lose last commits": "may lose the last commits",
    "may lose table": "may lose unlogged tables",
    "may corrupt": "may corrupt the cluster",
}
"""Durability class -> what a crash does."""


def promises_text(promises: Promises) -> str:
    """``nothing is lost, back within 60 s of a crash, pg_wal within 20 GB``."""
    parts = [f"a crash {CLASS_WORDS[promises.may_lose.value]}"]
    if promises.recovery_target_s is not None:
        parts.append(f"back within {format_duration(promises.recovery_target_s)}")
    if promises.wal_disk_bytes is not None:
        parts.append(f"pg_wal within {format_bytes(promises.wal_disk_bytes)}")
    if promises.memory_bytes is not None:
        parts.append(f"memory within {format_bytes(promises.memory_bytes)}")
    return ", ".join(parts)
