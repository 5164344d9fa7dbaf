"""Causes by which replay itself is slow."""

from __future__ import annotations

from walproof.advise.replica.cause import (
    BUSY_SHARE,
    SHARE,
    Cause,
    NamedCause,
    most_seen,
    ranked,
    replay_is_late,
    replay_rate,
)
from walproof.advise.replica.holding import apply_delay, conflict, replay_paused
from walproof.analysis.replication import (
    CPU_WAITS,
    IDLE_WAITS,
    IO_WAITS,
    LagSplit,
    share,
)
from walproof.facts.replication import ReplicationWindow
from walproof.sentences import say_percent
from walproof.units import format_bytes


def replay_starved(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process is ready to run but does not get a core."""
    load = split.startup
    if load is None or not replay_is_late(window, split):
        return None
    kept_off = load.run_queue_share + load.stopped_share
    if kept_off < SHARE or kept_off < load.cpu_share:
        return None
    evidence = [
        f"the startup process was ready and had no core for {say_percent(load.run_queue_share)} of the time, "
        f"and ran for {say_percent(load.cpu_share)}",
    ]
    if load.stopped_share:
        evidence.append(
            f"a signal had stopped it (state T) in {say_percent(load.stopped_share)} of the looks"
        )
    if load.stopped_share >= BUSY_SHARE:
        return NamedCause(
            Cause.REPLAY_STARVED,
            "A signal has stopped the startup process: nothing is replayed until it is continued.",
            (*evidence[1:], replay_rate(split)),
            ("Find who stopped it (a debugger, a profiler, SIGSTOP), and send it SIGCONT.",),
        )
    return NamedCause(
        Cause.REPLAY_STARVED,
        "Replay gets too little CPU: others have the cores that the startup process needs.",
        (*evidence, replay_rate(split)),
        (
            "See what else runs on the standby's machine, its CPU limit (cgroup) and its affinity.",
            "Move queries or other programs away, or give the machine more cores.",
        ),
    )


def replay_cpu(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process uses all of its one core."""
    if not replay_is_late(window, split) or replay_starved(window, split) is not None:
        return None
    waits = window.waits.get("startup", {})
    running = share(waits, CPU_WAITS)
    load = split.startup
    # Time without a core counts: the process had work for it. By now it is known to be the smaller part.
    wanted = load.cpu_share + load.run_queue_share + load.stopped_share if load is not None else running
    if wanted < BUSY_SHARE:
        return None
    evidence = [replay_rate(split)]
    if load is not None:
        evidence.insert(
            0, f"the startup process ran for {say_percent(load.cpu_share)} of the time, on one core"
        )
        if load.cpu_us_per_mb is not None:
            evidence.append(f"replay costs {load.cpu_us_per_mb:,.0f} us of CPU a megabyte of WAL")
    else:
        evidence.insert(
            0,
            f"the startup process waited for nothing in {say_percent(running)} of the looks; whether it ran "
            "or had no core can be seen only on its machine",
        )
    return NamedCause(
        Cause.REPLAY_CPU,
        "Replay itself is the limit: one process replays, and its core is fully used.",
        tuple(evidence),
        (
            "Make less WAL: fewer indexes, larger max_wal_size (fewer full-page images), larger batches.",
            "wal_compression = pglz makes replay more expensive; lz4 or off costs less.",
            "A faster core, or PostgreSQL 14 and newer, which asks for file sizes less often.",
        ),
    )


def replay_io(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The startup process waits for blocks."""
    if not replay_is_late(window, split):
        return None
    waits = window.waits.get("startup", {})
    seen = share(waits, IO_WAITS)
    in_kernel = split.startup.disk_share if split.startup is not None else 0.0
    if max(seen, in_kernel) < SHARE:
        return None
    evidence = [
        f"the startup process waited for {most_seen(waits, IO_WAITS)} in {say_percent(seen)} of the looks"
    ]
    if split.startup is not None:
        evidence.append(f"it waited in the kernel for a device in {say_percent(in_kernel)} of the looks")
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
        (*evidence, replay_rate(split)),
        tuple(advice),
    )


def replay(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """Replay is late for a reason that was not seen, which is better said than left out."""
    named = (replay_starved, replay_cpu, replay_io, conflict, apply_delay, replay_paused)
    if not replay_is_late(window, split) or any(rule(window, split) is not None for rule in named):
        return None
    waits = window.waits.get("startup", {})
    seen = f"the startup process was seen in: {ranked(waits) or 'nothing'}"
    if waits and share(waits, IDLE_WAITS) >= 0.5:
        return NamedCause(
            Cause.UNEXPLAINED,
            "Nothing is replayed: the startup process is shown as waiting for WAL that the standby has.",
            (seen, replay_rate(split)),
            ("On the standby's machine, look at that process: state T is a process that a signal stopped.",),
        )
    return NamedCause(
        Cause.REPLAY,
        "Replay is behind, and no single cause stands out.",
        (seen, replay_rate(split)),
        ("Watch for longer (--every 10s).",),
    )
