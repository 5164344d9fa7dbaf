"""What the lab is told from outside: which cells a round has, when enough has been measured, and where to
report progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from walproof.facts import Cell, Request, Run, Trial

RoundCells = Callable[[int, Sequence[Trial]], Collection[Cell]]
"""Asked before every round, with its number and the trials of all rounds before it: which cells it has.

A round without cells ends the run. It is injected for the same reason as Enough. It is a function of its
arguments alone, so that a resumed run goes on as it began."""

Enough = Callable[[Sequence[Trial]], bool]
"""Asked after every whole round; True ends the run. It is injected, because conclusions are not the lab's."""


class Progress(Protocol):
    """Whoever watches a run."""

    def preparing(self, what: str) -> None:
        """Something before the first trial takes a while."""

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Trials begin; ``stored`` are those of an interrupted run that is now resumed."""

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """A trial begins."""

    def trial_ended(self, trial: Trial) -> None:
        """A trial has been stored."""

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """Every cell of a round has been tried; ``trials`` are all so far."""

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Somebody asked something of the run; the request has its answer, and ``trials_most`` applies from
        now on."""


class Unseen:
    """The progress of a run that nobody watches."""

    def preparing(self, what: str) -> None:
        """Nothing."""

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Nothing."""

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """Nothing."""

    def trial_ended(self, trial: Trial) -> None:
        """Nothing."""

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """Nothing."""

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Nothing."""
