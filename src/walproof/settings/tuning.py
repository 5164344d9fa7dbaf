"""Which settings of the write path a tuning may move, and to which values, from ``tuning.csv``.

A value may depend on the machine (``25% memory``). `walproof.advise.tune.space` takes out what a version, a
build or a promise does not allow.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("tuning.csv")
_OF_MEMORY = re.compile(r"(\d+)% memory")
_ROUNDED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Movable:
    """A row of the table."""

    name: str
    values: tuple[str, ...]
    """Values as written in the table, the smallest first if they have an order."""
    default: str
    """Value without a line, if the catalogue does not say it."""
    scale: str | None
    """``linear``, ``log``, or None if the values have no order."""
    needs: tuple[tuple[str, str], ...]
    """(setting, value) pairs without which it does nothing."""
    clients_least: int
    """Least number of clients with which it does something."""
    acts_at_checkpoints: bool
    """Whether a window without a whole checkpoint cycle cannot show what it does."""
    why: str
    """What it does, without its name."""
    source: str
    capped_by: str | None = None
    """Setting whose value is the most that it acts with, if there is one."""

    def values_of(self, memory_bytes: int) -> tuple[str, ...]:
        """The values on a machine with that much memory, each once."""
        return tuple(dict.fromkeys(_resolved(value, memory_bytes) for value in self.values))


@functools.cache
def movables() -> Mapping[str, Movable]:
    """Name -> row, in the table's order: what decides about durability first."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return {row["setting"]: _read(row) for row in csv.DictReader(file)}


def _read(row: Mapping[str, str]) -> Movable:
    needs = [need.partition("=") for need in row["needs"].split("|") if need]
    return Movable(
        name=row["setting"],
        values=tuple(row["choices"].split("|")),
        default=row["default"],
        scale=row["scale"] or None,
        needs=tuple((name, value) for name, _, value in needs),
        clients_least=int(row["clients_least"] or 0),
        acts_at_checkpoints=row["acts"] == "at checkpoints",
        why=row["why"],
        source=row["source"],
        capped_by=row["capped_by"] or None,
    )


def _resolved(value: str, memory_bytes: int) -> str:
    share = _OF_MEMORY.fullmatch(value)
    if share is None:
        return value
    rounded = max(1, memory_bytes * int(share[1]) // 100 // _ROUNDED_BYTES) * _ROUNDED_BYTES
    return f"{rounded >> 20}MB"
