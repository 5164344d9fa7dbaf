"""Where the WAL is that a standby has not replayed: bytes, seconds and rate of change of each stage.

    primary      inserted --generation--> flushed --network--> sent
    standby                                                     --write--> written --flush--> flushed
                                                                --replay | conflict | apply delay--> replayed

``network`` is what waits on the upstream to be sent; ``write`` what was handed to the network and is not
written on the standby yet. What waits for replay counts as ``conflict`` or ``apply delay`` while the startup
process waits for a session, or for its time.

The server's own write_lag, flush_lag and replay_lag are not used: they stand still while nothing moves.
Nor is ``now() - pg_last_xact_replay_timestamp()``, which grows on an idle primary. The age of a position is
when the upstream was seen to pass it, by the observer's own clock; no two clocks are ever compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from walproof.facts.replication import RUNNING, Look, ReplicationWindow

KEEPING_UP_S = 1.0
"""Seconds: a standby whose replay lags by less keeps up."""


UNFLUSHED_TAIL_BYTES = 64 * 1024
"""Bytes: less than this at the end of WAL is not counted: records that no commit waits for (a pruned page, a
snapshot of running transactions) stay unflushed on an idle primary until its walwriter wakes up, up to 5 s
later (src/backend/postmaster/walwriter.c, HIBERNATE_FACTOR)."""


class Stage(StrEnum):
    """Where unreplayed WAL is."""

    GENERATION = "generation"
    NETWORK = "network"
    WRITE = "write"
    FLUSH = "flush"
    REPLAY = "replay"
    CONFLICT = "conflict"
    APPLY_DELAY = "apply delay"


class Pace(StrEnum):
    """Whether a standby catches up."""

    CAUGHT_UP = "caught up"
    KEEPS_UP = "keeps up"
    CATCHES_UP = "catches up"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class StageLag:
    """One stage at the end of the window."""

    stage: Stage
    lag_bytes: int
    lag_s: float
    is_least: bool
    """Whether the lag began before anybody looked, so that it is at least this long."""
    lag_bytes_per_s: float
    """Rate of change; above 0 it grows."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes of WAL a second within the window."""

    generated_bytes_per_s: float
    written_bytes_per_s: float
    flushed_bytes_per_s: float
    replayed_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class StartupLoad:
    """How the replaying process spent the window, as shares. None where it runs on another machine."""

    cpu_share: float
    run_queue_share: float
    stopped_share: float
    """Share of the looks in which a signal had stopped it."""
    disk_share: float
    """Share of the looks in which it waited in the kernel for a device."""
    cpu_us_per_mb: float | None
    """CPU microseconds a megabyte (10^6 bytes) of replayed WAL."""
    read_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class LagSplit:
    """The lag of a standby at the end of a window."""

    stages: tuple[StageLag, ...]
    lag_bytes: int
    lag_s: float
    is_least: bool
    lag_s_most: float | None
    """Age of the last replayed commit, by the primary's clock. None if nothing is waiting."""
    rates: Rates
    pace: Pace
    catch_up_s: float | None
    """Seconds until all is replayed, at the rates of the window; None unless it catches up."""
    startup: StartupLoad | None

    @property
    def began_unseen(self) -> bool:
        """Whether it was behind before anybody looked, so that only the least age is known, which may be
        short."""
        return _began_unseen(self.lag_bytes, is_least=self.is_least)

    def stage(self, stage: Stage) -> StageLag:
        """The lag of one stage."""
        return next(lag for lag in self.stages if lag.stage is stage)


def split_lag(window: ReplicationWindow) -> LagSplit:
    """Split the lag at the window's end. A window of no length has rates of 0."""
    before, after = _positions(window.first), _positions(window.last)
    rates = [_per_second(now - then, window.window_s) for then, now in zip(before, after, strict=True)]
    ages = [_age(position, window) for position in after]
    replay_stage = _replay_stage(window)
    names = (Stage.GENERATION, Stage.NETWORK, Stage.WRITE, Stage.FLUSH, replay_stage)
    found = {}
    for place, stage in enumerate(names):
        upper, lower = place, place + 1
        found[stage] = StageLag(
            stage=stage,
            lag_bytes=after[upper] - after[lower],
            lag_s=max(0.0, ages[lower][0] - ages[upper][0]) if after[upper] > after[lower] else 0.0,
            is_least=ages[lower][1] and after[upper] > after[lower],
            lag_bytes_per_s=rates[upper] - rates[lower],
        )
    stages = tuple(found.get(stage, StageLag(stage, 0, 0.0, False, 0.0)) for stage in Stage)
    behind = after[0] - after[-1]
    lag_s, is_least = max(0.0, ages[-1][0] - ages[0][0]) if behind else 0.0, bool(behind) and ages[-1][1]
    # Of what is late since before anybody looked only the least age is known, which may be short.
    keeps_up = lag_s < KEEPING_UP_S and not _began_unseen(behind, is_least=is_least)
    pace, catch_up_s = _pace(behind, rates[-1] - rates[0], keeps_up=keeps_up)
    return LagSplit(
        stages=stages,
        lag_bytes=behind,
        lag_s=lag_s,
        is_least=is_least,
        lag_s_most=_commit_age(window) if behind else None,
        rates=Rates(rates[0], rates[3], rates[4], rates[5]),
        pace=pace,
        catch_up_s=catch_up_s,
        startup=_startup_load(window, after[-1] - before[-1]),
    )


def share(counts: Mapping[str, int], names: Sequence[str]) -> float:
    """Share of the looks at a process that found one of ``names`` (``Type/Event``, or ``Type/`` for all)."""
    total = sum(counts.values())
    if not total:
        return 0.0
    hits = sum(
        count
        for event, count in counts.items()
        if any(event == name or (name.endswith("/") and event.startswith(name)) for name in names)
    )
    return hits / total


# Startup waits for a lock or a pin only in a conflict with a session (src/backend/storage/ipc/standby.c).
# From 19 on a pin is one of the waits of type Buffer; the others are for a page's content (LWLock before).
CONFLICT_WAITS = ("IPC/RecoveryConflictSnapshot", "IPC/RecoveryConflictTablespace", "Lock/", "BufferPin/",
                  "Buffer/BufferCleanup")  # fmt: skip
DELAY_WAITS = ("Timeout/RecoveryApplyDelay",)
IDLE_WAITS = ("Activity/", "Timeout/RecoveryRetrieveRetryInterval")
IO_WAITS = ("IO/",)
CPU_WAITS = (RUNNING,)


def _positions(look: Look) -> tuple[int, ...]:
    """inserted, flushed upstream, sent, written, flushed, replayed: none smaller than what follows it.

    The standby is asked after the upstream and may have come further meanwhile; after a restart its stream
    begins again at the start of a segment, before what is replayed.
    """
    upstream, standby = look.upstream, look.standby
    replayed = standby.replayed
    flushed = max(standby.received or 0, replayed)
    written = flushed
    if standby.receiver is not None:
        flushed = max(flushed, standby.receiver.flushed)
        written = max(flushed, standby.receiver.written)
    sent = written if upstream.sender is None else max(written, upstream.sender.sent)
    sendable = max(upstream.flushed, sent)
    inserted = max(upstream.inserted, sendable)
    if inserted - sendable < UNFLUSHED_TAIL_BYTES:
        inserted = sendable
    return inserted, sendable, sent, written, flushed, replayed


def _age(position: int, window: ReplicationWindow) -> tuple[float, bool]:
    """(seconds since the upstream passed that position, whether it was before anybody looked)."""
    now = window.last.at_s
    trail = window.trail
    if not trail or position >= window.last.upstream.inserted:
        return 0.0, False
    if position < trail[0][1]:
        return now - trail[0][0], True
    for (then_s, then), (later_s, later) in itertools.pairwise(trail):
        if then <= position < later:
            return now - (then_s + (later_s - then_s) * (position - then) / (later - then)), False
    return now - trail[-1][0], False


def _began_unseen(lag_bytes: int, *, is_least: bool) -> bool:
    return is_least and lag_bytes >= UNFLUSHED_TAIL_BYTES


def _commit_age(window: ReplicationWindow) -> float | None:
    committed_s = window.last.standby.replayed_commit_s
    return None if committed_s is None else max(0.0, window.last.upstream.clock_s - committed_s)


def _pace(behind: int, closing_bytes_per_s: float, *, keeps_up: bool) -> tuple[Pace, float | None]:
    if behind <= 0:
        return Pace.CAUGHT_UP, None
    if keeps_up:
        return Pace.KEEPS_UP, None
    if closing_bytes_per_s <= 0:
        return Pace.NEVER, None
    return Pace.CATCHES_UP, behind / closing_bytes_per_s


def _replay_stage(window: ReplicationWindow) -> Stage:
    waits = window.waits.get("startup", {})
    for stage, names in ((Stage.CONFLICT, CONFLICT_WAITS), (Stage.APPLY_DELAY, DELAY_WAITS)):
        if share(waits, names) >= 0.5:
            return stage
    return Stage.REPLAY


def _startup_load(window: ReplicationWindow, replayed_bytes: int) -> StartupLoad | None:
    then, now = window.first.standby.startup, window.last.standby.startup
    if then is None or now is None or window.window_s <= 0:
        return None
    states = window.states.get("startup", {})
    cpu_s = now.cpu_s - then.cpu_s
    read_bytes_per_s = None
    if then.read_bytes is not None and now.read_bytes is not None:
        read_bytes_per_s = _per_second(now.read_bytes - then.read_bytes, window.window_s)
    return StartupLoad(
        cpu_share=cpu_s / window.window_s,
        run_queue_share=(now.run_queue_s - then.run_queue_s) / window.window_s,
        stopped_share=share(states, ("T", "t")),
        disk_share=share(states, ("D",)),
        cpu_us_per_mb=cpu_s * 1e6 / (replayed_bytes / 1e6) if replayed_bytes > 0 else None,
        read_bytes_per_s=read_bytes_per_s,
    )


def _per_second(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
