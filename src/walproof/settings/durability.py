"""Durability classes: four ordered degrees of what a configuration may lose."""

from __future__ import annotations

from enum import Enum


class DurabilityClass(Enum):
    """What a crash of the machine may cost. Ordered: a later member risks more than an earlier one."""

    NONE = "none"
    """Every acknowledged commit survives."""
    LAST_COMMITS = "may lose last commits"
    """The newest acknowledged commits may be gone; what is left is consistent."""
    TABLE = "may lose table"
    """Whole tables may be empty after recovery."""
    CORRUPT = "may corrupt"
    """The cluster may not start, or may start with wrong data."""

    @property
    def rank(self) -> int:
        """0 for the safest class."""
        return list(DurabilityClass).index(self)

    def __lt__(self, other: DurabilityClass) -> bool:
        return self.rank < other.rank
