"""What is read at both ends of a slice: clock, WAL position, and CPU time of the server.

Clock and position come from one statement, so that they belong together however late this session is served.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg

from walproof.errors import ProbeError, one_line
from walproof.probe.processes import children, read_io, read_schedule
from walproof.probe.throughput import read_ended
from walproof.units import Lsn

_EDGE = "SELECT extract(epoch FROM clock_timestamp())::float8, pg_current_wal_insert_lsn()::text"


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a slice."""

    at: float
    """Unix time."""
    lsn: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Transactions that ended within a stretch of time."""

    transactions: int
    latency_ms_sum: float
    latency_ms_p50: float | None
    latency_ms_p95: float | None
    latency_ms_p99: float | None
    failed: int = 0
    """Transactions that ended otherwise than well (deadlocks, serialization failures)."""


def read_edge(connection: psycopg.Connection[tuple[object, ...]]) -> Edge:
    """The clock and the WAL insert position now. Raises ProbeError."""
    try:
        row = connection.execute(_EDGE).fetchone()
    except psycopg.Error as error:
        raise ProbeError(f"could not read the WAL position: {one_line(error)}") from error
    assert row is not None
    return Edge(float(str(row[0])), int(Lsn.parse(str(row[1]))))


def server_cpu_ns(postmaster_pid: int, but: Collection[int] = ()) -> dict[int, int]:
    """Process id -> nanoseconds on a CPU, of the postmaster and its children ``but`` some; empty if the
    kernel does not tell (/proc/PID/schedstat)."""
    found = {}
    for pid in _processes(postmaster_pid, but):
        schedule = read_schedule(pid)
        if schedule is not None:
            found[pid] = schedule[0]
    return found


def server_written_bytes(postmaster_pid: int, but: Collection[int] = ()) -> dict[int, int]:
    """Process id -> bytes that it made the kernel write to disk, of the postmaster and its children ``but``
    some (/proc/PID/io, write_bytes); empty if that cannot be read."""
    found = {}
    for pid in _processes(postmaster_pid, but):
        written = read_io(pid).get("write_bytes")
        if written is not None:
            found[pid] = written
    return found


def _processes(postmaster_pid: int, but: Collection[int]) -> list[int]:
    return [pid for pid in (postmaster_pid, *children(postmaster_pid)) if pid not in but]


def cpu_spent_s(before: dict[int, int], after: dict[int, int]) -> float | None:
    """What the processes that exist at the end used in between; None if nothing could be read. A process that
    has ended meanwhile is not counted."""
    if not before or not after:
        return None
    return sum(ns - before.get(pid, 0) for pid, ns in after.items()) / 1e9


def count_transactions(logs: Sequence[Path], stretches: Sequence[tuple[float, float]]) -> list[Counted]:
    """What pgbench logged within each [begin, end), in Unix seconds. Raises ProbeError."""
    ended, latency_ms, failed = read_ended(logs)
    found = []
    for begin, end in stretches:
        low, high = np.searchsorted(ended, (begin, end))
        latencies = latency_ms[low:high]
        middle, p95, p99 = np.percentile(latencies, (50, 95, 99)) if latencies.size else (None, None, None)
        first, last = np.searchsorted(failed, (begin, end))
        found.append(
            Counted(
                int(latencies.size), float(latencies.sum()), _plain(middle), _plain(p95), _plain(p99),
                int(last - first),
            )
        )  # fmt: skip
    return found


def _plain(value: object) -> float | None:
    return None if value is None else float(str(value))
