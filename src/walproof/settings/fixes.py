"""Known fixes of the write path by minor release, from ``fixes.csv``: a dated table with its sources.

It holds only what was looked up, not everything that a minor release fixed.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from walproof.settings.minors import major_minor

_TABLE = Path(__file__).with_name("fixes.csv")


@dataclass(frozen=True, slots=True)
class Fix:
    """What one minor release fixed."""

    major: int
    minor: int
    """The first minor release that has the fix."""
    what: str
    harm: str
    """What may happen without it."""
    source: str
    looked_up: str
    """ISO date."""

    @property
    def version(self) -> str:
        """``18.6``."""
        return f"{self.major}.{self.minor}"

    @property
    def sentence(self) -> str:
        """What it fixes, what may happen without it, and the source."""
        return f"{self.version} mends: {self.what}. Without it: {self.harm} ({self.source})."


def fixes_above(version: str) -> tuple[Fix, ...]:
    """Known fixes that a release lacks, oldest first; none for a version without a minor (19rc1)."""
    major, minor = major_minor(version)
    if minor is None:
        return ()
    return tuple(fix for fix in _fixes() if fix.major == major and fix.minor > minor)


def looked_up() -> str:
    """ISO date of the newest line of the table."""
    return max(fix.looked_up for fix in _fixes())


@functools.cache
def _fixes() -> tuple[Fix, ...]:
    with _TABLE.open(newline="", encoding="utf-8") as file:
        rows = [
            Fix(
                int(row["major"]),
                int(row["minor"]),
                row["what"],
                row["harm"],
                row["source"],
                row["looked_up"],
            )
            for row in csv.DictReader(file)
        ]
    return tuple(sorted(rows, key=lambda fix: (fix.major, fix.minor)))
