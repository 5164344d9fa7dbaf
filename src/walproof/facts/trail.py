"""Where the end of WAL was: from this the age of a position is read."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

RECENT_S = 600.0
"""So far back every point is kept."""
THIN_S = 60.0
"""Seconds between two older points: a position between theirs was passed between their times."""
_THIN_MOST = 2 * 24 * 60
"""Older points; a standby may be meant to be a day late."""


class Trail:
    """Points of (seconds of the observer's clock, position), of two days at most."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()
        self._thin: deque[tuple[float, int]] = deque(maxlen=_THIN_MOST)

    def add(self, at_s: float, position: int) -> None:
        """Keep a point, which is not older than those before."""
        point = at_s, position
        self._recent.append(point)
        if not self._thin or at_s - self._thin[-1][0] >= THIN_S:
            self._thin.append(point)
        while at_s - self._recent[0][0] > RECENT_S:
            self._recent.popleft()

    def clear(self) -> None:
        """Forget all points: what follows is other WAL."""
        self._recent.clear()
        self._thin.clear()

    @property
    def points(self) -> tuple[tuple[float, int], ...]:
        """The points, oldest first."""
        if not self._recent:
            return ()
        begin_s = self._recent[0][0]
        return (*takewhile(lambda point: point[0] < begin_s, self._thin), *self._recent)
