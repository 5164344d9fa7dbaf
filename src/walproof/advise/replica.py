"""Why a standby is behind: from what was seen of a pair to causes, each with evidence and what to do.

A table of rules, each a function of the window and its split. States come first (nothing arrives, paused),
because they explain every lag behind them; then what limits each stage on WAL's way. A pair that is idle, or
that keeps up, has no cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from walproof.analysis.replication import (
    CONFLICT_WAITS,
    CPU_WAITS,
    DELAY_WAITS,
    IDLE_WAITS,
    IO_WAITS,
    KEEPING_UP_S,
    LagSplit,
    Stage,
    share,
    split_lag,
)
from walproof.facts.replication import ReplicationWindow
from walproof.units import Lsn, format_bytes, format_duration

_SHARE = 0.3
"""Share of the looks from which on a process is said to wait for something."""
_BUSY_SHARE = 0.7
"""Share of one core that a process wants, from which on it is saturated."""


class Cause(StrEnum):
    """What keeps a standby behind."""

    MISSING_SEGMENT = "missing segment"
    WALRECEIVER_ABSENT = "walreceiver absent"
    WALRECEIVER_SILENT = "walreceiver silent"
    ARCHIVE_RECOVERY = "archive recovery"
    REPLAY_PAUSED = "replay paused"
    CONFLICT = "conflict"
    APPLY_DELAY = "apply delay"
    GENERATION = "generation"
    NETWORK = "network"
    FLUSH = "flush"
    REPLAY_STARVED = "replay starved"
    REPLAY_CPU = "single-core replay"
    REPLAY_IO = "replay I/O"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class NamedCause:
    """One cause that was found."""

    cause: Cause
    sentence: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    is_intended: bool = False
    """Whether somebody has set the standby up like that."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a window says about a pair."""

    split: LagSplit
    causes: tuple[NamedCause, ...]
    """The one that explains most first; empty for a pair that is idle or keeps up."""


Rule: TypeAlias = Callable[[ReplicationWindow, LagSplit], NamedCause | None]


def diagnose(window: ReplicationWindow) -> Diagnosis:
    """The lag of the window, split, and its causes."""
    split = split_lag(window)
    found = [rule(window, split) for rule in RULES]
    return Diagnosis(split, tuple(cause for cause in found if cause is not None))


def missing_segment(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The upstream has removed WAL that the standby has not got."""
    upstream = window.last.upstream
    if _streams(window) or upstream.oldest_segment is None:
        return None
    needed = _needed(window) // window.segment_bytes
    per_file = 2**32 // window.segment_bytes
    oldest = int(upstream.oldest_segment[:8], 16) * per_file + int(upstream.oldest_segment[8:], 16)
    if needed >= oldest and upstream.slot_status != "lost":
        return None
    if _restores(window) and _moved(window):
        return None  # it has them from the archive
    evidence = [
        f"the standby needs WAL from {Lsn(_needed(window))} on, in segment "
        f"{needed // per_file:08X}{needed % per_file:08X}",
        f"the oldest segment on the upstream is {upstream.oldest_segment} (names without timeline)",
        f"{format_bytes(split.lag_bytes)} of WAL behind, no stream",
    ]
    if upstream.slot_status == "lost":
        evidence.append("its replication slot has wal_status lost")
    return NamedCause(
        Cause.MISSING_SEGMENT,
        "The upstream has removed WAL that the standby still needs: it can never catch up by streaming.",
        tuple(evidence),
        (
            "If the segment is in an archive, set restore_command on the standby.",
            "Otherwise make the standby anew by a base backup.",
            "For the next time: a replication slot (primary_slot_name), or a larger wal_keep_size; "
            "max_slot_wal_keep_size bounds what a slot may keep.",
        ),
    )


def walreceiver_absent(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Nothing connects the standby to its upstream, although it should stream."""
    if _streams(window) or _restores(window) or missing_segment(window, split) is not None:
        return None
    evidence = ["pg_stat_wal_receiver of the standby shows no streaming walreceiver"]
    if window.last.upstream.sender is None:
        evidence.append("pg_stat_replication of the upstream has no walsender for it")
    evidence.append(
        f"the upstream is at {Lsn(window.last.upstream.inserted)}, the standby has received up to "
        f"{Lsn(_needed(window))}: {format_bytes(split.lag_bytes)} behind"
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


def archive_recovery(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """WAL comes from an archive, whole segments at a time."""
    if _streams(window) or not _restores(window) or split.lag_bytes == 0:
        return None
    if missing_segment(window, split) is not None:
        return None
    is_intended = not window.standby_settings.get("primary_conninfo")
    evidence = [
        "restore_command is set and no walreceiver streams",
        f"{format_bytes(split.lag_bytes)} behind, segments have {format_bytes(window.segment_bytes)}",
    ]
    if not is_intended:
        evidence.append("primary_conninfo is set: it should stream and does not")
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
    """A walreceiver exists and takes nothing, although there is WAL for it."""
    then, now = window.first.standby.receiver, window.last.standby.receiver
    if not _streams(window) or then is None or now is None:
        return None
    waits = window.waits.get("walreceiver", {})
    if now.written > then.written or window.first.upstream.flushed <= now.written:
        return None
    if share(waits, IO_WAITS) >= _SHARE:
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
    if stopped >= _SHARE:
        evidence.append("a signal has stopped the process (state T)")
    if (sender := window.last.upstream.sender) is not None and sender.reply_age_s is not None:
        evidence.append(
            f"the upstream has its last reply since {format_duration(max(0.0, sender.reply_age_s))}"
        )
    return NamedCause(
        Cause.WALRECEIVER_SILENT,
        "The walreceiver is connected and receives nothing: it hangs, or the connection is lost.",
        tuple(evidence),
        (
            "See whether its process is stopped (kill -CONT) or hangs; ending it (SIGTERM) makes the startup "
            "process start another.",
            "A dead connection is noticed after wal_receiver_timeout and wal_sender_timeout, and sooner with "
            "tcp_keepalives and a lower timeout.",
        ),
    )


def replay_paused(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """pg_wal_replay_pause(), or settings too small for the primary's."""
    standby = window.last.standby
    if standby.pause_state == "not paused":
        return None
    evidence = [f"the standby's replay is {standby.pause_state}"]
    waiting = split.stage(Stage.REPLAY).lag_bytes
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
    if small:
        advice = ["Raise these settings on the standby to the primary's and restart it: " + ", ".join(small)]
    return NamedCause(
        Cause.REPLAY_PAUSED, "Replay is paused: nothing is replayed until it is resumed.", tuple(evidence),
        tuple(advice),
    )  # fmt: skip


def conflict(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Replay waits until sessions of the standby end."""
    waits = window.waits.get("startup", {})
    seen = share(waits, CONFLICT_WAITS)
    if seen < _SHARE or split.lag_bytes == 0:
        return None
    evidence = [
        f"the startup process waited for {_most(waits, CONFLICT_WAITS)} in {_percent(seen)} of the looks"
    ]
    evidence += [
        f"session {one.pid} (user {one.user}, application {one.application_name or 'unnamed'}, {one.state}) "
        f"has had a transaction open for {format_duration(one.transaction_s)}"
        for one in window.blockers
    ]
    cancelled = {
        kind: count - window.first.standby.conflicts.get(kind, 0)
        for kind, count in window.last.standby.conflicts.items()
    }
    evidence += [f"{count} queries cancelled ({kind})" for kind, count in cancelled.items() if count > 0]
    delay = window.standby_settings.get("max_standby_streaming_delay", "")
    limit = "without end" if delay == "-1" else f"for {format_duration(int(delay or 0) / 1000)} at most"
    evidence.append(f"max_standby_streaming_delay lets queries hold up replay {limit}")
    return NamedCause(
        Cause.CONFLICT,
        "Replay waits for queries on the standby (recovery conflict).",
        tuple(evidence),
        (
            "End the session, or keep long queries off this standby.",
            "Decide between lag and cancelled queries with max_standby_streaming_delay.",
            "hot_standby_feedback = on prevents conflicts over row versions, for some bloat on the primary.",
        ),
    )


def apply_delay(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """recovery_min_apply_delay."""
    seen = share(window.waits.get("startup", {}), DELAY_WAITS)
    delay = window.standby_settings.get("recovery_min_apply_delay", "0")
    if seen < _SHARE or split.lag_bytes == 0:
        return None
    return NamedCause(
        Cause.APPLY_DELAY,
        f"The standby is meant to be late: recovery_min_apply_delay is {format_duration(int(delay) / 1000)}.",
        (
            f"the startup process waited for its time in {_percent(seen)} of the looks",
            f"{format_bytes(split.stage(Stage.APPLY_DELAY).lag_bytes)} are waiting",
        ),
        ("Set recovery_min_apply_delay = 0 and reload, if it should follow at once.",),
        is_intended=True,
    )


def generation(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The upstream's own disk: WAL is sent when it is flushed there."""
    stage = split.stage(Stage.GENERATION)
    if stage.lag_s < KEEPING_UP_S:
        return None
    return NamedCause(
        Cause.GENERATION,
        "The upstream does not flush its own WAL in time; only flushed WAL is sent.",
        (f"{format_bytes(stage.lag_bytes)} written and not flushed for {format_duration(stage.lag_s)}",),
        ("Look at the disk of the upstream's pg_wal.",),
    )


def network(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """WAL waits to be sent, or is on its way, while the standby waits for it."""
    waits = window.waits.get("walreceiver", {})
    if not _streams(window) or not _is_late(split, Stage.NETWORK, Stage.WRITE):
        return None
    if share(waits, IO_WAITS) >= _SHARE or walreceiver_silent(window, split) is not None:
        return None
    rates = split.rates
    evidence = [
        f"{format_bytes(split.stage(Stage.NETWORK).lag_bytes)} wait on the upstream to be sent, "
        f"{format_bytes(split.stage(Stage.WRITE).lag_bytes)} are on their way",
        f"WAL arrives at {format_bytes(rates.written_bytes_per_s)}/s and is made at "
        f"{format_bytes(rates.generated_bytes_per_s)}/s",
    ]
    if idle := share(waits, ("Activity/",)):
        evidence.append(f"the walreceiver waited for WAL in {_percent(idle)} of the looks")
    if full := share(window.waits.get("walsender", {}), ("Client/WalSenderWriteData",)):
        evidence.append(f"the walsender waited for the network to take more in {_percent(full)} of the looks")
    if (sender := window.last.upstream.sender) is not None and sender.state != "streaming":
        evidence.append(f"the walsender's state is {sender.state}")
    return NamedCause(
        Cause.NETWORK,
        "The network limits: WAL waits to be sent while the standby waits for it.",
        tuple(evidence),
        (
            "Compare the rate with the link's; look for a narrow link, loss, or distance.",
            "wal_compression makes less WAL where full-page images are its bulk, for CPU on the primary.",
        ),
    )


def flush(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The disk of the standby's pg_wal."""
    waits = window.waits.get("walreceiver", {})
    if not _streams(window) or not _is_late(split, Stage.NETWORK, Stage.WRITE, Stage.FLUSH):
        return None
    seen = share(waits, IO_WAITS)
    if seen < _SHARE and not _is_late(split, Stage.FLUSH):
        return None
    evidence = [
        f"{format_bytes(split.stage(Stage.FLUSH).lag_bytes)} are written on the standby and not flushed",
        f"WAL is flushed there at {format_bytes(split.rates.flushed_bytes_per_s)}/s and made at "
        f"{format_bytes(split.rates.generated_bytes_per_s)}/s",
    ]
    if seen:
        evidence.insert(
            0, f"the walreceiver waited for {_most(waits, IO_WAITS)} in {_percent(seen)} of the looks"
        )
    return NamedCause(
        Cause.FLUSH,
        "The standby's disk limits: its walreceiver waits for WAL to be written and flushed.",
        tuple(evidence),
        (
            "Put pg_wal of the standby on a disk that flushes faster; walproof disk measures it.",
            "With synchronous_commit = on, commits on the primary wait for this flush.",
        ),
    )


def replay_starved(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process is ready to run and does not get a core."""
    load = split.startup
    if load is None or not _replay_is_late(window, split):
        return None
    kept_off = load.run_queue_share + load.stopped_share
    if kept_off < _SHARE or kept_off < load.cpu_share:
        return None
    evidence = [
        f"the startup process was ready and had no core for {_percent(load.run_queue_share)} of the time, "
        f"and ran for {_percent(load.cpu_share)}",
    ]
    if load.stopped_share:
        evidence.append(f"a signal had stopped it (state T) in {_percent(load.stopped_share)} of the looks")
    return NamedCause(
        Cause.REPLAY_STARVED,
        "Replay gets too little CPU: others have the cores that the startup process needs.",
        (*evidence, _replay_rate(split)),
        (
            "See what else runs on the standby's machine, its CPU limit (cgroup) and its affinity.",
            "Move queries or other programs away, or give the machine more cores.",
        ),
    )


def replay_cpu(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process saturates its one core."""
    if not _replay_is_late(window, split) or replay_starved(window, split) is not None:
        return None
    waits = window.waits.get("startup", {})
    running = share(waits, CPU_WAITS)
    load = split.startup
    # Time without a core counts: the process had work for it. That it is the smaller part is known by now.
    wanted = load.cpu_share + load.run_queue_share + load.stopped_share if load is not None else running
    if wanted < _BUSY_SHARE:
        return None
    evidence = [_replay_rate(split)]
    if load is not None:
        evidence.insert(0, f"the startup process ran for {_percent(load.cpu_share)} of the time, on one core")
        if load.cpu_us_per_mb is not None:
            evidence.append(f"replay costs {load.cpu_us_per_mb:,.0f} us of CPU a megabyte of WAL")
    else:
        evidence.insert(
            0,
            f"the startup process waited for nothing in {_percent(running)} of the looks; whether it ran or "
            "had no core is only to be seen on its machine",
        )
    return NamedCause(
        Cause.REPLAY_CPU,
        "Replay itself limits: one process replays, and its core is full.",
        tuple(evidence),
        (
            "Make less WAL: fewer indexes, larger max_wal_size (fewer full-page images), larger batches.",
            "wal_compression = pglz makes replay dearer; lz4 or off costs it less.",
            "A faster core, or PostgreSQL 14 and newer, which asks for file sizes less often.",
        ),
    )


def replay_io(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process waits for blocks."""
    if not _replay_is_late(window, split):
        return None
    waits = window.waits.get("startup", {})
    seen = share(waits, IO_WAITS)
    in_kernel = split.startup.disk_share if split.startup is not None else 0.0
    if max(seen, in_kernel) < _SHARE:
        return None
    evidence = [f"the startup process waited for {_most(waits, IO_WAITS)} in {_percent(seen)} of the looks"]
    if split.startup is not None:
        evidence.append(f"it waited in the kernel for a device in {_percent(in_kernel)} of the looks")
        if split.startup.read_bytes_per_s is not None:
            evidence.append(f"it read {format_bytes(split.startup.read_bytes_per_s)}/s from the device")
    prefetch = window.standby_settings.get("recovery_prefetch")
    advice = ["More shared_buffers on the standby, or a faster disk for its data."]
    if prefetch is not None:
        evidence.append(f"recovery_prefetch is {prefetch}")
        advice.append("recovery_prefetch = try with a larger maintenance_io_concurrency reads ahead.")
    return NamedCause(
        Cause.REPLAY_IO,
        "Replay waits for the standby's disk.",
        (*evidence, _replay_rate(split)),
        tuple(advice),
    )


def replay(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Replay is late for a reason that was not seen; better said than left out."""
    named = (replay_starved, replay_cpu, replay_io, conflict, apply_delay, replay_paused)
    if not _replay_is_late(window, split) or any(rule(window, split) is not None for rule in named):
        return None
    waits = window.waits.get("startup", {})
    most = ", ".join(
        f"{event} {_percent(count / sum(waits.values()))}"
        for event, count in sorted(waits.items(), key=lambda item: -item[1])[:3]
    )
    return NamedCause(
        Cause.REPLAY,
        "Replay is behind, and no single cause stands out.",
        (f"the startup process was seen in: {most or 'nothing'}", _replay_rate(split)),
        ("Watch for longer (--every 10s).",),
    )


RULES: tuple[Rule, ...] = (
    missing_segment,
    walreceiver_absent,
    archive_recovery,
    walreceiver_silent,
    replay_paused,
    conflict,
    apply_delay,
    generation,
    flush,
    network,
    replay_starved,
    replay_cpu,
    replay_io,
    replay,
)


def _streams(window: ReplicationWindow) -> bool:
    receiver = window.last.standby.receiver
    return receiver is not None and receiver.status == "streaming"


def _restores(window: ReplicationWindow) -> bool:
    return bool(window.standby_settings.get("restore_command"))


def _moved(window: ReplicationWindow) -> bool:
    return window.last.standby.replayed > window.first.standby.replayed


def _needed(window: ReplicationWindow) -> int:
    """Up to where the standby has WAL."""
    return max(window.last.standby.received or 0, window.last.standby.replayed)


def _is_late(split: LagSplit, *stages: Stage) -> bool:
    return sum(split.stage(stage).lag_s for stage in stages) >= KEEPING_UP_S


def _replay_is_late(window: ReplicationWindow, split: LagSplit) -> bool:
    """Whether WAL that the standby has waits for the startup process, which is not idle, paused or held."""
    if window.last.standby.pause_state != "not paused" or not _is_late(split, Stage.REPLAY):
        return False
    return share(window.waits.get("startup", {}), IDLE_WAITS) < 0.5


def _smaller_settings(window: ReplicationWindow) -> list[str]:
    names = (
        "max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
        "max_locks_per_transaction",
    )  # fmt: skip
    pairs = [(name, window.standby_settings.get(name), window.upstream_settings.get(name)) for name in names]
    return [
        f"{name} {own} (upstream {theirs})"
        for name, own, theirs in pairs
        if own is not None and theirs is not None and int(own) < int(theirs)
    ]


def _replay_rate(split: LagSplit) -> str:
    return (
        f"WAL is replayed at {format_bytes(split.rates.replayed_bytes_per_s)}/s and made at "
        f"{format_bytes(split.rates.generated_bytes_per_s)}/s"
    )


def _most(waits: dict[str, int] | object, names: tuple[str, ...]) -> str:
    """The event among ``names`` that was seen most."""
    assert isinstance(waits, dict)
    fitting = {
        event: count
        for event, count in waits.items()
        if any(event == name or (name.endswith("/") and event.startswith(name)) for name in names)
    }
    return max(fitting, key=lambda event: fitting[event]).split("/", 1)[-1] if fitting else "nothing"


def _percent(one: float) -> str:
    return f"{one * 100:.0f} %"
