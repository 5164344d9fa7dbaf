"""Progress of a try on stderr: a line for the tables, and one for each script."""

from __future__ import annotations

from walproof.cli.streams import say
from walproof.lab.schedule import Unseen


class TryProgress(Unseen):
    """The ``Progress`` that the lab is given. A try has no trials: only what is prepared is told."""

    def preparing(self, what: str) -> None:
        """Say what is done now."""
        say(what)
