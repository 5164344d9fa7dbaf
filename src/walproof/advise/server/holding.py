"""Rules about what keeps WAL on the disk: slots, the archiver, standbys."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.server import ServerSlot
from walproof.sentences import say_count, say_list
from walproof.settings.change import Change
from walproof.units import format_bytes, format_duration

_LEAST_CAP_BYTES = 8 << 30
_FAR_BEHIND_BYTES = 1 << 30
_WAITING_MOST = 10
"""Segments that may wait for the archiver while it works normally."""


def slots(case: ServerCase) -> Found | None:
    """Slots without a limit, and what the idle ones hold."""
    held = [slot for slot in case.window.slots if not slot.is_temporary]
    if not held:
        return None
    limit = case.window.base("max_slot_wal_keep_size")
    lost = [slot for slot in held if slot.wal_status in ("lost", "unreserved")]
    idle = [slot for slot in held if not slot.is_active and (slot.retained_bytes or 0) > 0]
    if lost:
        return Advice(
            "slots",
            Weight.DANGER,
            "Make the standby or subscriber of a lost slot again",
            (
                f"{say_list([_named(slot) for slot in lost])}: its WAL is gone, or goes at the next "
                "checkpoint.",
            ),
            steps=tuple(f"SELECT pg_drop_replication_slot('{_quoted(slot.name)}');" for slot in lost),
        )
    if not idle and limit is not None and limit >= 0:
        return Fine("slots", f"{say_count(len(held), 'slot')}, each in use and limited.")
    if not idle:
        return (
            _without_limit(case, held, idle)
            if limit is not None
            else Fine("slots", f"{say_count(len(held), 'slot')} in use.")
        )
    return _without_limit(case, held, idle)


def _without_limit(case: ServerCase, held: list[ServerSlot], idle: list[ServerSlot]) -> Advice:
    limit = case.window.base("max_slot_wal_keep_size")
    evidence = []
    if idle:
        evidence.append(
            f"Nobody uses {say_list([_named(slot) for slot in idle])}, and the server keeps its WAL."
        )
    rate, room = case.wal_per_hour, case.limits.wal_disk_bytes
    kept = max((slot.retained_bytes or 0 for slot in held), default=0)
    if idle and rate and room and rate > 0 and room > kept:
        evidence.append(f"At {format_bytes(rate)} an hour {format_bytes(room)} are full in ")
        evidence[-1] += f"{format_duration((room - kept) / rate * 3600)}."
    changes: tuple[Change, ...] = ()
    costs: tuple[str, ...] = ()
    if limit is not None and limit < 0:
        evidence.append("max_slot_wal_keep_size is -1: a slot may fill the disk, and then the server stops.")
        cap = max(_LEAST_CAP_BYTES, 4 * kept)
        if room is not None:
            cap = min(cap, room // 2)
        gb = max(1, cap >> 30)
        changes = (Change("max_slot_wal_keep_size", f"{gb}GB"),)
        costs = ("A slot that is further behind is lost, and its standby has to be made again.",)
    if idle:
        costs = ("A standby or subscriber whose slot was dropped has to be made again.", *costs)
    return Advice(
        "slots",
        Weight.DANGER,
        "Bring back the users of the idle slots, or drop them" if idle else "Limit what slots may keep",
        tuple(evidence),
        changes,
        steps=(
            *(("-- only if its standby or subscriber does not come back:",) if idle else ()),
            *(f"SELECT pg_drop_replication_slot('{_quoted(slot.name)}');" for slot in idle),
        ),
        costs=costs,
        sure=Sure.HIGH if idle else Sure.MEDIUM,
        unknown=() if room is not None else ("how much room pg_wal has: say --wal-disk",),
    )


def _named(slot: ServerSlot) -> str:
    held = "" if slot.retained_bytes is None else f", {format_bytes(slot.retained_bytes)}"
    since = "" if slot.inactive_s is None else f", for {format_duration(slot.inactive_s)}"
    return f'slot "{slot.name}" ({slot.kind}{held}{since})'


def _quoted(name: str) -> str:
    return name.replace("'", "''")


def archiver(case: ServerCase) -> Found | None:
    """An archiver that fails, or is slower than WAL is generated."""
    mode = case.window.value("archive_mode")
    if mode in (None, "off"):
        return None if mode == "off" else Unseen("archiver", "archive_mode is not known")
    window = case.window
    failed, done = window.total("last_archive_failure_at"), window.total("last_archived_at")
    waiting = window.looks[-1].unarchived if window.looks else None
    if failed is not None and (done is None or failed > done):
        count = window.total("archive_failures") or 0.0
        since = (
            "never worked"
            if done is None
            else f"has not worked for {format_duration(window.looks[-1].at - done)}"
        )
        return Advice(
            "archiver",
            Weight.DANGER,
            "Repair the archiver before pg_wal fills the disk",
            (
                f"It {since} ({say_count(count, 'failure')})"
                + (f"; segments that wait for it: {waiting}." if waiting else ".")
                + " Backups cannot be restored beyond the last archived segment.",
            ),
            steps=("SELECT last_failed_wal, last_failed_time FROM pg_stat_archiver;",),
        )
    made, taken = _segments(case), window.grown("archived")
    if waiting is not None and waiting > _WAITING_MOST and made and taken is not None and taken < made:
        behind = made - taken
        return Advice(
            "archiver",
            Weight.DANGER,
            "Make the archiver faster than WAL is generated",
            (
                f"{waiting} segments wait for it; in {format_duration(window.seconds)} {made:.0f} were "
                "made and "
                f"{taken:.0f} archived, so {behind / max(case.hours, 1e-9):.0f} more wait every hour.",
            ),
            sure=Sure.MEDIUM,
            unknown=("whether this hour is like others",),
        )
    if waiting is None:
        return Unseen(
            "archiver", "how many segments wait for it could not be seen: pg_monitor is not granted"
        )
    return Fine("archiver", f"The archiver works; segments that wait for it: {waiting}.")


def _segments(case: ServerCase) -> float | None:
    size = case.window.base("wal_segment_size")
    return None if not size or case.wal_bytes is None else case.wal_bytes / size


def standbys(case: ServerCase) -> Found | None:
    """Standbys that are far behind."""
    if not case.window.standbys:
        return None
    late = [standby for standby in case.window.standbys if (standby.behind_bytes or 0) > _FAR_BEHIND_BYTES]
    if not late:
        count = say_count(len(case.window.standbys), "standby connection")
        return Fine("standbys", f"{count}: none is more than 1 GB behind.")
    named = say_list([f'"{standby.name}" ({format_bytes(standby.behind_bytes or 0)})' for standby in late])
    return Advice(
        "standbys",
        Weight.DANGER,
        "Find out why a standby is behind",
        (f"Behind: {named}. A failover to it loses that, or waits for it.",),
        steps=("walproof replica watch --primary DSN --standby DSN",),
    )
