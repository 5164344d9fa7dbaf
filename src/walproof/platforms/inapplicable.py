"""Rules of advice that do not hold where storage is not PostgreSQL's own: a dated table with sources."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from pathlib import Path

_TABLE = Path(__file__).with_name("inapplicable.csv")


def inapplicable(platform: str) -> Mapping[str, str]:
    """Rule -> why it does not hold on a platform, with source and date."""
    return _table().get(platform, {})


@functools.cache
def _table() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with _TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            said = f"{row['reason']}: {row['source']}, {row['looked_up']}"
            found.setdefault(row["platform"], {})[row["rule"]] = said
    return found
