"""Shapes of the outputs about tunings."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from bench.ship.shapes.servers import Refused
from walproof.advise.tune.crashes import WalCheck
from walproof.analysis.hosts import Across

Conf = Mapping[str, str]


class Gain(TypedDict):
    ratio: float
    low: float | None
    high: float | None


class Broken(TypedDict):
    limit: str
    predicted: str
    allowed: str


class RuledOutCandidate(TypedDict):
    conf: Conf
    predicted: str
    allowed: str


class RuledOut(TypedDict):
    limit: str
    candidates: list[RuledOutCandidate]


class TunePrediction(TypedDict):
    wal_bytes_per_txn: float | None
    pg_wal_bytes: float | None
    recovery_s: float | None
    recovery_low_s: float | None
    recovery_high_s: float | None


class LinePrediction(TunePrediction):
    memory_bytes: float | None


class Expected(TypedDict):
    value: float
    value_low: float
    value_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    starts: int


class TuneLine(TypedDict):
    setting: str
    value: str
    verdict: str
    in_conf: bool
    gain: Gain | None
    p: float | None
    rounds: list[float]
    reference: dict[str, str]
    in_winner: Gain | None
    alone: Gain | None
    durability_class: str
    with_it: LinePrediction
    without_it: LinePrediction
    breaks_without_it: list[Broken]


class TunePromises(TypedDict):
    may_lose: str
    recovery_target_s: float | None
    wal_disk_bytes: int | None
    memory_bytes: int | None


class Crash(TypedDict):
    wal_bytes: int | None
    measured_s: float | None
    predicted_s: float | None
    predicted_high_s: float | None
    is_within: bool | None
    failure: str | None
    host: str | None


class LimitNow(TypedDict):
    kind: str
    sentence: str


class NotMoved(TypedDict):
    setting: str
    value: str | None
    limit: str | None
    reason: str


class OverHosts(TypedDict):
    metric: str
    effects: list[Across]
    levels: list[Across]


class FlushGain(TypedDict):
    device: str
    gain: Gain | None
    rounds: int


class Measured(TypedDict):
    round: int
    host: str | None
    conf: Conf
    value: float | None
    limit_value: float | None
    failure: str | None


class TuneStep(TypedDict):
    number: int
    purpose: str
    design: str
    rounds: int
    seed: int
    why: str
    run: str | None
    seconds: float
    candidates: list[Conf]
    measured: list[Measured]


class Tuned(TypedDict):
    """A tuning: the configuration, its lines, what was ruled out, and every step."""

    format: int
    name: str
    dateline: str
    summary: list[str]
    objective: str
    larger_is_better: bool
    promises: TunePromises
    budget_s: float
    spent_s: float
    seed: int
    conf: Conf
    winner: Conf
    short: Conf | None
    conclusion: str
    defaults_are_best: bool
    why_default: str | None
    is_final: bool
    gain: Gain | None
    to_winner: Gain | None
    to_own: Gain | None
    second: Gain | None
    expected: Expected | None
    durability_class: str
    lines: list[TuneLine]
    prediction: TunePrediction
    at_own_speed: TunePrediction | None
    """``prediction`` at its own speed, which is above the recorded; null where nothing is advised."""
    default_prediction: TunePrediction
    default_broken: list[Broken]
    own_prediction: TunePrediction | None
    own_broken: list[Broken]
    broken: list[Broken]
    ruled_out: list[RuledOut]
    platform: str
    apply: str | None
    undo: str | None
    lines_notes: list[str]
    refused: list[Refused]
    crashes: list[Crash]
    wal_checks: list[WalCheck]
    hosts: OverHosts | None
    limits_now: list[LimitNow]
    flush: list[FlushGain]
    not_moved: list[NotMoved]
    steps: list[TuneStep]
    notes: list[str]
