"""Rules about logical replication: consumers that are late, subscriptions for which no worker runs.

A slot that nobody reads, or that holds too much, is the business of `advise.watch.wal`, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.watch.concern import SETTLED_S, Concern, Severity, Thresholds
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.logical import LogicalState
from walproof.sqltext import quoted
from walproof.units import format_bytes, format_duration

_REORDER = ("IO/ReorderBufferWrite", "IO/ReorderBufferRead", "IO/ReorderLogicalMappingWrite")
_SENDING = ("Client/WalSenderWriteData",)


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
    for subscription in () if seen.look is None else seen.look.subscriptions:
        key = f"subscription {subscription.name}"
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
        elif subscription.name in seen.idle_subscriptions and seen.seen_s >= SETTLED_S:
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
        elif subscription.message_age_s is not None and subscription.message_age_s >= max(
            60.0, limits.lag_warning_s
        ):
            yield Concern(
                key,
                Severity.WARNING,
                f'Subscription "{subscription.name}" hears nothing from its publisher.',
                (f"the last message is {format_duration(subscription.message_age_s)} old",),
                ("A worker that waits for a lock reads nothing; else look at the network.",),
            )


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
