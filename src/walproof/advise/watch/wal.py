"""Rules about WAL that piles up: the room for it, slots, the archiver."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.slot_words import (
    MANAGED,
    OF_PLATFORM,
    UNSYNCED_S,
    WAL_REMOVED,
    after_lost,
    prevention,
    why_lost,
)
from walproof.advise.watch.concern import SETTLED_S, Concern, Severity, Thresholds
from walproof.analysis.watch.archive import ArchiveState
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.disk import Holder, HolderKind
from walproof.facts.watch import WatchedSlot, WatchLook
from walproof.sentences import say_count
from walproof.sqltext import literal
from walproof.units import format_bytes, format_duration, format_number

STILL_S = 20.0
"""An archiver that has segments waiting and finishes none for so long is stuck."""
_UNMOVED_S = 60.0
"""By the server's clock it takes longer: who looks once has not seen whether a call is under way."""
_LONE_S = 600.0
"""One segment alone may be in a slow call (a large segment, a distant store), but not for so long."""
_UNCONFIRMED_SHARE = 0.1
"""A logical slot of which no more than this is unconfirmed holds the rest for an open transaction, which is
decoded from its beginning on."""
BACKLOG = 4
"""How many more segments than before have to wait until an archiver is said to fall behind."""
SETTLED_ARCHIVE_S = 20.0
"""Seconds to look before rates of an archive mean anything: it goes by whole segments."""


def room(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """pg_wal fills its room."""
    disk = seen.disk
    if disk is None or disk.room_bytes is None:
        return
    if disk.pg_wal_bytes is not None and disk.pg_wal_bytes > disk.room_bytes:
        held = (
            f"{holder_words(holder)} holds {format_bytes(holder.held_bytes)}" for holder in disk.holders[:1]
        )
        yield Concern(
            "pg_wal full",
            Severity.CRITICAL,
            f"pg_wal has passed its room: {format_bytes(disk.pg_wal_bytes)} of "
            f"{format_bytes(disk.room_bytes)}.",
            tuple(held),
            ("Free what holds the WAL, or make room; never remove files in pg_wal by hand.",),
        )
    elif disk.full_s is not None and disk.full_s < limits.full_warning_s and seen.seen_s >= SETTLED_S:
        holder = disk.filling
        assert holder is not None
        is_critical = disk.full_s < limits.full_critical_s
        yield Concern(
            "pg_wal full",
            Severity.CRITICAL if is_critical else Severity.WARNING,
            f"pg_wal is full in {format_duration(disk.full_s)} at this rate; then the server stops.",
            (
                f"{_sized(disk.pg_wal_bytes)} of {format_bytes(disk.room_bytes)} are used",
                f"{holder_words(holder)} holds {format_bytes(holder.held_bytes)}, "
                f"{format_bytes(holder.growth_bytes_per_s or 0)}/s more",
            ),
            ("Free what holds the WAL, or make room; never remove files in pg_wal by hand.",),
        )
    usable = disk.usable_bytes
    if usable is not None and disk.max_wal_bytes > usable:
        keep = next((each for each in disk.holders if each.kind is HolderKind.KEEP_SIZE), None)
        is_kept = keep is not None and usable == max(0, disk.room_bytes - keep.held_bytes)
        beside = " beside wal_keep_size" if is_kept else ""
        names = "wal_keep_size or max_wal_size; the latter" if is_kept else "max_wal_size; it"
        yield Concern(
            "max_wal_size",
            Severity.WARNING,
            "max_wal_size is too large for the room for pg_wal.",
            (f"max_wal_size is {format_bytes(disk.max_wal_bytes)}, and may take {format_bytes(usable)} of "
             f"--wal-disk {format_bytes(disk.room_bytes)}{beside}",),
            (f"Lower {names} is a soft limit that a busy server reaches and passes.",),
        )  # fmt: skip


def slots(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """Replication slots that hold WAL for nobody, or that are about to lose theirs."""
    look, disk = seen.look, seen.disk
    if look is None or disk is None:
        return
    held = {waiting.name: waiting for waiting in disk.holders if waiting.kind is HolderKind.SLOT}
    # Managers of clusters keep slots on standbys that nobody reads there, which hold little.
    idle_bytes = disk.max_wal_bytes if look.is_in_recovery else look.segment_bytes
    for slot in look.slots:
        if slot.name in OF_PLATFORM:
            continue
        key = f"slot {slot.name}"
        holder = held.get(slot.name)
        is_read = slot.is_active or slot.name in seen.polled_slots
        if slot.is_synced and slot.wal_status != "unreserved":
            yield from _synced(slot, holder, look)
        elif slot.wal_status == "lost":
            yield Concern(
                key,
                Severity.CRITICAL,
                f'Slot "{slot.name}" is lost: {why_lost(slot.invalidation)}.',
                _lost_evidence(slot, seen),
                (
                    after_lost(slot.kind),
                    "Drop the slot, and make one again under its name if it is used.",
                    *prevention(slot.invalidation),
                ),
            )
        elif slot.wal_status == "unreserved":
            yield Concern(
                key,
                Severity.CRITICAL,
                f'Slot "{slot.name}" loses its WAL at the next checkpoint.',
                ("its wal_status is unreserved", f"max_slot_wal_keep_size is {_limit(seen)}", *_held(holder)),
                ("Get its consumer to read now, or raise max_slot_wal_keep_size.",),
            )
        elif (
            holder is not None
            and holder.held_bytes >= (disk.max_wal_bytes if is_read else idle_bytes)
            and (lost := _soon_lost(slot, holder, seen, limits)) is not None
        ):
            yield lost
        elif not is_read and holder is not None and holder.held_bytes >= idle_bytes:
            unlimited = look.size("max_slot_wal_keep_size") is None
            yield Concern(
                key,
                Severity.WARNING,
                f'Nobody reads from slot "{slot.name}", and the server keeps WAL for it'
                + (" without limit." if unlimited else "."),
                (*_held(holder), *_idle(slot.inactive_s)),
                (f"{MANAGED}: if its restart_lsn moves, leave it. Else look who made it.",)
                if look.is_in_recovery
                else (
                    "If its consumer does not come back: "
                    f"SELECT pg_drop_replication_slot({literal(slot.name)});",
                    "max_slot_wal_keep_size bounds what a slot may keep.",
                ),
                None if slot.inactive_s is None else look.at - slot.inactive_s,
            )
        elif is_read and holder is not None and holder.held_bytes > disk.max_wal_bytes:
            yield _large(slot, holder, seen)


def _soon_lost(slot: WatchedSlot, holder: Holder, seen: Assessment, limits: Thresholds) -> Concern | None:
    """A slot that max_slot_wal_keep_size ends at this rate: the server goes on, its consumer cannot."""
    lost_s = holder.lost_s
    if lost_s is None or lost_s >= limits.full_warning_s or seen.seen_s < SETTLED_S:
        return None
    return Concern(
        f"slot {slot.name}",
        Severity.CRITICAL if lost_s < limits.full_critical_s else Severity.WARNING,
        f'Slot "{slot.name}" loses its WAL in {format_duration(lost_s)} at this rate.',
        (f"max_slot_wal_keep_size is {_limit(seen)}", *_held(holder), *_idle(slot.inactive_s)),
        ("Get its consumer to read now, or raise max_slot_wal_keep_size if pg_wal has the room.",),
    )


def _large(slot: WatchedSlot, holder: Holder, seen: Assessment) -> Concern:
    """A slot that is read, and holds more than checkpoints would."""
    key = f"slot {slot.name}"
    state = next((state for state in seen.logical if state.slot.name == slot.name), None)
    if state is not None and state.behind_bytes <= _UNCONFIRMED_SHARE * holder.held_bytes:
        is_standby = seen.look is not None and seen.look.is_in_recovery
        return Concern(
            key,
            Severity.WARNING,
            f'Slot "{slot.name}" holds more than max_wal_size because of an open transaction; its consumer '
            "has confirmed nearly all.",
            (*_held(holder), f"{format_bytes(state.behind_bytes)} of that are not confirmed"),
            (
                "Look for the oldest transaction that writes"
                + (", on the primary" if is_standby else "")
                + ": backend_xid and xact_start in pg_stat_activity, or a prepared one in pg_prepared_xacts. "
                "What it has written is decoded once more after a restart, so the slot keeps it.",
            ),
        )
    return Concern(
        key,
        Severity.WARNING,
        f'The consumer of slot "{slot.name}" is late: it holds more than max_wal_size.',
        _held(holder),
        (
            "See what its consumer waits for; a logical one waits for long transactions, too."
            if slot.kind == "logical"
            else f"See why {_user(slot, seen)} is late; max_slot_wal_keep_size bounds what it holds.",
        ),
    )


def _synced(slot: WatchedSlot, holder: Holder | None, look: WatchLook) -> Iterator[Concern]:
    """A slot of the primary that this standby keeps for a failover: nobody reads it, and none can drop it."""
    if slot.wal_status == "lost":
        yield Concern(
            f"slot {slot.name}",
            Severity.WARNING,
            f'Slot "{slot.name}", which this standby keeps in step with the primary, is lost: after a '
            "failover now its consumer could not go on.",
            ("its wal_status is lost", why_lost(slot.invalidation)),
            ("The server makes it again, unless the primary's own is lost, too.",),
        )
    elif slot.inactive_s is not None and slot.inactive_s > UNSYNCED_S:
        yield Concern(
            f"slot {slot.name}",
            Severity.WARNING,
            f'Slot "{slot.name}" is not kept in step with the primary any more, and this standby keeps WAL '
            "for it.",
            (f"it was last synchronised {format_duration(slot.inactive_s)} ago", *_held(holder)),
            ("See sync_replication_slots, and this server's log for why its worker stops.",),
            look.at - slot.inactive_s,
        )


def _lost_evidence(slot: WatchedSlot, seen: Assessment) -> tuple[str, ...]:
    """The limit of what slots keep says something only of a slot that was lost by it."""
    is_by_wal = slot.invalidation == WAL_REMOVED
    limit = (f"max_slot_wal_keep_size is {_limit(seen)}",) if is_by_wal else ()
    return ("its wal_status is lost", *limit)


def archive(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """An archiver that fails, is stuck, or is slower than the WAL."""
    state = seen.archive
    if state is None or state.waiting == 0 or (state.waiting is None and not state.is_failing):
        return
    waits = _waits(state)
    still_s = max(state.still_s, state.unmoved_s)
    if state.is_unset and (state.still_s >= STILL_S or state.unmoved_s >= _UNMOVED_S):
        names, verb = "archive_command", "is"
        if seen.look is not None and seen.look.major >= 15:
            names, verb = "archive_command and archive_library", "are"
        yield Concern(
            "archiver",
            Severity.CRITICAL,
            f"Nothing is archived: {names} {verb} empty, and the server keeps all WAL.",
            (f"none was archived for {format_duration(still_s)}", waits),
            ("Set one of them and reload." if verb == "are" else "Set it and reload.",
             "To do without an archive, set archive_mode to off and restart."),
            state.since,
        )  # fmt: skip
    elif state.is_failing:
        yield Concern(
            "archiver",
            Severity.CRITICAL,
            "The archiver fails: WAL is neither archived nor removed.",
            (f"the last call failed, for {state.failed_segment}",
             *((f"{say_count(state.failures, 'call')} failed while walproof watched the last "
                f"{format_duration(seen.seen_s)}",) if state.failures else ()),
             waits),
            ("Read the server's log for what archive_command or archive_library says.",),
            state.since,
        )  # fmt: skip
    elif _is_stuck(state):
        yield Concern(
            "archiver",
            Severity.CRITICAL,
            "The archiver is stuck: segments wait, and no call succeeds.",
            (f"none was archived for {format_duration(still_s)}, and no failure was counted", waits),
            (
                "See what archive_command or archive_library does: a mount or a network that hangs, or a "
                "program that is not found (PostgreSQL counts no failure then, its log says so)?",
            ),
            state.since,
        )
    elif _falls_behind(state, seen):
        yield Concern(
            "archiver",
            Severity.WARNING,
            "The archive falls behind: every call succeeds, but together they are too slow.",
            (f"{_a_minute(state.made_per_s)} segments a minute are generated, "
             f"{_a_minute(state.archived_per_s)} archived, over {format_duration(round(seen.seen_s))}",
             waits),
            ("Archive several segments at once or compress less; a larger wal_segment_size makes fewer "
             "calls (initdb, or pg_resetwal --wal-segsize on a stopped server).",),
            state.since,
        )  # fmt: skip


def _waits(state: ArchiveState) -> str:
    if state.waiting is None:
        return "how many segments wait is not known without pg_monitor"
    return segments_wait(state.waiting) + (" (estimated)" if state.is_estimated else "")


def _is_stuck(state: ArchiveState) -> bool:
    long_s = _UNMOVED_S if (state.waiting or 0) > 1 else _LONE_S
    return state.still_s >= STILL_S or state.unmoved_s >= long_s


def _falls_behind(state: ArchiveState, seen: Assessment) -> bool:
    if seen.seen_s < SETTLED_ARCHIVE_S or state.made_per_s is None or state.archived_per_s is None:
        return False
    is_more = state.waiting_change > 0 and (state.waiting or 0) >= BACKLOG
    return is_more and state.archived_per_s < state.made_per_s


def holder_words(holder: Holder) -> str:
    """The holder of WAL, in the words of a page."""
    match holder.kind:
        case HolderKind.SLOT:
            return f'slot "{holder.name}"'
        case HolderKind.ARCHIVER:
            return "the archiver"
        case HolderKind.KEEP_SIZE:
            return "wal_keep_size"
        case HolderKind.CHECKPOINT:
            return "the last checkpoint"


def segments_wait(count: int) -> str:
    """For the archiver."""
    return "1 segment waits" if count == 1 else f"{count:,} segments wait"


def _user(slot: WatchedSlot, seen: Assessment) -> str:
    known = (state.name for state in seen.standbys if state.standby.slot == slot.name)
    name = next(known, None)
    return "who reads from it" if name is None else f"standby {name}"


def _held(holder: Holder | None) -> tuple[str, ...]:
    if holder is None:
        return ()
    growth = holder.growth_bytes_per_s or 0
    more = f", {format_bytes(growth)}/s more" if growth > 0 else ""
    return (f"it holds {format_bytes(holder.held_bytes)}{more}",)


def _idle(inactive_s: float | None) -> tuple[str, ...]:
    return () if inactive_s is None else (f"nobody has used it for {format_duration(inactive_s)}",)


def _limit(seen: Assessment) -> str:
    assert seen.look is not None
    return seen.look.settings.get("max_slot_wal_keep_size", "not known")


def _sized(count: int | None) -> str:
    return "an unknown part" if count is None else format_bytes(count)


def _a_minute(per_s: float | None) -> str:
    return "-" if per_s is None else format_number(per_s * 60)
