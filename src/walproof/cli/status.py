"""With which status commands exit: one table, for scripts and continuous integration."""

from __future__ import annotations

from enum import IntEnum

SIGNAL_BASE = 128
"""A command that a signal interrupted exits with this and the signal's number, as shells report it."""


class Status(IntEnum):
    """All but those of signals; docs/exit-status.md has them for users."""

    DONE = 0
    CHECK_FAILED = 1
    """What the user asked to be checked does not hold: a verdict is another one, an archive is not whole."""
    ERROR = 2
    """Something of the user's or the world's: an option, a server, a disk. The message says what."""
    BROKEN = 10
    """A gate found a promise broken."""
    UNDECIDED = 11
    """A gate could not decide within what it may spend."""
    DEFECT = 70
    """A defect of walproof's own (EX_SOFTWARE of sysexits.h)."""
