"""What keeps WAL in pg_wal, and when the room for it runs out at these rates.

A server removes or recycles segments at checkpoints, except for those that somebody still needs: replication
slots, the archiver, wal_keep_size, and crash recovery itself from the redo point on (manual, "WAL
Configuration"; src/backend/access/transam/xlog.c, KeepLogSeg). Whoever needs the oldest WAL holds the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from walproof.analysis.server_limits import WalKeepers, may_slots_fill, wal_keepers
from walproof.analysis.watch.history import counted, rate
from walproof.facts.watch import WatchLook

_LATE_CHECKPOINT = 2
"""Factor on max_wal_size: a busy server passes the limit before a checkpoint has completed."""


class HolderKind(StrEnum):
    """Who needs WAL."""

    CHECKPOINT = "checkpoint"
    SLOT = "slot"
    ARCHIVER = "archiver"
    KEEP_SIZE = "wal_keep_size"


@dataclass(frozen=True, slots=True)
class Holder:
    """One who needs WAL that the server has written."""

    kind: HolderKind
    name: str
    """Name of a slot; otherwise empty."""
    held_bytes: int
    """Bytes from the oldest WAL that it needs to the end of WAL."""
    growth_bytes_per_s: float | None
    """Growth per second; None if it was seen only once."""
    safe_bytes: int | None = None
    """Bytes of WAL until a slot may be invalidated (max_slot_wal_keep_size); None without that limit."""

    @property
    def lost_s(self) -> float | None:
        """Seconds until a slot may be invalidated at this rate; None: never, or not known."""
        growth = self.growth_bytes_per_s
        if self.safe_bytes is None or growth is None or growth <= 0:
            return None
        return max(0.0, self.safe_bytes / growth)


@dataclass(frozen=True, slots=True)
class DiskState:
    """pg_wal now."""

    pg_wal_bytes: int | None
    room_bytes: int | None
    """What may be used for pg_wal (--wal-disk)."""
    wal_bytes_per_s: float | None
    max_wal_bytes: int
    """max_wal_size, in bytes: the soft limit of what checkpoints alone leave."""
    holders: tuple[Holder, ...]
    """Holders, the one that holds most first."""
    full_s: float | None
    """Seconds until the room is used up at these rates; None: never, or not known."""
    lost_slot_s: float | None
    """Seconds until the holder, a slot, may be invalidated (max_slot_wal_keep_size)."""

    @property
    def usable_bytes(self) -> int | None:
        """The most that max_wal_size may take of the room beside wal_keep_size; None where no room was named.
        Slots and the archiver are watched by what they hold."""
        if self.room_bytes is None:
            return None
        kept = (each.held_bytes for each in self.holders if each.kind is HolderKind.KEEP_SIZE)
        return WalKeepers(max(kept, default=0)).usable_bytes(self.room_bytes)

    @property
    def holder(self) -> Holder | None:
        """The holder that keeps more WAL than checkpoints would; None if there is none."""
        return next(_beyond_checkpoints(self), None)

    @property
    def filling(self) -> Holder | None:
        """The holder that uses up the room first, also while another one that does not grow holds more."""
        first = _first_full(self)
        return None if first is None else first[1]


def disk_state(looks: tuple[WatchLook, ...], room_bytes: int | None, waiting: int | None) -> DiskState:
    """The state from the looks of a window; ``waiting``: segments that wait for the archiver."""
    last = looks[-1]
    wal_rate = rate(looks, lambda look: look.lsn)
    holders = [*_checkpoint(looks), *_slots(looks), *_archiver(looks, waiting), *_keep_size(last)]
    # Of two that hold the same, checkpoints come last: they let go by themselves.
    holders.sort(key=lambda holder: (-holder.held_bytes, holder.kind is HolderKind.CHECKPOINT))
    found = DiskState(
        last.pg_wal_bytes, room_bytes, wal_rate, last.size("max_wal_size") or 1 << 30, tuple(holders), None,
        None,
    )  # fmt: skip
    first = _first_full(found)
    return DiskState(
        found.pg_wal_bytes, room_bytes, wal_rate, found.max_wal_bytes, found.holders,
        None if first is None else first[0], None if found.holder is None else found.holder.lost_s,
    )  # fmt: skip


def watched_keepers(look: WatchLook, room_bytes: int | None) -> WalKeepers:
    """Who may keep WAL beside checkpoints, for a larger max_wal_size: as advice on a server has it."""
    limit = look.size("max_slot_wal_keep_size")
    if limit is None and "max_slot_wal_keep_size" in look.settings:
        limit = -1
    return wal_keepers(
        look.size("wal_keep_size") or 0,
        has_slots=any(not slot.is_temporary for slot in look.slots),
        archives=look.settings.get("archive_mode", "off") != "off",
        may_fill=may_slots_fill(limit, room_bytes),
    )


def _checkpoint(looks: tuple[WatchLook, ...]) -> list[Holder]:
    point = looks[-1].checkpoint
    held_bytes = None if point is None else looks[-1].since(point.redo)
    if held_bytes is None:
        return []
    # Between two checkpoints it grows with the WAL.
    growth = rate(looks, lambda look: look.lsn)
    return [Holder(HolderKind.CHECKPOINT, "", max(0, held_bytes), growth)]


def _slots(looks: tuple[WatchLook, ...]) -> list[Holder]:
    found = []
    for slot in looks[-1].slots:
        held_bytes = None if slot.held_from is None else looks[-1].since(slot.held_from)
        if held_bytes is None:
            continue

        def held(look: WatchLook, name: str = slot.name) -> float | None:
            of_look = next((candidate for candidate in look.slots if candidate.name == name), None)
            return None if of_look is None or of_look.held_from is None else look.since(of_look.held_from)

        growth = rate(looks, held)
        found.append(Holder(HolderKind.SLOT, slot.name, max(0, held_bytes), growth, slot.safe_bytes))
    return found


def _archiver(looks: tuple[WatchLook, ...], waiting: int | None) -> list[Holder]:
    if not waiting:
        return []
    size = looks[-1].segment_bytes

    # Not from the backlog, which grows by whole segments.
    made = rate(looks, lambda look: look.lsn)
    done = counted(looks, lambda look: None if look.archiver is None else look.archiver.archived)
    growth = None if made is None or done is None else made - done * size
    return [Holder(HolderKind.ARCHIVER, "", waiting * size, growth)]


def _keep_size(last: WatchLook) -> list[Holder]:
    kept = last.size("wal_keep_size")
    if not kept:
        return []
    return [Holder(HolderKind.KEEP_SIZE, "", kept if last.lsn is None else min(kept, last.lsn), 0.0)]


def _beyond_checkpoints(state: DiskState) -> Iterator[Holder]:
    """The holders that keep more WAL than checkpoints would, the largest first."""
    for holder in state.holders:
        is_late = holder.held_bytes > _LATE_CHECKPOINT * state.max_wal_bytes
        if holder.kind is HolderKind.CHECKPOINT and not is_late:
            return
        yield holder


def _first_full(state: DiskState) -> tuple[float, Holder] | None:
    """(seconds until the room is used up, the holder that does it), at these rates; None: never, or not
    known.

    The holder with most WAL need not be the one: wal_keep_size does not grow, and a slot passes it later.
    Segments in pg_wal that nobody needs are reused first, so it may take a little longer.
    A slot that its limit ends before the room is full fills nothing.
    """
    if state.room_bytes is None or not state.holders:
        return None
    unneeded = max(0, (state.pg_wal_bytes or 0) - state.holders[0].held_bytes)
    left = state.room_bytes - unneeded
    timed = [
        (max(0.0, (left - holder.held_bytes) / growth), holder)
        for holder in _beyond_checkpoints(state)
        if (growth := holder.growth_bytes_per_s or 0.0) > 0 and not _is_ended_before(state, holder, left)
    ]
    return min(timed, key=lambda found: found[0], default=None)


def _is_ended_before(state: DiskState, holder: Holder, left: int) -> bool:
    """Whether max_slot_wal_keep_size ends a slot before ``left`` bytes are used. Only a checkpoint does so,
    which may come a cycle late."""
    if holder.safe_bytes is None:
        return False
    return holder.held_bytes + max(0, holder.safe_bytes) + state.max_wal_bytes <= left
