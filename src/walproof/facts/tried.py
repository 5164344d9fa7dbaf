"""What the scripts of a load did when each was run for a short time, alone, on a throw-away server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TriedStatement:
    """A statement of a script; each tuple has an entry for each call."""

    sql: str
    """With ``$1`` for pgbench's variables."""
    rows: tuple[int, ...] = ()
    """Rows that it returned or changed."""
    wal_records: tuple[int, ...] = ()
    """Records of WAL, without those of commits and checkpoints, which pg_stat_statements does not count
    either."""
    upkeep_records: tuple[int, ...] = ()
    """How many of them prune a page or save its hint bits, which any statement may do that comes first."""
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
    """Those that were reached, without BEGIN and COMMIT; empty where they cannot be told apart."""
    error: str | None = None
    """What the server or pgbench said; None where nothing failed."""
    failed: int | None = None
    """Place of the statement that failed, from 0; None where no statement is to blame alone: at COMMIT."""
    note: str | None = None
    """Why there are no figures, though nothing failed."""


@dataclass(frozen=True, slots=True)
class TriedLoad:
    """A load."""

    version: str
    """Of the server: ``17.10``."""
    scripts: tuple[TriedScript, ...]
