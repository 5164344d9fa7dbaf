"""Whether a look was too short: what a longer one may name, and this one has no more than a hint of.

Who watches sees it in time. Who looks once, as a monitoring system does, looks on where there is a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import SETTLED_S, Thresholds
from walproof.advise.watch.logical import subscriptions
from walproof.advise.watch.storm import storms
from walproof.advise.watch.wal import BACKLOG, SETTLED_ARCHIVE_S, archive, room
from walproof.analysis.replication import UNFLUSHED_TAIL_BYTES, LagSplit
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.standbys import STALE_S, unpaired
from walproof.facts.replication import ReplicationWindow
from walproof.facts.transactions import STALLED_S
from walproof.facts.watch import WalCauses

_WAITED_S = 0.5
"""A commit that a standby confirms hardly waits so long."""


def is_suspected(
    seen: Assessment,
    causes: WalCauses | None,
    limits: Thresholds,
    pairs: Mapping[str, Diagnosis] | None = None,
    windows: Sequence[ReplicationWindow] = (),
) -> bool:
    """Whether a longer look may name a concern: of rates, of ages that began before anybody looked."""
    return seen.no_answer is None and any(_hints(seen, causes, limits, pairs or {}, windows))


def _hints(
    seen: Assessment,
    causes: WalCauses | None,
    limits: Thresholds,
    pairs: Mapping[str, Diagnosis],
    windows: Sequence[ReplicationWindow],
) -> Iterator[bool]:
    longer = replace(seen, seen_s=max(seen.seen_s, SETTLED_ARCHIVE_S))
    for rule in (room, archive, subscriptions):
        now = {concern.key for concern in rule(seen, limits)}
        yield any(concern.key not in now for concern in rule(longer, limits))
    # A slow archive may end no segment while one looks for a moment.
    waiting = 0 if seen.archive is None else seen.archive.waiting or 0
    yield waiting >= BACKLOG and seen.seen_s < SETTLED_ARCHIVE_S and not any(archive(seen, limits))
    for state in unpaired(seen.standbys, windows, pairs):
        yield _may_be_late(state.split, max(STALE_S, limits.lag_warning_s))
    for diagnosis in pairs.values():
        yield _may_be_late(diagnosis.split, limits.lag_warning_s)
    for consumer in seen.logical:
        is_behind = consumer.is_least and consumer.behind_bytes >= UNFLUSHED_TAIL_BYTES
        yield consumer.slot.is_active and is_behind and consumer.behind_s < limits.lag_warning_s
    wait = None if seen.look is None else seen.look.synchronous
    yield wait is not None and _WAITED_S <= wait.stalled_s < STALLED_S
    if causes is not None and 0 < causes.recent_s < SETTLED_S:
        yield any(storms(replace(causes, recent_s=SETTLED_S), 0.0))


def _may_be_late(split: LagSplit, late_s: float) -> bool:
    """How old the lag is nobody knows: it was there before the first look."""
    return split.is_least and split.lag_bytes >= UNFLUSHED_TAIL_BYTES and split.lag_s < late_s
