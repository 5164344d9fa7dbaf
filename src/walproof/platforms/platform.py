"""What every platform does with changes of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from walproof.settings.change import Before, Change


@dataclass(frozen=True, slots=True)
class PlatformTarget:
    """The server that lines are for."""

    version_num: int
    before: Mapping[str, Before]
    """Name -> value and origin of every known setting."""
    has_standbys: bool = False
    """Whether standbys were seen that stream from it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that the platform does not take."""

    change: Change
    reason: str
    source: str
    """Where the rule is written down, with the date on which it was looked up."""
    is_unlisted: bool = False
    """Whether walproof has no line for it alone: the list that it knows is not whole, and the platform may
    take it."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What to paste, and what takes it back."""

    apply: str
    undo: str
    notes: tuple[str, ...] = ()
    """What to know before applying them: restarts, order, what is overwritten."""
    commands: tuple[tuple[str, str], ...] = ()
    """(What it is for, command) pairs to run before them; none changes anything."""

    @property
    def told(self) -> tuple[str, ...]:
        """The notes, and a sentence for each of the commands."""
        return (*self.notes, *(f"{what}: {command}" for what, command in self.commands))


class Platform(Protocol):
    """One way of configuring a server."""

    @property
    def name(self) -> str:
        """As ``--platform`` takes it."""

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Why the platform does not take a change; None where it does."""

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Lines for changes that it does not refuse."""
