"""How far something is that takes minutes, on stderr: a line that is written over, or new lines now and then
where the cursor cannot go back."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from walproof.cli import streams

_EVERY_S = 10.0
"""Seconds between two lines where none is written over."""
_DUMB = ("dumb", "unknown")
"""Terminals without a cursor that moves (Emacs, a serial console), as rich knows them."""


class StatusLine:
    """The newest state of one thing that goes on."""

    def __init__(self, *, in_logs: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """``in_logs``: whether it is told where stderr is no terminal, too."""
        is_terminal = sys.stderr.isatty()
        self._is_rewritten = is_terminal and os.environ.get("TERM", "").lower() not in _DUMB
        self._is_told = is_terminal or in_logs
        self._clock = clock
        self._told_s = clock()

    def show(self, text: str) -> None:
        """Tell the state as it is now."""
        if self._is_rewritten:
            sys.stderr.write(f"\r\x1b[K{text}")
        elif self._is_told and self._clock() - self._told_s >= _EVERY_S:
            self._told_s = self._clock()
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away: something else follows where it stands."""
        if self._is_rewritten:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, sentence: str) -> None:
        """Write a sentence that stays."""
        self.clear()
        streams.say(sentence)
