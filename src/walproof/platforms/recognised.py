"""Which platform a server runs on, by what only that platform has: a dated table with sources."""

from __future__ import annotations

import csv
import functools
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from walproof.platforms.platform import Platform
from walproof.platforms.registry import platform
from walproof.platforms.values import Values
from walproof.platforms.wal_access import wal_access

_TABLE = Path(__file__).with_name("recognised.csv")
_DEFAULT = "alter-system"


@dataclass(frozen=True, slots=True)
class Recognised:
    """One line of the table."""

    platform: str
    title: str
    marks: tuple[str, ...]
    """Patterns, one of which is among the marks of such a server."""
    by: str
    """The marks in words."""
    lines: str
    """Name of the platform in the registry whose lines serve there."""
    fits: tuple[str, ...]
    """Names in the registry that do not contradict it."""
    is_hosted: bool
    """Whether a provider has the machine."""
    beside: str
    """What else to know, within the sentence."""
    source: str
    looked_up: str
    """ISO date."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The platform that lines are written for, and why."""

    platform: Platform
    seen: Recognised | None = None
    notice: str = ""
    """A sentence for the top of the answer; empty where there is nothing to say."""

    @property
    def runs_on(self) -> str:
        """Where the server is: what was recognised counts before what was asked for."""
        return self.platform.name if self.seen is None else self.seen.platform

    @property
    def is_hosted(self) -> bool:
        """Whether a provider has the machine, so that nobody else runs a command on it.

        What was recognised counts before what was asked for, unless its owner may have such a server, too
        (AlloyDB Omni, a Supabase that its owner runs), and says so by a platform with files or ALTER SYSTEM.
        """
        if wal_access(self.platform.name) is not None:
            return True
        if self.seen is None or not self.seen.is_hosted:
            return False
        return self.platform.name == Values.name or self.platform.name not in self.seen.fits


def recognise(marks: Collection[str]) -> Recognised | None:
    """The first platform of the table with one of its marks; a server of Aurora has those of RDS as well."""
    for row in _rows():
        if any(fnmatchcase(mark, pattern) for pattern in row.marks for mark in marks):
            return row
    return None


def choose(asked: str | None, marks: Collection[str]) -> Chosen:
    """The platform as asked for, else as recognised, else ALTER SYSTEM. Raises SettingError."""
    seen = recognise(marks)
    if asked is not None:
        if seen is None or asked in (*seen.fits, Values.name):
            return Chosen(platform(asked), seen)
        return Chosen(
            platform(asked),
            seen,
            f"Lines are written for {asked}, as --platform says, but the server looks like {seen.title}, by "
            f"{seen.by}: --platform {seen.lines} writes for that.",
        )
    if seen is None:
        return Chosen(platform(_DEFAULT))
    lacking = " (walproof has no commands for it: values alone)" if seen.lines == Values.name else ""
    beside = f"; {seen.beside}" if seen.beside else ""
    return Chosen(
        platform(seen.lines),
        seen,
        f"Recognised as {seen.title} by {seen.by}{lacking}; --platform NAME overrides{beside}.",
    )


@functools.cache
def _rows() -> tuple[Recognised, ...]:
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(_read(row) for row in csv.DictReader(file))


def _read(row: dict[str, str]) -> Recognised:
    """A row, in which ``|`` separates values."""
    return Recognised(
        row["platform"], row["title"], tuple(row["marks"].split("|")), row["by"], row["lines"],
        tuple(row["fits"].split("|")), row["is_hosted"] == "yes", row["beside"], row["source"],
        row["looked_up"],
    )  # fmt: skip
