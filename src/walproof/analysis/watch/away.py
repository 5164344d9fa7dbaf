"""How long crash recoveries of a watched server take, by the WAL that they read: from its crash clock."""

from __future__ import annotations

import math

from walproof.analysis.recovery_curve import RecoveryCurve

_STEPS = 2
"""Of distance in a doubling."""
_LEAST_BYTES = 16 << 20


class TimesAway:
    """The longest times that the clock told, by distance, for so long as ``span_s``."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._most: dict[int, tuple[float, float, float]] = {}
        """Part of the scale -> when, distance, seconds."""
        self._fixed: tuple[float, float] = (-math.inf, 0.0)
        """When, seconds."""

    def see(self, now_s: float, distance: float, seconds: float, fixed_s: float = 0.0) -> None:
        """Take note of what the clock tells now. ``now_s``: of the observer's monotonic clock; ``fixed_s``:
        the part of ``seconds`` that is no longer for more WAL, as of the sync of the data directory."""
        if distance < _LEAST_BYTES:
            return
        if fixed_s >= self._fixed[1] or now_s - self._fixed[0] > self._span_s:
            self._fixed = (now_s, fixed_s)
        seconds -= fixed_s
        part = round(_STEPS * math.log2(distance / _LEAST_BYTES))
        had = self._most.get(part)
        if had is None or seconds >= had[2] or now_s - had[0] > self._span_s:
            self._most[part] = (now_s, distance, seconds)

    def curve(self) -> RecoveryCurve | None:
        """Seconds by distance; beyond what was seen in proportion, which is too long where pages come again.

        None before the clock told of 16 MB.
        """
        longest, fixed_s = 0.0, self._fixed[1]
        points = [(0.0, fixed_s)]
        for _, distance, seconds in sorted(self._most.values(), key=lambda seen: seen[1]):
            longest = max(longest, seconds)
            points.append((distance, longest + fixed_s))
        if len(points) == 1:
            return None
        far = points[-1][0]
        return RecoveryCurve((*points, (2 * far, 2 * longest + fixed_s)))
