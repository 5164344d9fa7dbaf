"""Causes by which replay is held on purpose: paused, delayed, or by a session that reads."""

from __future__ import annotations

from walproof.advise.pause_words import AT_ITS_TARGET
from walproof.advise.replica.cause import (
    SHARE,
    Cause,
    NamedCause,
    most_seen,
    replays_own_wal,
    streams,
)
from walproof.analysis.replication import (
    CONFLICT_WAITS,
    DELAY_WAITS,
    LagSplit,
    Pace,
    Stage,
    share,
)
from walproof.facts.replication import RECOVERY_TARGETS, ReplicationWindow
from walproof.sentences import say_percent
from walproof.units import format_bytes, format_duration


def replay_paused(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """pg_wal_replay_pause(), or settings too small for the primary's."""
    standby = window.last.standby
    if standby.pause_state == "not paused":
        return None
    evidence = [f"the standby's replay is {standby.pause_state}"]
    waiting = split.stage(Stage.REPLAY).lag_bytes
    if not replays_own_wal(window):
        evidence.append(f"{format_bytes(waiting)} received and not replayed")
    sender = window.last.upstream.sender
    before = window.first.upstream.sender
    if sender is not None and before is not None and waiting and sender.replay_lag_s is not None:
        stands = " and stands still" if sender.replay_lag_s == before.replay_lag_s else ""
        evidence.append(
            f"replay_lag of pg_stat_replication says {format_duration(sender.replay_lag_s)}{stands}; it is "
            "no measure while nothing is replayed"
        )
    small = _smaller_settings(window)
    if small:
        evidence.append("smaller than on the upstream: " + ", ".join(small))
    advice = ["SELECT pg_wal_replay_resume(); on the standby."]
    if any(window.standby_settings.get(target) == "true" for target in RECOVERY_TARGETS):
        evidence.append("a recovery target is set on the standby")
        advice = [AT_ITS_TARGET]
    if small:
        advice = ["Raise these settings on the standby to the primary's and restart it: " + ", ".join(small)]
    return NamedCause(
        Cause.REPLAY_PAUSED, "Replay is paused: nothing is replayed until it is resumed.", tuple(evidence),
        tuple(advice),
    )  # fmt: skip


def _smaller_settings(window: ReplicationWindow) -> list[str]:
    names = (
        "max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
        "max_locks_per_transaction",
    )  # fmt: skip
    pairs = [(name, window.standby_settings.get(name), window.upstream_settings.get(name)) for name in names]
    return [
        f"{name} {value} (upstream {theirs})"
        for name, value, theirs in pairs
        if value is not None and theirs is not None and int(value) < int(theirs)
    ]


def conflict(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Replay waits until sessions on the standby end."""
    waits = window.waits.get("startup", {})
    seen = share(waits, CONFLICT_WAITS)
    # A reader that was waited for and has ended holds nothing up.
    if seen < SHARE or split.lag_bytes == 0 or split.pace in (Pace.CAUGHT_UP, Pace.KEEPS_UP):
        return None
    evidence = [
        f"the startup process waited for {most_seen(waits, CONFLICT_WAITS)} in {say_percent(seen)} of the "
        "looks"
    ]
    evidence += [
        f"session {blocker.pid} (user {blocker.user}, "
        f"application {blocker.application_name or 'unnamed'}, {blocker.state}) "
        f"has had a transaction open for {format_duration(blocker.transaction_s)}"
        for blocker in window.blockers
    ]
    cancelled = {
        kind: count - window.first.standby.conflicts.get(kind, 0)
        for kind, count in window.last.standby.conflicts.items()
    }
    evidence += [f"{count} queries cancelled ({kind})" for kind, count in cancelled.items() if count > 0]
    # Of WAL from an archive another setting says how long it may wait (GetStandbyLimitTime, standby.c).
    name = "max_standby_streaming_delay" if streams(window) else "max_standby_archive_delay"
    delay = window.standby_settings.get(name, "")
    limit = "without end" if delay == "-1" else f"for {format_duration(int(delay or 0) / 1000)} at most"
    evidence.append(f"{name} lets queries hold up replay {limit}")
    return NamedCause(
        Cause.CONFLICT,
        "Replay waits for queries on the standby (recovery conflict).",
        tuple(evidence),
        (
            "End the session, or keep long queries off this standby.",
            f"Decide between lag and cancelled queries with {name}.",
            "hot_standby_feedback = on prevents conflicts over row versions, for some bloat on the primary.",
        ),
    )


def apply_delay(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """recovery_min_apply_delay."""
    seen = share(window.waits.get("startup", {}), DELAY_WAITS)
    delay = window.standby_settings.get("recovery_min_apply_delay", "0")
    if seen < SHARE or split.lag_bytes == 0:
        return None
    evidence = [f"the startup process waited for its time in {say_percent(seen)} of the looks"]
    if not replays_own_wal(window):
        evidence.append(f"{format_bytes(split.stage(Stage.APPLY_DELAY).lag_bytes)} are waiting")
    return NamedCause(
        Cause.APPLY_DELAY,
        f"The standby is meant to be late: recovery_min_apply_delay is {format_duration(int(delay) / 1000)}.",
        tuple(evidence),
        ("Set recovery_min_apply_delay = 0 and reload, if it should follow at once.",),
        is_intended=True,
    )
