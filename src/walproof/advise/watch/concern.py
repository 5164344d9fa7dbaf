"""What a concern is, and the limits that rules compare with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from walproof.analysis.watch.standbys import STALE_S

SETTLED_S = 10.0
"""Rules about rates say nothing until a server has been watched for so long."""


class Severity(IntEnum):
    """Severities as monitoring systems count them."""

    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that somebody should know."""

    key: str
    """What it is about, the same from look to look: ``slot etl``."""
    severity: Severity
    sentence: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...] = ()
    since: float | None = None
    """When it began, in seconds of the epoch by the server's clock; None if only the first sighting is known,
    which `Concerns` fills in."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits, in seconds, beyond which something is a concern."""

    recovery_s: float | None = None
    """The longest crash recovery (--recovery-target)."""
    full_warning_s: float = 4 * 3600.0
    """Time until pg_wal is full."""
    full_critical_s: float = 3600.0
    lag_warning_s: float = 15.0
    """Age of what a standby has replayed."""
    lag_critical_s: float = 300.0

    @property
    def unpaired_lag_s(self) -> float:
        """The age that makes a warning where only the upstream shows it: a standby's position may be as old
        as its messages."""
        return max(STALE_S, self.lag_warning_s)
