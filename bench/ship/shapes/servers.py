"""Shapes of the outputs about servers that are advised or watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from walproof.advise.replica.cause import NamedCause
from walproof.advise.server.advice import Absent, AdvisedFigure, Fine, Unseen
from walproof.advise.server.drift import Drift
from walproof.advise.watch.concern import Concern
from walproof.analysis.replication import Pace, Rates, StageLag, StartupLoad
from walproof.analysis.watch.archive import ArchiveState
from walproof.analysis.watch.assessment import Event
from walproof.analysis.watch.checkpoint import CheckpointState
from walproof.analysis.watch.disk import DiskState
from walproof.analysis.watch.logical import LogicalState
from walproof.facts.replication import Receiver, Sender
from walproof.facts.wal_causes import WalCauses
from walproof.facts.watch import CrashClock, WatchedSlot, WatchedSubscription
from walproof.facts.watch_sizes import SizeCurve
from walproof.settings.change import Change

Object = Mapping[str, Any]


class Refused(TypedDict):
    name: str
    value: str
    reason: str
    source: str


class AdviceItem(TypedDict):
    rule: str
    weight: str
    title: str
    evidence: list[str]
    changes: list[Change]
    steps: list[str]
    figures: list[AdvisedFigure]
    costs: list[str]
    durability_class: str
    sure: str
    surer: str | None
    unknown: list[str]
    context: str
    apply: str | None
    undo: str | None
    lines_notes: list[str]
    refused: list[Refused]


class ServerAdvice(TypedDict):
    """What a server should set, with lines to paste."""

    dateline: str
    summary: str
    platform: str
    platform_reason: str | None
    since: list[str]
    advice: list[AdviceItem]
    curve: Object | None
    apply: str | None
    undo: str | None
    lines_notes: list[str]
    fine: list[Fine]
    unseen: list[Unseen]
    absent: list[Absent]
    notes: list[str]


class Advice(ServerAdvice):
    """The advice on one server."""

    format: int


class AdvisedServer(TypedDict):
    """One of several servers, with its advice, or with the error for which there is none."""

    name: str
    error: str | None
    detail: str | None
    advice: ServerAdvice | None


class AdviceOfSeveral(TypedDict):
    """The advice on several servers."""

    format: int
    dateline: str
    summary: str
    servers: list[AdvisedServer]
    drift: list[Drift]


class NoAnswer(TypedDict):
    since: float
    reason: str


class Stream(TypedDict):
    phase: str
    reason: str | None
    since: float | None
    received_lsn: str | None
    received_bytes: int


class Positions(TypedDict):
    inserted: str
    flushed: str
    sent: str | None
    standby_written: str | None
    standby_flushed: str | None
    replayed: str


class ReplicaWindow(TypedDict):
    """A window of a pair that is watched on both sides; one a line."""

    window_s: float
    causes: list[NamedCause]
    lag_bytes: int
    lag_s: float
    is_least: bool
    lag_s_most: float | None
    pace: Pace
    catch_up_s: float | None
    stages: list[StageLag]
    rates: Rates
    positions: Positions
    pause_state: str
    sender: Sender | None
    receiver: Receiver | None
    startup: StartupLoad | None
    waits: Mapping[str, Mapping[str, int]]
    prefetch: Mapping[str, int] | None
    startup_reads: int | None
    conflicts: Mapping[str, int]
    is_cascade: bool
    is_local: bool
    clock_skew_s: float
    clock_skew_error_s: float
    notes: list[str]


class WatchedStandby(TypedDict):
    """A watched pair; if both sides are watched it also has the keys of a window of `replica watch`."""

    name: str
    seen_from: str
    lag_bytes: int
    lag_s: float
    is_least: bool
    pace: str
    catch_up_s: float | None
    stages: list[StageLag]
    causes: list[NamedCause]
    lag_s_most: NotRequired[float | None]
    window_s: NotRequired[float]
    rates: NotRequired[Rates]
    positions: NotRequired[Positions]
    pause_state: NotRequired[str]
    sender: NotRequired[Sender | None]
    receiver: NotRequired[Receiver | None]
    startup: NotRequired[StartupLoad | None]
    waits: NotRequired[Mapping[str, Mapping[str, int]]]
    prefetch: NotRequired[Mapping[str, int] | None]
    startup_reads: NotRequired[int | None]
    conflicts: NotRequired[Mapping[str, int]]
    is_cascade: NotRequired[bool]
    is_local: NotRequired[bool]
    clock_skew_s: NotRequired[float]
    clock_skew_error_s: NotRequired[float]
    notes: NotRequired[list[str]]


class Watched(TypedDict):
    """A look at a server; one a line."""

    server: str
    at: float | None
    version: str | None
    system_identifier: str | None
    is_in_recovery: bool | None
    lsn: str | None
    seen_s: float
    no_answer: NoAnswer | None
    wal_bytes_per_s: float | None
    stream: Stream
    crash: CrashClock | None
    causes: WalCauses | None
    recovery_target_s: float | None
    disk: DiskState | None
    archive: ArchiveState | None
    checkpoint: CheckpointState | None
    sizes: SizeCurve | None
    slots: list[WatchedSlot]
    standbys: list[WatchedStandby]
    logical: list[LogicalState]
    subscriptions: list[WatchedSubscription]
    concerns: list[Concern]
    events: list[Event]
    lacks: list[str]
    notes: list[str]
