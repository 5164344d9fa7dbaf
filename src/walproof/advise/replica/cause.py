"""What a cause of lag is, and what several rules ask of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from walproof.analysis.replication import (
    IDLE_WAITS,
    KEEPING_UP_S,
    UNFLUSHED_TAIL_BYTES,
    LagSplit,
    Stage,
    share,
)
from walproof.facts.replication import ReplicationWindow
from walproof.sentences import say_percent
from walproof.units import format_bytes

SHARE = 0.3
"""Share of the looks from which on a process is said to wait for something."""
_WAITS_FOR_WAL = (*IDLE_WAITS, "IPC/RestoreCommand")
"""Events of a startup process that has replayed what it has. A restore_command may also fail slowly."""
BUSY_SHARE = 0.7
"""Share of one core that a process wants, from which on it is saturated."""


class Cause(StrEnum):
    """What keeps a standby behind."""

    MISSING_SEGMENT = "missing segment"
    WALRECEIVER_ABSENT = "walreceiver absent"
    WALRECEIVER_SILENT = "walreceiver silent"
    ARCHIVE_RECOVERY = "archive recovery"
    LOCAL_REPLAY = "local replay"
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
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class NamedCause:
    """One cause that was found."""

    cause: Cause
    sentence: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    is_intended: bool = False
    """Whether somebody has set the standby up like that, or it is a matter of course."""


Rule: TypeAlias = Callable[[ReplicationWindow, LagSplit], NamedCause | None]
"""From a window and its split to a cause, or None."""


def streams(window: ReplicationWindow) -> bool:
    """Whether WAL arrives through a connection."""
    receiver = window.last.standby.receiver
    return receiver is not None and receiver.status == "streaming"


def restores(window: ReplicationWindow) -> bool:
    """Whether WAL may come from an archive."""
    return bool(window.standby_settings.get("restore_command"))


def replays_own_wal(window: ReplicationWindow) -> bool:
    """Whether the standby still replays WAL that it had when it was started.

    Only when that is used up, its startup process asks for a walreceiver (WaitForWALToBecomeAvailable in
    xlogrecovery.c); until one has streamed, pg_last_wal_receive_lsn() is NULL. A startup process that waits
    for WAL has none left.
    """
    standby = window.last.standby
    if standby.receiver is not None or standby.received is not None:
        return False
    waits = window.waits.get("startup", {})
    return share(waits, _WAITS_FOR_WAL) < 0.5 if waits else has_moved(window)


def has_moved(window: ReplicationWindow) -> bool:
    """Whether anything was replayed in the window."""
    return window.last.standby.replayed > window.first.standby.replayed


def needed_lsn(window: ReplicationWindow) -> int:
    """Up to where the standby has WAL; no more than a least while it replays its own (`replays_own_wal`)."""
    return max(window.last.standby.received or 0, window.last.standby.replayed)


def is_late(split: LagSplit, *stages: Stage) -> bool:
    """Whether the stages together keep WAL for longer than a pair that keeps up would."""
    return sum(split.stage(stage).lag_s for stage in stages) >= KEEPING_UP_S


def replay_is_late(window: ReplicationWindow, split: LagSplit) -> bool:
    """Whether WAL that the standby has waits for the startup process, which is not idle, paused or held."""
    if window.last.standby.pause_state != "not paused" or not is_late(split, Stage.REPLAY):
        return False
    return share(window.waits.get("startup", {}), IDLE_WAITS) < 0.5 or is_stuck(window, split)


def is_stuck(window: ReplicationWindow, split: LagSplit) -> bool:
    """Whether nothing is replayed although the standby has WAL for it.

    A startup process that a signal stops while it waits for WAL is shown as waiting for it ever after.
    """
    waiting = split.stage(Stage.REPLAY).lag_bytes
    return not has_moved(window) and waiting >= UNFLUSHED_TAIL_BYTES


def replay_rate(split: LagSplit) -> str:
    """How fast WAL is replayed and made."""
    return (
        f"WAL is replayed at {format_bytes(split.rates.replayed_bytes_per_s)}/s and made at "
        f"{format_bytes(split.rates.generated_bytes_per_s)}/s"
    )


def most_seen(waits: dict[str, int] | object, names: tuple[str, ...]) -> str:
    """The event among ``names`` that was seen most."""
    assert isinstance(waits, dict)
    fitting = {
        event: count
        for event, count in waits.items()
        if any(event == name or (name.endswith("/") and event.startswith(name)) for name in names)
    }
    return max(fitting, key=lambda event: fitting[event]).split("/", 1)[-1] if fitting else "nothing"


def ranked(waits: Mapping[str, int]) -> str:
    """The three events that were seen most, with their shares; empty where nothing was seen."""
    total = sum(waits.values())
    most = sorted(waits.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{event} {say_percent(count / total)}" for event, count in most)
