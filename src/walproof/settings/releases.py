"""How long major versions are supported and their newest known minors, from ``releases.csv``, a dated table.

A minor that came out after the table's date is not in it: "newest" is the newest that is known here.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

_TABLE = Path(__file__).with_name("releases.csv")


@dataclass(frozen=True, slots=True)
class Release:
    """A major version."""

    major: int
    newest_minor: int
    """The newest minor that is known here."""
    supported_until: date
    """The day of its last minor; after it nothing is fixed any more."""
    source: str
    looked_up: str
    """ISO date."""


def release_of(major: int) -> Release | None:
    """Support and newest minor of a major version; None for one that the table does not have."""
    return _releases().get(major)


@functools.cache
def _releases() -> Mapping[int, Release]:
    with _TABLE.open(newline="", encoding="utf-8") as file:
        rows = [
            Release(
                int(row["major"]),
                int(row["newest_minor"]),
                date.fromisoformat(row["supported_until"]),
                row["source"],
                row["looked_up"],
            )
            for row in csv.DictReader(file)
        ]
    return {row.major: row for row in rows}
