"""Other sizes of max_wal_size for a server that is watched, simulated from the WAL of its last hours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizePoint:
    """A server with another max_wal_size, in steady operation under the load that was seen."""

    max_wal_size_mb: int
    checkpoint_timeout_s: int | None
    wal_bytes_per_hour: float
    low: float
    high: float
    """Between which WAL an hour is expected, errors of the sample of pages included."""
    whole_cycles: int
    """Checkpoint cycles of such a server in the WAL that was seen."""
    redo_bytes_most: float
    """WAL that a crash recovery reads, at most."""
    pg_wal_bytes_most: int
    recovery_s: float | None
    """Longest crash recovery; None where no crash clock was known."""
    sure: str
    """``high``, ``medium``, ``low``."""


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """What other sizes of max_wal_size would have written in the last hours."""

    since: float
    until: float
    """Times of the first and of the last transaction, seconds of the epoch by the server's clock."""
    wal_bytes: int
    """That was seen of it."""
    gaps: int
    """Places at which WAL was not seen."""
    present_mb: int
    points: tuple[SizePoint, ...]
    """With the present checkpoint_timeout, by size."""
    advised: SizePoint | None
    """None where no other setting saves a tenth of the WAL or keeps within the limits that are given."""
    changes: tuple[tuple[str, str], ...]
    """Settings that are advised, and their values."""
    pages: int
    """That the WAL touched, about."""
    held_pages: int
    """Of them, those that were followed."""
    sample_error: float
    """Standard error of the present server's WAL that comes of it, as a share; included in low and high."""
    memory_bytes: int

    @property
    def present(self) -> SizePoint | None:
        """The present size."""
        return next((point for point in self.points if point.max_wal_size_mb == self.present_mb), None)
