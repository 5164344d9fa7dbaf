"""What a probe is: something that observes one trial's window from outside the load.

A probe is started when the window opens and stopped when it closes. It hands on what it saw as an
Observation, and nothing else. A probe that cannot observe on this version or machine says so in a warning and
returns what it has: a missing figure never fails a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Subject:
    """What is observed: a running cluster and the load generator that works on it."""

    conninfo: str
    """libpq connection string of a superuser (unix socket)."""
    data: Path
    """The data directory."""
    log: Path
    """The server's log file (stderr of the postmaster)."""
    postmaster_pid: int
    driver_pid: int
    """Process id of the load generator (pgbench)."""
    version_num: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What a probe saw in one window."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    """name -> (seconds since the window opened, values)."""
    warnings: tuple[str, ...] = ()
    opened_at: float | None = None
    """Unix time from which its totals count, where it knows that to the moment."""


class Probe(Protocol):
    """One observer. ``start`` and ``stop`` are called once each, from the same thread."""

    def start(self, subject: Subject) -> None:
        """Take the first reading; begin sampling. Raises ProbeError when it can see nothing at all."""

    def stop(self) -> Observation:
        """Take the last reading; end sampling; release every connection, thread and file."""

    def abandon(self) -> None:
        """Release everything without a reading: the trial failed. May be called at any time, and more than
        once."""
