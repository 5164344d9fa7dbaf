"""Whether a look was too short: what a longer one may name, and this one has no more than a hint of.

Who watches sees it in time. Who looks once, as a monitoring system does, looks on where there is a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.replica.intended import unintended
from walproof.advise.watch.concern import SETTLED_S, Thresholds
from walproof.advise.watch.logical import subscriptions
from walproof.advise.watch.storm import LEAST_BYTES, storms
from walproof.advise.watch.wal import BACKLOG, SETTLED_ARCHIVE_S, archive, room, slots
from walproof.analysis.replication import UNFLUSHED_TAIL_BYTES, LagSplit
from walproof.analysis.watch.archive import ArchiveState
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.logical import LogicalState
from walproof.analysis.watch.standbys import unpaired
from walproof.facts.replication import ReplicationWindow
from walproof.facts.transactions import STALLED_S
from walproof.facts.wal_causes import WalCauses

LONGEST_S = 30.0
"""The longest time that a look is taken for."""
_REACHED_S = 25.0
"""Ages up to here can be reached in that time."""
_WAITED_S = 0.5
"""A commit that a standby confirms hardly waits so long."""
_SHARES_S = 2.0
"""A shorter part of a stream says nothing about who writes."""


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
    for rule in (room, slots, subscriptions):
        now = {(concern.key, concern.severity) for concern in rule(seen, limits)}
        yield any((concern.key, concern.severity) not in now for concern in rule(longer, limits))
    yield seen.archive is not None and _may_not_keep_up(seen.archive, seen, limits)
    for state in unpaired(seen.standbys, windows, pairs):
        yield _may_be_late(state.split, limits.unpaired_lag_s)
    for diagnosis in pairs.values():
        yield _may_be_late(unintended(diagnosis)[1], limits.lag_warning_s)
    for consumer in seen.logical:
        yield _may_not_confirm(consumer, limits.lag_warning_s)
    wait = None if seen.look is None else seen.look.synchronous
    yield wait is not None and _WAITED_S <= wait.stalled_s < STALLED_S
    if causes is not None and 0 < causes.recent_s < SETTLED_S:
        yield _may_rage(causes)


def _may_not_keep_up(state: ArchiveState, seen: Assessment, limits: Thresholds) -> bool:
    """A slow archive may end no segment while one looks for a moment, and without pg_monitor nobody sees for
    how long segments have waited."""
    if seen.seen_s >= SETTLED_ARCHIVE_S or any(archive(seen, limits)):
        return False
    waiting = state.waiting or 0
    return waiting >= BACKLOG or (state.is_unset and waiting > 0) or (state.is_estimated and waiting > 1)


def _may_not_confirm(consumer: LogicalState, late_s: float) -> bool:
    if not consumer.slot.is_active or not consumer.is_least or consumer.behind_bytes < UNFLUSHED_TAIL_BYTES:
        return False
    is_soon = consumer.catch_up_s is not None and consumer.catch_up_s < late_s
    return not is_soon and consumer.behind_s < late_s <= _REACHED_S


def _may_rage(causes: WalCauses) -> bool:
    """The newest part of the stream is too short; some relations may not have a name yet."""
    if causes.bytes_per_s * SETTLED_S < LEAST_BYTES:
        return False
    if causes.recent_s < _SHARES_S or any(not cause.kind for cause in causes.recent):
        return True
    return any(storms(replace(causes, recent_s=SETTLED_S), 0.0))


def _may_be_late(split: LagSplit, late_s: float) -> bool:
    """How old the lag is nobody knows: it was there before the first look."""
    return split.began_unseen and split.lag_s < late_s <= _REACHED_S
