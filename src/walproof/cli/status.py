"""The exit statuses of commands: one table, for scripts and continuous integration."""

from __future__ import annotations

from enum import IntEnum

SIGNAL_BASE = 128
"""A command that a signal interrupted exits with this and the signal's number, as shells report it."""


class ExitStatus(IntEnum):
    """All statuses but those of signals; docs/exit-status.md explains them to users."""

    DONE = 0
    CHECK_FAILED = 1
    """What the user asked to check does not hold: a verdict has changed, an archive is not whole."""
    ERROR = 2
    """An error of the user or the world: an option, a server, a disk. The message says what."""
    BROKEN = 10
    """A gate found a promise broken."""
    UNDECIDED = 11
    """A gate could not decide within its budget."""
    DEFECT = 70
    """A defect of walproof (EX_SOFTWARE of sysexits.h)."""
