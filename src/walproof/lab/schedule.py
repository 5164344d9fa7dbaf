"""What the lab is told from outside: which cells a round has, when enough has been measured, and whom to tell
about progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from walproof.facts import Cell, Request, Run, Trial

RoundCells = Callable[[int, Sequence[Trial]], Collection[Cell]]
"""Asked before every round, with its number and the trials of all rounds before it: which cells it has.

None of them ends the run. Injected, for the same reason as Enough; a function of its arguments alone, so that
a run that is resumed goes on as it had begun."""

Enough = Callable[[Sequence[Trial]], bool]
"""Asked after every whole round; True ends the run. Injected, because conclusions are not the lab's."""


class Progress(Protocol):
    """Whoever watches a run."""

    def preparing(self, what: str) -> None:
        """Something that takes a while before the first trial."""

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Trials begin; ``stored`` are those of an interrupted run that is now resumed."""

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """A trial begins."""

    def trial_ended(self, trial: Trial) -> None:
        """A trial has been stored."""

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """Every cell of a round has been tried; ``trials`` are all so far."""

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Somebody asked something of the run; the request has its answer, ``trials_most`` holds since."""
