"""A standby to which no WAL comes, by what it shows itself: its upstream need not be watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from walproof.analysis.replication import IDLE_WAITS
from walproof.facts.watch import WatchLook

GRACE_S = 10.0
"""A walreceiver that ended is started again after wal_retrieve_retry_interval (5 s by default)."""
ARCHIVE_S = 300.0
"""An archive may have nothing new for that long (archive_timeout), and a standby that restores is all right;
shorter than looks are kept."""
_WAITING_SHARE = 0.5
"""Share of the looks of ``GRACE_S`` at which the startup process waits for WAL."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """A standby that should stream and does not, and has replayed all that it has."""

    since: float | None
    """Its first look without a walreceiver, seconds of the epoch by its clock; None where it has had none
    since watching began."""
    wait: str
    """What its startup process waits for."""


def cut_off(looks: Sequence[WatchLook]) -> CutOff | None:
    """``looks``: oldest first. None for a standby that streams, restores, or still has WAL to replay.

    While looks know a stream, it has to be away for ``GRACE_S``; where it has never been seen two looks are
    enough, once the server has been up for that long. With a restore_command all looks of ``ARCHIVE_S`` have
    to be without a stream, and nothing replayed.
    """
    last = looks[-1]
    if last.arrival is None or not last.arrival.should_stream:
        return None
    without = list(takewhile(_lacks_stream, reversed(looks)))
    is_whole = len(without) == len(looks)
    if len(without) < 2 or (not is_whole and last.seen_s - without[-1].seen_s < GRACE_S):
        return None
    if last.started_at is not None and last.at - last.started_at < GRACE_S:
        return None
    recent = [look.arrival for look in without if look.seen_s >= last.seen_s - GRACE_S]
    waiting = sum(arrival is not None and arrival.wait.startswith(IDLE_WAITS) for arrival in recent)
    if waiting < _WAITING_SHARE * len(recent):
        return None
    if last.arrival.restores:
        before = next((look for look in without if last.seen_s - look.seen_s >= ARCHIVE_S), None)
        if before is None or (last.replayed or 0) > (before.replayed or 0):
            return None  # the archive has what it needs
    return CutOff(None if is_whole else without[-1].at, last.arrival.wait)


def _lacks_stream(look: WatchLook) -> bool:
    return look.arrival is not None and not look.arrival.streams
