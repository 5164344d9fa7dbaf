"""How fast a stream may be read: a bucket that fills at a rate and holds a second of it."""

from __future__ import annotations

BURST_S = 1.0


class RateBucket:
    """The bucket of one stream, by the caller's monotonic clock."""

    def __init__(self, bytes_per_s: int) -> None:
        self._rate = bytes_per_s
        self._left = BURST_S * bytes_per_s
        self._seen_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """For how many seconds nothing more may be read; 0 if something may."""
        if self._seen_s is not None:
            self._left = min(BURST_S * self._rate, self._left + (now_s - self._seen_s) * self._rate)
        self._seen_s = now_s
        return max(0.0, -self._left / self._rate)

    def took(self, count: int) -> None:
        """Note how much was read. A message is taken whole, so there may be a debt."""
        self._left -= count
