"""How long to wait before a server that does not answer is asked again."""

from __future__ import annotations

FIRST_S = 1.0
LONGEST_S = 30.0


class Backoff:
    """The wait doubles after each failure, up to half a minute; a success starts it over."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def failed(self) -> float:
        """Seconds to wait now."""
        now_s, self._next_s = self._next_s, min(LONGEST_S, 2 * self._next_s)
        return now_s

    def succeeded(self) -> None:
        """Begin anew."""
        self._next_s = FIRST_S
