"""Looks at one server over a sliding window, and their rates.

Rates use the observer's monotonic clock, so a clock that jumps on either side changes none. When the server
is another one, was restarted, or has gone back in its WAL, the window begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise

from walproof.facts.trail import Trail
from walproof.facts.watch import WatchLook

RATE_S = 60.0
"""Length of the window of rates."""
KEPT_S = 600.0
"""How long looks are kept; the end of WAL is kept for longer (`Trail`)."""
_LOOKS_MOST = 4000

Figure = Callable[[WatchLook], float | None]


class History:
    """Looks at one server, oldest first."""

    def __init__(self) -> None:
        self._looks: deque[WatchLook] = deque(maxlen=_LOOKS_MOST)
        self._trail = Trail()

    def add(self, look: WatchLook) -> str | None:
        """Keep a look. Returns what happened to the server since the one before, if anything did."""
        happened = None if not self._looks else _happened(self._looks[-1], look)
        if happened is not None:
            self._looks.clear()
            self._trail.clear()
        self._looks.append(look)
        if look.lsn is not None:
            self._trail.add(look.seen_s, look.lsn)
        while len(self._looks) > 2 and look.seen_s - self._looks[0].seen_s > KEPT_S:
            self._looks.popleft()
        return happened

    @property
    def last(self) -> WatchLook:
        """The newest look."""
        return self._looks[-1]

    @property
    def looks(self) -> tuple[WatchLook, ...]:
        """All kept looks."""
        return tuple(self._looks)

    @property
    def ends(self) -> tuple[tuple[float, int], ...]:
        """(``seen_s``, end of WAL), oldest first, from long before the kept looks on: for the age of what
        standbys and consumers have."""
        return self._trail.points

    def window(self, seconds: float = RATE_S) -> tuple[WatchLook, ...]:
        """The looks of the last ``seconds``, always including the two newest: rates need two."""
        since_s = self.last.seen_s - seconds
        recent = len(self._looks) - 2
        return tuple(
            look for place, look in enumerate(self._looks) if look.seen_s >= since_s or place >= recent
        )


def rate(looks: tuple[WatchLook, ...], figure: Figure) -> float | None:
    """The growth of a figure per second, from the first to the last look that has it.

    None if fewer than two have it.
    """
    known = [(look.seen_s, value) for look in looks if (value := figure(look)) is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])


def counted(looks: tuple[WatchLook, ...], counter: Figure) -> float | None:
    """The growth of a counter per second; None if fewer than two looks have it, or it was reset meanwhile."""
    values = [value for look in looks if (value := counter(look)) is not None]
    if any(later < earlier for earlier, later in pairwise(values)):
        return None
    return rate(looks, counter)


def grown(looks: tuple[WatchLook, ...], counter: str) -> float | None:
    """How much a counter grew in the window; None if it is absent or was reset meanwhile."""
    if len(looks) < 2:
        return None
    first, last = looks[0].counters.get(counter), looks[-1].counters.get(counter)
    return None if first is None or last is None or last < first else last - first


def is_another(before: WatchLook, now: WatchLook) -> bool:
    """Whether another server answers now, told by the times at which servers were started.

    A server that is started again is started after its last answer. One that was up before, and started at
    another time, is another one, as after a failover behind a connection string with several hosts.
    """
    if not _started_apart(before, now) or now.started_at is None:
        return False
    return now.started_at < before.at


def _started_apart(before: WatchLook, now: WatchLook) -> bool:
    return None not in (before.started_at, now.started_at) and before.started_at != now.started_at


def _happened(before: WatchLook, now: WatchLook) -> str | None:
    if before.system_identifier != now.system_identifier:
        return "another database system answers"
    if before.is_in_recovery and not now.is_in_recovery:
        return "the standby was promoted"
    if not before.is_in_recovery and now.is_in_recovery:
        return "the server is a standby now"
    old, new = before.checkpoint, now.checkpoint
    if old is not None and new is not None and old.timeline != new.timeline:
        return f"the server switched to timeline {new.timeline}"
    if is_another(before, now):
        return "another server of its system answers"
    if _started_apart(before, now):
        return "the server was started again"
    if now.lsn is not None and before.lsn is not None and now.lsn < before.lsn:
        return "the server's WAL went back"
    return None
