"""Rules about what keeps WAL on the disk beside slots: the archiver, standbys."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.sentences import say_count, say_list
from walproof.units import format_bytes, format_duration

_FAR_BEHIND_BYTES = 1 << 30
_WAITING_MOST = 10
"""Segments that may wait for the archiver while it works normally."""
_STILL_S = 120.0
"""A working archiver looks for segments at least once a minute (PGARCH_AUTOWAKE_INTERVAL, pgarch.c)."""
_COMMANDS = ("archive_command", "archive_library")


def archiver(case: ServerCase) -> Found | None:
    """An archiver that fails, or is slower than WAL is generated."""
    mode = case.window.value("archive_mode")
    if mode in (None, "off"):
        return None if mode == "off" else Unseen("archiver", "archive_mode is not known")
    window = case.window
    if window.is_in_recovery and mode != "always":
        return None  # it archives nothing here, and pg_wal does not wait for it
    if window.is_archive_void:
        return _void()
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
    still_s = None if done is None else window.looks[-1].at - done
    if waiting is not None and waiting > 1 and not taken and (still_s is None or still_s > _STILL_S):
        return _still(case, waiting, still_s)
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
    return Fine("archiver", f"The archiver reports success; segments that wait for it: {waiting}.")


def _void() -> Advice:
    """The command is the usual placeholder. The text itself stays on the server."""
    return Advice(
        "archiver",
        Weight.DANGER,
        "Set an archive_command that archives, or archive_mode = off",
        (
            "archive_command reports success and archives nothing: the server removes WAL that no archive "
            "has, and no base backup can be rolled forward with it.",
        ),
        steps=("SELECT setting FROM pg_settings WHERE name = 'archive_command';",),
        unknown=("whether something else receives the WAL, such as pg_receivewal",),
    )


def _still(case: ServerCase, waiting: int, still_s: float | None) -> Advice:
    """Segments wait, and none is archived: there is no command, or it hangs."""
    settings = case.window.settings
    known = [settings[name] for name in _COMMANDS if name in settings]
    evidence = [
        f"{waiting} segments wait for it, and it has archived none "
        + ("since its statistics begin." if still_s is None else f"for {format_duration(still_s)}.")
        + " pg_wal keeps them until it does."
    ]
    if known and all(setting.source == "default" for setting in known):
        evidence.append(f"No {' or '.join(name for name in _COMMANDS if name in settings)} is set.")
    return Advice(
        "archiver",
        Weight.DANGER,
        "Make the archiver work before pg_wal fills the disk",
        tuple(evidence),
        steps=(
            "-- empty: nothing is archived; else look at what it does, and in the server's log",
            "SELECT name, setting FROM pg_settings WHERE name IN ('archive_command', 'archive_library');",
            "SELECT * FROM pg_stat_archiver;",
        ),
        # In a short look a burst after a long silence may only have begun to be archived.
        sure=Sure.HIGH if still_s is not None and case.window.seconds >= _STILL_S else Sure.MEDIUM,
    )


def _segments(case: ServerCase) -> float | None:
    size = case.window.base("wal_segment_size")
    return None if not size or case.wal_bytes is None else case.wal_bytes / size


def standbys(case: ServerCase) -> Found | None:
    """Standbys that are far behind."""
    if not case.window.standbys:
        return None
    late = [standby for standby in case.window.standbys if (standby.behind_bytes or 0) > _FAR_BEHIND_BYTES]
    if not late:
        count = say_count(len(case.window.standbys), "standby")
        return Fine("standbys", f"{count}: none is more than 1 GB behind.")
    named = say_list([f'"{standby.name}" ({format_bytes(standby.behind_bytes or 0)})' for standby in late])
    return Advice(
        "standbys",
        Weight.DANGER,
        "Find out why a standby is behind",
        (f"Behind: {named}. A failover to it loses that, or waits for it.",),
        steps=("walproof replica watch --primary DSN --standby DSN",),
    )
