"""Progress of a try on stderr: a line for the tables, and one for each script."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from walproof.facts import Cell, Request, Run, Trial


class TryProgress:
    """The ``Progress`` that the lab is given. A try has no trials: only what is prepared is told."""

    def preparing(self, what: str) -> None:
        """Say what is done now."""
        sys.stderr.write(f"{what}\n")

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Never told."""

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """Never told."""

    def trial_ended(self, trial: Trial) -> None:
        """Never told."""

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """Never told."""

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Never told."""
