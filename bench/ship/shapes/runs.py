"""Shapes of the outputs about runs, studies, installs, disks, loads and power cuts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from typing_extensions import TypedDict

from walproof.advise.finding import Finding
from walproof.analysis.gate import Judgement
from walproof.analysis.hosts import Across, HostLoss
from walproof.analysis.power_cut import CutSummary
from walproof.analysis.summary import Analysis
from walproof.analysis.sweep import Climb
from walproof.facts.run import Run, Trial
from walproof.report.answer import Answer, NextCommand

Object = Mapping[str, Any]


class ReportAnswer(TypedDict):
    question: str
    answers: list[Answer]
    how_sure: list[str]
    what_would_help: list[str]
    next_commands: list[NextCommand]


class Report(TypedDict):
    """Facts, analysis and findings of a run."""

    format: int
    run: Run
    trials: list[Trial]
    analysis: Analysis
    power_cuts: list[CutSummary]
    sweeps: list[Climb]
    findings: list[Finding]
    gate: Judgement | None
    answer: ReportAnswer


class Hosts(TypedDict):
    """A study that ran on several machines."""

    metric: str
    runs: Mapping[str, str]
    left_out: Mapping[str, str]
    effects: list[Across]
    levels: list[Across]
    losses: list[HostLoss]


class StudyTitle(TypedDict):
    name: str
    title: str


class RunRow(TypedDict):
    """``started`` is for people: local time. ``created_at`` is the same in Unix seconds."""

    run: str
    started: str
    created_at: float
    state: Literal["running", "interrupted", "finished", "stopped"]
    trials: int
    failed: int
    rounds: int
    postgresql: str


class Asked(TypedDict):
    """What was asked of a run; it answers between trials."""

    run: str
    number: int
    kind: str
    rounds: int
    asked_at: float
    answered_at: float | None
    is_granted: bool
    words: str


class CopiedRow(TypedDict):
    """A run that was copied: its id, and its id in the other store."""

    run: str
    id: str
    outcome: str
    trials: int


class CopiedRuns(TypedDict):
    store: str
    runs: list[CopiedRow]


class RemovedRun(TypedDict):
    run: str
    trials: int


class Fix(TypedDict):
    version: str
    what: str
    harm: str
    source: str


class InstallRow(TypedDict):
    version: str
    origin: str
    bindir: str
    missing_fixes: list[Fix]


class Fetched(InstallRow):
    fetched: Mapping[str, str] | None


class Available(TypedDict):
    version: str
    clients: list[str]


class Removed(TypedDict):
    removed: str


class FlushRow(TypedDict):
    method: str
    flushes_per_s: float | None
    flush_us: float | None
    flushes_per_s_least: float | None
    flushes_per_s_most: float | None
    is_direct: bool
    lacks_direct: bool


class Flushes(TypedDict):
    folder: str
    device: Object
    rates: list[FlushRow]


class Captured(TypedDict):
    folder: str
    began_lsn: str
    ended_lsn: str
    wal_bytes: int
    seconds: float
    ended_because: str


class StepRatio(TypedDict):
    step: str
    ratio: float
    interval: tuple[float, float] | None
    conclusion: str


class VariantRatio(TypedDict):
    variant: str
    ratio: float
    interval: tuple[float, float] | None
    conclusion: str


class LoadSteps(TypedDict):
    kept: list[StepRatio]
    undecided: list[StepRatio]
    undecided_are_kept: bool
    dropped: list[StepRatio]


class MeasuredLoad(TypedDict):
    variant: str
    load: Object


class LoadRecipe(TypedDict):
    """The recipe of a load: the gain of every step, and the script."""

    run: str
    table: str
    postgresql: str
    variant: str
    durability_class: str
    load: Object
    settings: Mapping[str, str]
    measured: MeasuredLoad
    steps: LoadSteps
    instead: list[VariantRatio]
    plain: list[VariantRatio]
    script: str


class CutVerdict(TypedDict):
    state: str
    reason: str | None
    torn_pages: int
    lost_commits: int
    loss_window_ms: float | None


class CutAgain(TypedDict):
    """A kept image, checked once more."""

    postgresql: str
    settings: Mapping[str, str]
    moment: str
    pace: str
    acknowledged: int
    survival: str
    kept: str | None
    then: CutVerdict
    now: CutVerdict
    is_same: bool
