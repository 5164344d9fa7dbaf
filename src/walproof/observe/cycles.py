"""When checkpoints began while a server was looked at: how far into a cycle its counts were counted.

The control file names the last checkpoint that is complete; one that goes on shows in the count of begun
checkpoints alone (src/backend/postmaster/checkpointer.c), which is therefore asked for again and again.
"""

from __future__ import annotations

from walproof.facts.application import CyclePart
from walproof.observe.asking import Asking

_ABOUT = "checkpoints"
_BEGUN_BEFORE_17 = """
    SELECT checkpoints_timed + checkpoints_req, extract(epoch FROM now() - stats_reset)
    FROM pg_stat_bgwriter"""
_BEGUN = "SELECT num_timed + num_requested, extract(epoch FROM now() - stats_reset) FROM pg_stat_checkpointer"
_LAST = """
    SELECT extract(epoch FROM now() - checkpoint_time),
           (SELECT setting::float8 FROM pg_settings WHERE name = 'checkpoint_timeout')
    FROM pg_control_checkpoint()"""


class CycleClock:
    """Notes when checkpoints begin."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._before_s = self._since_last()
        self._count = self._begun()
        self._begun_s: list[float] = []

    def look(self, now_s: float) -> None:
        """Has another checkpoint begun? ``now_s``: seconds since the clock was made."""
        count = self._begun()
        if count is not None and self._count is not None and count > self._count:
            self._begun_s.append(now_s)
            self._count = count

    def parts(self, middle_s: float, end_s: float) -> tuple[CyclePart, ...]:
        """The parts of the time until now, split in the middle, too; empty if the server does not say when
        checkpoints began."""
        if self._before_s is None or self._count is None:
            return ()
        found, at, before = [], 0.0, self._before_s
        ends = sorted({*self._begun_s, middle_s, end_s})
        for end in ends:
            found.append(CyclePart(before, end - at, 1.0, end <= middle_s))
            before = 0.0 if end in self._begun_s else before + end - at
            at = end
        return tuple(found)

    def _begun(self) -> float | None:
        rows = self._asking.rows(_ABOUT, _BEGUN_BEFORE_17 if self._asking.major < 17 else _BEGUN)
        return float(rows[0][0]) if rows else None

    def _since_last(self) -> float | None:
        rows = self._asking.rows("the last checkpoint", _LAST)
        if not rows:
            return None
        since, timeout = float(rows[0][0]), float(rows[0][1])
        # A checkpoint that is not complete may have begun since; those by time begin so often.
        return since % timeout if since > timeout else since


def usual_cycles(asking: Asking, seconds: float) -> tuple[CyclePart, ...]:
    """Whole cycles, as many as there were in this time on average; empty if there was not even one."""
    rows = asking.rows(_ABOUT, _BEGUN_BEFORE_17 if asking.major < 17 else _BEGUN)
    if not rows or not rows[0][1]:
        return ()
    count = float(rows[0][0]) * seconds / float(rows[0][1])
    return (CyclePart(0.0, seconds / count, count),) if count >= 1 else ()
