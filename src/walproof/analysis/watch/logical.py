"""How far consumers of logical slots lag behind, and what their slots hold meanwhile.

A consumer confirms the position up to which it has everything it wanted (confirmed_flush_lsn). The slot holds
WAL from the oldest transaction on that it may have to decode again (restart_lsn), so while a long transaction
is open it can hold much although its consumer lags little.
"""

from __future__ import annotations

from dataclasses import dataclass

from walproof.analysis.replication import KEEPING_UP_S, UNFLUSHED_TAIL_BYTES
from walproof.analysis.watch.history import rate
from walproof.facts.watch import WatchedSlot, WatchLook


@dataclass(frozen=True, slots=True)
class LogicalState:
    """The state of a logical slot."""

    slot: WatchedSlot
    consumer: str | None
    """application_name of its reader: a subscription's name; None if nobody reads it."""
    wait: str | None
    """What its walsender waits for."""
    held_bytes: int | None
    behind_bytes: int
    """Bytes of WAL that the consumer has not confirmed."""
    behind_s: float
    """Age of the oldest unconfirmed WAL, in seconds."""
    is_least: bool
    """Whether it was there before anybody looked."""
    growth_bytes_per_s: float | None
    """Growth of ``behind_bytes``; above 0 it falls behind."""
    catch_up_s: float | None
    """Seconds until all is confirmed, at these rates; None unless it catches up."""

    @property
    def keeps_up(self) -> bool:
        """Whether it hardly lags."""
        return self.behind_s < KEEPING_UP_S or self.behind_bytes < UNFLUSHED_TAIL_BYTES


def logical_states(
    looks: tuple[WatchLook, ...], ends: tuple[tuple[float, int], ...]
) -> tuple[LogicalState, ...]:
    """All logical slots, where the end of WAL is known. ``looks``: those of the window of rates; ``ends``:
    (seconds, end of WAL) from long before on, for ages."""
    if looks[-1].lsn is None:
        return ()
    return tuple(_state(slot, looks, ends) for slot in looks[-1].slots if slot.confirmed is not None)


def _state(
    slot: WatchedSlot, looks: tuple[WatchLook, ...], ends: tuple[tuple[float, int], ...]
) -> LogicalState:
    last, confirmed = looks[-1], slot.confirmed
    assert confirmed is not None

    def behind(look: WatchLook) -> float | None:
        seen = next((candidate for candidate in look.slots if candidate.name == slot.name), None)
        return None if seen is None or seen.confirmed is None else look.since(seen.confirmed)

    behind_bytes = max(0, last.since(confirmed) or 0)
    # When the WAL had come further than what is confirmed, at the latest.
    since_s = next((at_s for at_s, end in ends if end > confirmed), None)
    growth = rate(looks, behind)
    sender = (
        next((standby for standby in last.standbys if standby.pid == slot.pid), None) if slot.pid else None
    )
    return LogicalState(
        slot=slot,
        consumer=None if sender is None else sender.name,
        wait=None if sender is None else sender.wait,
        held_bytes=None if slot.held_from is None else max(0, last.since(slot.held_from) or 0),
        behind_bytes=behind_bytes,
        behind_s=0.0 if since_s is None else last.seen_s - since_s,
        is_least=since_s is not None and since_s == ends[0][0],
        growth_bytes_per_s=growth,
        catch_up_s=behind_bytes / -growth if growth is not None and growth < 0 and behind_bytes else None,
    )
