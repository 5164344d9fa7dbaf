"""What the scripts of a load did when each was run for a short time, alone, on a throw-away server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TriedStatement:
    """A statement of a script; each tuple has an entry for each call."""

    sql: str
    rows: tuple[int, ...] = ()
    """Rows that it returned or changed."""
    wal_records: tuple[int, ...] = ()
    """Records of WAL, without those of commits and checkpoints, which pg_stat_statements does not count
    either."""
    pruning_records: tuple[int, ...] = ()
    """How many of them remove dead rows of a page, which any statement may do that comes to it."""
    wal_bytes: tuple[int, ...] = ()
    """Their bytes, without full-page images: how many there are depends on the time since a checkpoint."""

    @property
    def calls(self) -> int:
        """How often it ended."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TriedScript:
    """A script of a load."""

    name: str
    statements: tuple[TriedStatement, ...]
    """Without BEGIN and COMMIT; empty where a script's own commands decide which of them run."""
    error: str | None = None
    """What pgbench or the server said; None where nothing failed."""
    failed: int | None = None
    """Place of the statement that failed, from 0; None where that is not known."""
    is_cut: bool = False
    """Whether time was over before it had run as often as it was to."""


@dataclass(frozen=True, slots=True)
class TriedLoad:
    """A load."""

    version: str
    """Of the server: ``17.10``."""
    scripts: tuple[TriedScript, ...]
