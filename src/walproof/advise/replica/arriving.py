"""Causes by which no WAL arrives at a standby."""

from __future__ import annotations

from walproof.advise.replica.cause import (
    SHARE,
    Cause,
    NamedCause,
    has_moved,
    needed_lsn,
    ranked,
    replays_own_wal,
    restores,
    streams,
)
from walproof.analysis.replication import (
    IO_WAITS,
    LagSplit,
    share,
)
from walproof.facts.replication import ReplicationWindow
from walproof.units import Lsn, format_bytes, format_duration

_KEEP_MORE = (
    "For the next time: a larger max_slot_wal_keep_size, or none (-1), if the disk of pg_wal has room for "
    "what a standby that is away needs."
)
_KEEP_LONGER = (
    "For the next time: from 18 on idle_replication_slot_timeout on the upstream invalidates a slot that "
    "nobody uses: a longer one, or none (0). invalidation_reason in pg_replication_slots says whether it did."
)


def missing_segment(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The upstream has removed WAL that the standby has not received."""
    upstream = window.last.upstream
    if streams(window) or upstream.oldest_segment is None:
        return None
    has_own = replays_own_wal(window)
    if has_own and upstream.slot_status != "lost":
        return None  # from where it will need WAL is not known yet
    needed = needed_lsn(window) // window.segment_bytes
    per_file = 2**32 // window.segment_bytes
    oldest = int(upstream.oldest_segment[:8], 16) * per_file + int(upstream.oldest_segment[8:], 16)
    if needed >= oldest and upstream.slot_status != "lost":
        return None
    if restores(window) and has_moved(window):
        return None  # it has them from the archive
    evidence = [
        f"the standby needs WAL from {Lsn(needed_lsn(window))} on, in segment "
        f"{needed // per_file:08X}{needed % per_file:08X}",
        f"the oldest segment on the upstream is {upstream.oldest_segment} (names without timeline)",
        f"{format_bytes(split.lag_bytes)} of WAL behind, no stream",
    ]
    if has_own:
        evidence = [
            f"it has replayed up to {Lsn(needed_lsn(window))} and has more WAL, how much is not known"
        ]
    next_time: tuple[str, ...] = (
        "For the next time: a replication slot (primary_slot_name), or a larger wal_keep_size; "
        "max_slot_wal_keep_size bounds what a slot may keep.",
    )
    if upstream.slot_status == "lost":
        evidence.append("its replication slot has wal_status lost")
        most = window.upstream_settings.get("max_slot_wal_keep_size", "-1")
        idle_s = int(window.upstream_settings.get("idle_replication_slot_timeout", "0"))
        is_bounded = not most.startswith("-")
        if is_bounded:
            evidence.append(f"max_slot_wal_keep_size is {format_bytes(int(most) << 20)} on the upstream")
        if idle_s:
            evidence.append(f"idle_replication_slot_timeout is {format_duration(idle_s)} on the upstream")
        # Without a limit no slot is lost for its WAL.
        next_time = (_KEEP_MORE,) * is_bounded + (_KEEP_LONGER,) * (idle_s > 0 or not is_bounded)
    return NamedCause(
        Cause.MISSING_SEGMENT,
        "The upstream has removed WAL that the standby still needs: it can never catch up by streaming.",
        tuple(evidence),
        (
            "If the segment is in an archive, set restore_command on the standby.",
            "Otherwise make the standby again from a base backup.",
            *next_time,
        ),
    )


def walreceiver_absent(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Nothing connects the standby to its upstream, although it should stream."""
    if streams(window) or restores(window) or missing_segment(window, split) is not None:
        return None
    if replays_own_wal(window):
        return None
    evidence = ["pg_stat_wal_receiver of the standby shows no streaming walreceiver"]
    if window.last.upstream.sender is None:
        evidence.append("pg_stat_replication of the upstream has no walsender for it")
    evidence.append(
        f"the upstream is at {Lsn(window.last.upstream.inserted)}, the standby has received up to "
        f"{Lsn(needed_lsn(window))}: {format_bytes(split.lag_bytes)} behind"
    )
    if window.last.standby.received == window.last.standby.replayed:
        evidence.append("all that was received is replayed, so on the standby alone its lag looks like 0")
    advice = [
        "Read the standby's log for the walreceiver's FATAL line (connection, authentication, timeline)."
    ]
    if not window.standby_settings.get("primary_conninfo"):
        evidence.append("primary_conninfo is empty")
        advice.insert(0, "Set primary_conninfo on the standby and reload.")
    return NamedCause(
        Cause.WALRECEIVER_ABSENT,
        "No walreceiver runs: the standby gets no WAL.",
        tuple(evidence),
        tuple(advice),
    )


def local_replay(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """After a start the standby replays what it has before it asks for more."""
    if not replays_own_wal(window) or missing_segment(window, split) is not None:
        return None
    if restores(window) and not window.standby_settings.get("primary_conninfo"):
        return None  # no walreceiver will ever run
    evidence = [
        "no walreceiver runs yet: the startup process asks for one when it has replayed the WAL that the "
        "standby has",
        f"the upstream is at {Lsn(window.last.upstream.inserted)}, the standby has replayed up to "
        f"{Lsn(window.last.standby.replayed)}: {format_bytes(split.lag_bytes)} behind",
        "how much of that the standby has is not known before it streams; it is counted as network",
    ]
    if seen := ranked(window.waits.get("startup", {})):
        evidence.append(f"the startup process was seen in: {seen}")
    advice = ["Wait: a walreceiver starts afterwards."]
    if is_stopped := share(window.states.get("startup", {}), ("T", "t")) >= SHARE:
        evidence.append("a signal has stopped the startup process (state T)")
        advice = ["Let the startup process go on (kill -CONT)."]
    elif not has_moved(window):
        evidence.append("nothing was replayed in the window")
    if not window.standby_settings.get("primary_conninfo"):
        evidence.append("primary_conninfo is empty: afterwards nothing will arrive")
        advice.append("Set primary_conninfo on the standby and reload.")
    return NamedCause(
        Cause.LOCAL_REPLAY,
        "The standby was started and still replays WAL that it has; no walreceiver runs yet.",
        tuple(evidence),
        tuple(advice),
        is_intended=not is_stopped,
    )


def archive_recovery(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """WAL comes from an archive, whole segments at a time."""
    if streams(window) or not restores(window) or split.lag_bytes == 0:
        return None
    if missing_segment(window, split) is not None:
        return None
    is_intended = not window.standby_settings.get("primary_conninfo")
    if not is_intended and replays_own_wal(window):
        return None
    evidence = [
        "restore_command is set and no walreceiver streams",
        f"{format_bytes(split.lag_bytes)} behind, segments have {format_bytes(window.segment_bytes)}",
    ]
    if not is_intended:
        evidence.append("primary_conninfo is set: it should stream but does not")
    return NamedCause(
        Cause.ARCHIVE_RECOVERY,
        "The standby restores WAL from the archive: it sees a segment when it is complete and archived.",
        tuple(evidence),
        (
            "To follow within seconds, let it stream (primary_conninfo)."
            if is_intended
            else "Read the standby's log for why streaming fails.",
            "archive_timeout on the primary bounds the age of a segment that fills slowly.",
            "pg_stat_archiver on the primary shows whether archiving itself fails or is late.",
        ),
        is_intended,
    )


def walreceiver_silent(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """A walreceiver exists but takes nothing, although there is WAL for it."""
    then, now = window.first.standby.receiver, window.last.standby.receiver
    if not streams(window) or then is None or now is None:
        return None
    waits = window.waits.get("walreceiver", {})
    if now.written > then.written or window.first.upstream.flushed <= now.written:
        return None
    if share(waits, IO_WAITS) >= SHARE:
        return None  # it waits for its disk
    if now.message_age_s is not None and now.message_age_s < 0.8 * window.window_s:
        return None
    evidence = [
        f"it has written nothing for {format_duration(window.window_s)}, with "
        f"{format_bytes(window.last.upstream.flushed - now.written)} on the upstream for it",
    ]
    if now.message_age_s is not None:
        evidence.append(f"its last message is {format_duration(now.message_age_s)} old, by its own clock")
    stopped = share(window.states.get("walreceiver", {}), ("T", "t"))
    if stopped >= SHARE:
        evidence.append("a signal has stopped the process (state T)")
    senders = [look.upstream.sender for look in (window.first, window.last)]
    if senders == [None, None] and stopped < SHARE:
        return _silent_upstream(window, evidence)
    if (sender := window.last.upstream.sender) is not None and sender.reply_age_s is not None:
        evidence.append(
            f"the upstream has its last reply since {format_duration(max(0.0, sender.reply_age_s))}"
        )
    return NamedCause(
        Cause.WALRECEIVER_SILENT,
        "The walreceiver is connected and receives nothing: it hangs, or the connection is lost.",
        tuple(evidence),
        (
            "See whether its process is stopped (kill -CONT) or hangs; if you end it (SIGTERM), the startup "
            "process starts another.",
            "A dead connection is noticed after wal_receiver_timeout and wal_sender_timeout, and sooner with "
            "tcp_keepalives and a lower timeout.",
        ),
    )


def _silent_upstream(window: ReplicationWindow, evidence: list[str]) -> NamedCause:
    """A walreceiver that streams from another server hears nothing while that one gets no WAL itself. An idle
    stream is silent for half of wal_receiver_timeout (WalReceiverMain in walreceiver.c)."""
    timeout = int(window.standby_settings.get("wal_receiver_timeout") or 0) / 1000
    within = f" within wal_receiver_timeout ({format_duration(timeout)})" if timeout else ""
    return NamedCause(
        Cause.WALRECEIVER_SILENT,
        "The walreceiver receives nothing, and the upstream that is watched has no walsender for it: the "
        "server that it streams from sends nothing.",
        tuple(evidence),
        (
            "Watch the server that it streams from, which may be cut off itself; nothing has to be done "
            "about this walreceiver.",
            "If it should stream from the upstream that is watched, the connection is lost, and it notices "
            f"that{within}.",
        ),
    )
