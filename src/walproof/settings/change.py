"""A setting's new value, and what it was before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A setting and its new value, as postgresql.conf takes it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Before:
    """Where a setting came from before a change, which is what undoing has to restore."""

    value: str
    """As postgresql.conf takes it."""
    is_default: bool
    """Nobody had set it: the line is taken out again."""
    is_in_auto_conf: bool
    """ALTER SYSTEM had set it (postgresql.auto.conf)."""
