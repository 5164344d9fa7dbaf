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
    """A setting before a change: the state that undoing the change has to restore."""

    value: str
    """As postgresql.conf takes it."""
    is_default: bool
    """Whether nobody had set it; undoing then removes the line."""
    is_in_auto_conf: bool
    """Whether ALTER SYSTEM had set it (postgresql.auto.conf)."""
    is_on_command_line: bool = False
    """Whether the server was started with it (``postgres -c``), which overrides every file."""
    is_file_seen: bool = True
    """Whether the role may see which file had set it; without pg_monitor it may not."""
