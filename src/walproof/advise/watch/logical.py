"""Rules about logical replication: consumers that are late, subscriptions for which no worker runs.

A slot that nobody reads, or that holds too much, is the business of `advise.watch.wal`, whatever its kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from walproof.advise.watch.concern import SETTLED_S, Concern, Severity, Thresholds
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.logical import LogicalState
from walproof.facts.watch import WatchLook
from walproof.sqltext import quoted
from walproof.units import format_bytes, format_duration

_REORDER = ("IO/ReorderBufferWrite", "IO/ReorderBufferRead", "IO/ReorderLogicalMappingWrite")
_SENDING = ("Client/WalSenderWriteData",)
_ASKED_S = 30.0
"""The time in which an answer comes, and the next look."""


def consumers(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """Consumers of logical slots that are late and do not catch up."""
    for state in seen.logical:
        if not state.slot.is_active or state.behind_s < limits.lag_warning_s or state.keeps_up:
            continue
        if state.catch_up_s is not None and state.catch_up_s < limits.lag_warning_s:
            continue
        least = "at least " if state.is_least else ""
        growth = state.growth_bytes_per_s or 0.0
        yield Concern(
            f"logical {state.slot.name}",
            Severity.CRITICAL if state.behind_s >= limits.lag_critical_s else Severity.WARNING,
            f'The consumer of logical slot "{state.slot.name}" is late: {_limit(state)}.',
            (
                f"{format_bytes(state.behind_bytes)} and {least}{format_duration(state.behind_s)} of WAL are "
                "not confirmed" + (f", {format_bytes(growth)}/s more" if growth > 0 else ""),
                *((f"its walsender was last seen in: {state.wait}",) if state.wait else ()),
                *((f"the slot holds {format_bytes(state.held_bytes)}",) if state.held_bytes else ()),
            ),
            ("Look at what applies its changes: locks, missing indexes or replica identity, its own log.",),
        )


def subscriptions(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """Subscriptions of this server that apply nothing."""
    if seen.look is None:
        return
    silent_s = _silent_s(seen.look, limits)
    named = Counter(subscription.name for subscription in seen.look.subscriptions)
    for subscription in seen.look.subscriptions:
        # Names are unique within a database alone.
        own = f" ({subscription.id})" if named[subscription.name] > 1 and subscription.id is not None else ""
        key = f"subscription {subscription.name}{own}"
        if not subscription.is_enabled:
            yield Concern(
                key,
                Severity.WARNING,
                f'Subscription "{subscription.name}" is disabled: its slot holds WAL on the publisher.',
                (
                    f'its slot is "{subscription.slot}"' if subscription.slot else "it has no slot",
                    *_errors(subscription.errors),
                ),
                (f"ALTER SUBSCRIPTION {quoted(subscription.name)} ENABLE; or drop it.",),
            )
        elif (subscription.id, subscription.name) in seen.idle_subscriptions and seen.seen_s >= SETTLED_S:
            yield Concern(
                key,
                Severity.CRITICAL,
                f'No worker runs for subscription "{subscription.name}", although it is enabled.',
                (
                    f"no apply worker was seen for {format_duration(seen.seen_s)}",
                    *_errors(subscription.errors),
                ),
                (
                    "Read this server's log: a conflict of keys, a missing table or column, or no connection "
                    "to the publisher.",
                    "max_logical_replication_workers bounds how many run.",
                ),
            )
        elif subscription.message_age_s is not None and subscription.message_age_s >= silent_s:
            yield Concern(
                key,
                Severity.WARNING,
                f'Subscription "{subscription.name}" hears nothing from its publisher.',
                (f"the last message is {format_duration(subscription.message_age_s)} old",),
                ("A worker that waits for a lock reads nothing; else look at the network.",),
            )


def _silent_s(look: WatchLook, limits: Thresholds) -> float:
    """The age of a last message from which on the publisher is missed. A worker to whom nothing is sent asks
    after half of wal_receiver_timeout (LogicalRepApplyLoop in worker.c), never where that is 0."""
    timeout_s = look.seconds("wal_receiver_timeout")
    if timeout_s == 0:
        return math.inf
    return max(60.0, limits.lag_warning_s, (timeout_s or 0.0) / 2 + _ASKED_S)


def _limit(state: LogicalState) -> str:
    if state.wait in _SENDING:
        return "it takes changes more slowly than they are made"
    if state.wait in _REORDER:
        return "a large transaction is written to disk and read again while it is decoded"
    if state.wait == "running":
        return "its walsender is busy decoding"
    return "what was seen does not say why"


def _errors(errors: int | None) -> tuple[str, ...]:
    return (f"applying ended by an error {errors:,} times",) if errors else ()
