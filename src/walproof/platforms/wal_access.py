"""Whether a managed platform allows reading WAL through pg_walinspect: a dated table with sources.

Platforms that are not in it give their owner a superuser, who can grant either way of reading WAL.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("wal_access.csv")


@dataclass(frozen=True, slots=True)
class WalAccess:
    """One line of the table."""

    walinspect: str
    """``offered``, ``not offered`` or ``not found``."""
    sentence: str
    source: str
    looked_up: str
    """ISO date."""

    @property
    def cited(self) -> str:
        """The sentence with source and date."""
        return f"{self.sentence[0].upper()}{self.sentence[1:]} ({self.source}; {self.looked_up})."


def wal_access(platform: str) -> WalAccess | None:
    """The row of a platform that gives nobody a superuser; None for other platforms."""
    return _table().get(platform)


@functools.cache
def _table() -> Mapping[str, WalAccess]:
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return {row.pop("platform"): WalAccess(**row) for row in csv.DictReader(file)}
