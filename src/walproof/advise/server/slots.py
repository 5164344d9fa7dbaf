"""The rule about replication slots: what they keep, what they may lose, and a limit that spares them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.checkpoints import advised_size_mb
from walproof.advise.server.sizing import say_size
from walproof.advise.slot_words import (
    MANAGED,
    OF_PLATFORM,
    UNSYNCED_S,
    after_lost,
    prevention,
    why_lost,
)
from walproof.facts.server import ServerSlot
from walproof.sentences import say_count, say_list
from walproof.settings.change import Change
from walproof.sqltext import literal
from walproof.units import format_bytes, format_duration

_LEAST_CAP_MB = 8 << 10
_AWAY_HOURS = 4.0
"""For so long a standby may be away without losing its slot, where there is room."""
_LEAST_ROOM_MB = 64
"""A limit of less than this would lose a slot while its standby restarts."""
_NO_ROOM_TOLD = "how much room pg_wal has: say --wal-disk"
_LOST_COST = "A slot that is further behind is lost, and its standby has to be made again."


def slots(case: ServerCase) -> Found | None:
    """Slots that are lost or about to be, slots without a limit, and what the idle ones hold."""
    held = [slot for slot in case.window.slots if not slot.is_temporary and slot.name not in OF_PLATFORM]
    if not held:
        return None
    own = [slot for slot in held if not slot.is_synced]
    lost = [slot for slot in own if slot.wal_status == "lost"]
    leaving = [slot for slot in held if slot.wal_status == "unreserved"]
    idle = [slot for slot in own if _is_idle(case, slot) and slot not in (*lost, *leaving)]
    stale = [slot for slot in held if slot.is_synced and slot not in leaving and _is_stale(slot)]
    if leaving:
        return _leaving(case, leaving, lost, idle, stale)
    if lost:
        return _lost(lost, idle, stale)
    if idle and case.window.is_in_recovery:
        return _idle_on_standby(idle, stale)
    is_limit_for_some = any(slot.is_active for slot in own) or not case.window.is_in_recovery
    if idle or (case.may_slots_fill_room and is_limit_for_some):
        return _without_limit(case, held, idle, stale)
    is_limited = case.window.base("max_slot_wal_keep_size") is not None and not case.may_slots_fill_room
    return _stale(stale) if stale else Fine("slots", _fine(case, own, held, is_limited=is_limited))


def _is_idle(case: ServerCase, slot: ServerSlot) -> bool:
    """Whether it keeps WAL that nobody reads.

    Managers of clusters keep slots on standbys that nobody reads there, and advance them: these hold little
    more than checkpoints leave anyway. A standby that restarts is away at one look, as is a poll through SQL.
    """
    if slot.is_active or slot.was_used:
        return False
    if slot.inactive_s is not None and slot.inactive_s < case.window.seconds:
        return False
    if _is_unmeasured(slot):
        return not case.window.is_in_recovery
    most = int(case.window.base("max_wal_size") or 0) << 20 if case.window.is_in_recovery else 0
    if slot.was_used is not None:
        # Within its segment a slot keeps nothing: facts without looks of it are judged by any byte.
        most = max(most, int(case.window.base("wal_segment_size") or 0) - 1)
    return (slot.retained_bytes or 0) > most


def _is_unmeasured(slot: ServerSlot) -> bool:
    """Whether it keeps WAL, and the server did not tell how much. One without a restart_lsn keeps none, and
    has no wal_status either (pg_get_replication_slots, slotfuncs.c)."""
    return slot.retained_bytes is None and slot.wal_status not in (None, "lost")


def _unmeasured(case: ServerCase, held: Sequence[ServerSlot]) -> tuple[str, ...]:
    """What is not known where a limit might lose a slot for that reason; empty where it is known."""
    if not any(_is_unmeasured(slot) for slot in held):
        return ()
    lack = case.window.lacks_of("slots")
    because = f" ({lack})" if lack else ""
    return (f"how much the slots hold, and so no limit that would lose none of them{because}",)


def _is_stale(slot: ServerSlot) -> bool:
    """Whether this copy of the primary's slot is of no use after a failover, or is kept in step no more."""
    return slot.wal_status == "lost" or (slot.inactive_s or 0.0) > UNSYNCED_S


def _fine(case: ServerCase, own: list[ServerSlot], held: list[ServerSlot], *, is_limited: bool) -> str:
    limited = " and limited" if is_limited else ""
    unused = [slot for slot in own if not slot.is_active and slot.retained_bytes]
    told = []
    if len(own) > len(unused):
        told.append(f"{say_count(len(own) - len(unused), 'slot')}, each in use{limited}")
    if unused and not case.window.is_in_recovery:
        told.append(
            "unused at the last look, and used before it or holding less than a segment: "
            f"{say_list([_named(slot) for slot in unused])}"
        )
    elif unused:
        told.append(f"{say_count(len(unused), 'slot')} not in use here, with no more WAL than max_wal_size")
    if len(held) > len(own):
        told.append(f"{say_count(len(held) - len(own), 'slot')} in step with the primary, for a failover")
    return "; ".join(told) + "."


def _leaving(
    case: ServerCase,
    leaving: list[ServerSlot],
    lost: list[ServerSlot],
    idle: list[ServerSlot],
    stale: list[ServerSlot],
) -> Advice:
    """Slots whose WAL the next checkpoint may remove; until then it is all there.

    An unreserved slot may return to reserved or extended (manual, pg_replication_slots.wal_status).
    """
    kept_mb = _kept_mb(leaving)
    unmeasured = _unmeasured(case, leaving)
    wanted_mb = _rounded_up(2 * kept_mb + _checkpoint_mb(case))
    room_mb = _room_mb(case)
    cap_mb = wanted_mb if room_mb is None else min(wanted_mb, room_mb)
    fits = cap_mb > kept_mb and not unmeasured
    evidence = [
        f"{say_list([_named(slot) for slot in leaving])}: the next checkpoint may remove WAL that it needs. "
        "Until then nothing is lost: it can still catch up."
    ]
    if not fits and not unmeasured:
        evidence.append("There is no room to keep more of it: only catching up before the checkpoint helps.")
    return Advice(
        "slots",
        Weight.DANGER,
        "Keep the WAL of a slot that is about to lose it, and let it catch up",
        (*evidence, *_also(lost, idle, stale)),
        (Change("max_slot_wal_keep_size", say_size(cap_mb)),) if fits else (),
        steps=(
            "-- start its standby or subscriber; run no CHECKPOINT before it has caught up",
            "SELECT slot_name, active, wal_status, safe_wal_size FROM pg_replication_slots;",
            *_drops(lost),
        ),
        costs=(f"pg_wal keeps up to {format_bytes(cap_mb << 20)} for slots.",) if fits else (),
        unknown=(*unmeasured, *(() if room_mb is not None else (_NO_ROOM_TOLD,))),
    )


def _lost(lost: list[ServerSlot], idle: list[ServerSlot], stale: list[ServerSlot]) -> Advice:
    return Advice(
        "slots",
        Weight.DANGER,
        "Bring back the standby or subscriber of a lost slot",
        (*_why_lost(lost), *_also([], idle, stale)),
        steps=_drops(lost),
    )


def _why_lost(lost: list[ServerSlot]) -> Iterator[str]:
    for reason in dict.fromkeys(slot.invalidation for slot in lost):
        named = say_list([_named(slot) for slot in lost if slot.invalidation == reason])
        yield f"{named}: {why_lost(reason)}."
        yield from prevention(reason)
    for kind in dict.fromkeys(slot.kind for slot in lost):
        yield after_lost(kind)


def _idle_on_standby(idle: list[ServerSlot], stale: list[ServerSlot]) -> Advice:
    """No line to drop one: a failover may need it."""
    return Advice(
        "slots",
        Weight.DANGER,
        "Find out who keeps the idle slots of this standby",
        (
            f"Nobody uses {say_list([_named(slot) for slot in idle])}, and this standby keeps its WAL, more "
            "than max_wal_size.",
            f"{MANAGED}: then it holds little, unless its consumer is late on the primary.",
            *_also([], [], stale),
        ),
        steps=(
            "-- a restart_lsn that moves: somebody advances the slot, so leave it; else look who made it",
            "SELECT slot_name, restart_lsn, pg_last_wal_replay_lsn() FROM pg_replication_slots;",
        ),
    )


def _stale(stale: list[ServerSlot]) -> Advice:
    return Advice(
        "slots",
        Weight.DANGER,
        "Keep the slots of this standby in step with the primary again",
        _also([], [], stale),
        steps=(
            "-- on, with a dbname in primary_conninfo; the log of this standby says why its worker stops",
            "SHOW sync_replication_slots;",
        ),
    )


def _also(lost: list[ServerSlot], idle: list[ServerSlot], stale: list[ServerSlot]) -> tuple[str, ...]:
    """What else slots hold, where another of them is more urgent."""
    found = [*_why_lost(lost)]
    if idle:
        found.append(f"Nobody uses {say_list([_named(slot) for slot in idle])}, and its WAL is kept.")
    for slot in stale:
        found.append(_stale_words(slot))
    return tuple(found)


def _stale_words(slot: ServerSlot) -> str:
    words = f'Slot "{slot.name}", which this standby keeps in step with the primary,'
    if slot.wal_status == "lost":
        return (
            f"{words} is lost ({why_lost(slot.invalidation)}): after a failover now its subscriber could not "
            "go on. The server makes it again, unless the primary's own is lost, too."
        )
    age = format_duration(slot.inactive_s or 0.0)
    kept = "" if slot.retained_bytes is None else f" ({format_bytes(slot.retained_bytes)})"
    return (
        f"{words} was last synchronised {age} ago: until it is again, its WAL is kept{kept}, and nobody can "
        "drop it here."
    )


def _without_limit(
    case: ServerCase, held: list[ServerSlot], idle: list[ServerSlot], stale: list[ServerSlot]
) -> Advice:
    evidence = []
    if idle:
        evidence.append(
            f"Nobody uses {say_list([_named(slot) for slot in idle])}, and the server keeps its WAL."
        )
    rate, room = case.wal_per_hour, case.limits.wal_disk_bytes
    kept = max((slot.retained_bytes or 0 for slot in held), default=0)
    unmeasured = _unmeasured(case, held)
    if idle and rate and room and rate > 0 and room > kept and not unmeasured:
        evidence.append(
            f"At {format_bytes(rate)} an hour {format_bytes(room)} are full in "
            f"{format_duration((room - kept) / rate * 3600)}."
        )
    changes: tuple[Change, ...] = ()
    costs: tuple[str, ...] = ()
    if case.may_slots_fill_room:
        evidence.append(_why_unlimited(case))
        cap_mb = None if unmeasured else _cap_mb(case, held)
        if cap_mb is None and not unmeasured:
            evidence.append(_why_no_cap(case, held))
        elif cap_mb is not None:
            changes = (Change("max_slot_wal_keep_size", say_size(cap_mb)),)
            costs = _lost_costs(case, cap_mb)
    if idle:
        costs = ("A standby or subscriber whose slot was dropped has to be made again.", *costs)
    return Advice(
        "slots",
        Weight.DANGER,
        "Bring back the users of the idle slots, or drop them" if idle else "Limit what slots may keep",
        (*evidence, *_also([], [], stale)),
        changes,
        steps=(
            *(("-- only if its standby or subscriber does not come back:",) if idle else ()),
            *_drops(idle),
        ),
        costs=costs,
        sure=Sure.HIGH if idle else Sure.MEDIUM,
        unknown=(*unmeasured, *(() if room is not None else (_NO_ROOM_TOLD,))),
    )


def _why_unlimited(case: ServerCase) -> str:
    limit, room = case.window.base("max_slot_wal_keep_size"), case.limits.wal_disk_bytes
    if limit is None or limit < 0 or room is None:
        return "max_slot_wal_keep_size is -1: a slot may fill the disk, and then the server stops."
    return (
        f"max_slot_wal_keep_size = {case.window.value('max_slot_wal_keep_size')} bounds nothing within "
        f"--wal-disk {format_bytes(room)}: a slot may fill it, and then the server stops."
    )


def _cap_mb(case: ServerCase, held: Sequence[ServerSlot]) -> int | None:
    """A limit that leaves room for checkpoints, loses no slot of today, and none while a standby is away for
    some hours; None where no limit does that, or nobody named the room that it takes.

    A checkpoint removes what lies beyond the limit (KeepLogSeg, xlog.c): a slot that holds more is lost then,
    and so is one that holds a little less, after the WAL that is written until the checkpoint.
    """
    kept_mb, rate_mb = _kept_mb(held), _rate_mb(case)
    cap_mb = _rounded_up(max(_LEAST_CAP_MB, 4 * kept_mb, int(_AWAY_HOURS * rate_mb)))
    least_mb = max(_LEAST_ROOM_MB, kept_mb + _checkpoint_mb(case))
    room_mb = _room_mb(case)
    if room_mb is not None:
        cap_mb = min(max(cap_mb, _rounded_up(2 * least_mb)), room_mb)
    elif _is_fast(case, held):
        return None
    return None if cap_mb < least_mb else cap_mb


def _rate_mb(case: ServerCase) -> float:
    """MB of WAL an hour; 0 where the window has too little of it to say so."""
    return (case.wal_per_hour or 0.0) / (1 << 20) if case.writes else 0.0


def _is_fast(case: ServerCase, held: Sequence[ServerSlot]) -> bool:
    """Whether the least limit would last for less than an hour."""
    return max(_LEAST_CAP_MB, 4 * _kept_mb(held)) < _rate_mb(case)


def _lost_costs(case: ServerCase, cap_mb: int) -> tuple[str, ...]:
    rate_mb = _rate_mb(case)
    if not rate_mb:
        return (_LOST_COST,)
    lasts = format_duration(cap_mb / rate_mb * 3600)
    return (_LOST_COST, f"At the window's rate of WAL that is so after {lasts} of a standby that is away.")


def _why_no_cap(case: ServerCase, held: Sequence[ServerSlot]) -> str:
    advised = " as advised" if advised_size_mb(case) is not None else ""
    size = f"max_wal_size = {say_size(_checkpoint_mb(case))}{advised}"
    most = max(held, key=lambda slot: slot.retained_bytes or 0)
    if case.limits.wal_disk_bytes is None and _is_fast(case, held):
        rate = format_bytes(case.wal_per_hour or 0.0)
        return (
            f"At {rate} of WAL an hour {say_size(_LEAST_CAP_MB)} are full within the hour, and a standby "
            "that restarts may lose its slot: say how much room pg_wal has (--wal-disk), so that a limit can "
            "last."
        )
    if case.limits.wal_disk_bytes is None:
        return (
            f'A limit that spares slot "{most.name}" has to be larger than {size}: say how much '
            "room pg_wal has (--wal-disk), so that it is known whether it fits."
        )
    room = f"Beside {size}, {format_bytes(case.limits.wal_disk_bytes)} have"
    if (most.retained_bytes or 0) >> 20 < _LEAST_ROOM_MB:
        return f"{room} no room for what slots may keep: give pg_wal more, or make max_wal_size smaller."
    return (
        f'{room} no room for a limit that spares slot "{most.name}": a smaller one would lose it at a '
        "checkpoint. Let it catch up or drop it, then limit what slots may keep."
    )


def _room_mb(case: ServerCase) -> int | None:
    """What slots may keep of the room for pg_wal: half of it, and never what checkpoints need."""
    room = case.limits.wal_disk_bytes
    return None if room is None else max(0, min(room >> 21, (room >> 20) - _checkpoint_mb(case)))


def _checkpoint_mb(case: ServerCase) -> int:
    """How much WAL checkpoints may keep beside slots: max_wal_size, as it will be if all advice is taken."""
    return advised_size_mb(case) or int(case.window.base("max_wal_size") or 0)


def _kept_mb(held: Sequence[ServerSlot]) -> int:
    return (
        max((slot.retained_bytes or 0 for slot in held if slot.wal_status != "lost"), default=0) + 0xFFFFF
        >> 20
    )


def _rounded_up(mb: int) -> int:
    """Large sizes in whole GB; up, because less could lose a slot."""
    return -(-mb // 1024) * 1024 if mb >= 10 << 10 else mb


def _drops(held: Sequence[ServerSlot]) -> tuple[str, ...]:
    return tuple(f"SELECT pg_drop_replication_slot({literal(slot.name)});" for slot in held)


def _named(slot: ServerSlot) -> str:
    is_held = slot.retained_bytes is not None and slot.wal_status != "lost"
    kept = f", {format_bytes(slot.retained_bytes or 0)}" if is_held else ""
    since = "" if slot.inactive_s is None else f", for {format_duration(slot.inactive_s)}"
    return f'slot "{slot.name}" ({slot.kind}{kept}{since})'
