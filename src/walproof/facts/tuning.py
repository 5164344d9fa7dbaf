"""A tuning: what was promised, which settings may move, what was asked of servers and what they answered.

A tuning is a sequence of steps. Each step that measures is an ordinary run in the store, so that its trials
are kept, resumed and shown like those of any other study; the tuning holds the questions and the answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from walproof.settings.durability import DurabilityClass


class Candidate(NamedTuple):
    """A configuration: the settings, sorted by name, that it adds to the base settings of the tuning."""

    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Candidate:
        """The candidate with those settings."""
        return cls(tuple(sorted(settings.items())))

    @property
    def conf(self) -> dict[str, str]:
        """Its settings by name."""
        return dict(self.settings)


DEFAULT = Candidate(())
"""The candidate that sets nothing. Every ratio is to this candidate or to the incumbent, also where it breaks
a promise."""
STOPPED = "Stopped on request"
"""How the note of a tuning begins that somebody ended before it was over."""
NO_EMULATED_DISK = "No disk could be emulated"
"""How the note of a tuning begins whose last step had nothing to run on."""


class Scale(Enum):
    """How the values between the ends of a factor's range are spaced."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Factor:
    """A setting that may move, and the values that it may take."""

    setting: str
    choices: tuple[str, ...]
    """Values as they are written into a conf, the smallest first if they have an order. Only this grid is
    searched: a value between two of them is not worth trying."""
    scale: Scale | None
    """How the choices are spaced; None if they have no order."""
    default: str
    """The server's value without a line, in the form of ``choices``."""
    design: str
    """``toggled`` or ``fresh``: how it may be compared (settings/designs.csv)."""
    needs: tuple[tuple[str, str], ...] = ()
    """(setting, value) pairs without which the factor does nothing."""
    capped_by: str | None = None
    """Setting whose value is the most that the factor acts with, if there is one."""


@dataclass(frozen=True, slots=True)
class Promises:
    """Limits that every configuration that is run or advised has to keep."""

    may_lose: DurabilityClass
    recovery_target_s: float | None = None
    """Longest time away after a crash of the machine."""
    wal_disk_bytes: int | None = None
    """Largest size of pg_wal."""
    memory_bytes: int | None = None
    """Most memory that the server may take; None: most of the machine's."""


LARGER_IS_BETTER: Mapping[str, bool] = {
    "tps": True,
    "latency_ms_p99": False,
    "wal_bytes_per_txn": False,
    "recovery_s": False,
}
"""Metrics that a tuning can be for, or keep within a limit, and whether more of each is better."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The metric to improve."""

    metric: str
    """A metric of facts/metrics.csv: ``tps``, ``latency_ms_p99``, ``wal_bytes_per_txn``."""
    larger_is_better: bool
    limit: tuple[str, float] | None = None
    """A second metric, and the worst ratio to the default that is allowed."""

    @property
    def metrics(self) -> frozenset[str]:
        """What a trial has to measure for it: the metric, and that of the limit."""
        return frozenset((self.metric, *(() if self.limit is None else (self.limit[0],))))

    @property
    def is_limit_least(self) -> bool:
        """Whether the limit is the least that is allowed, as more of the second metric is better."""
        return self.limit is not None and LARGER_IS_BETTER[self.limit[0]]

    @property
    def limit_words(self) -> str:
        """``at most 1.1 of the defaults'``; empty without a limit."""
        if self.limit is None:
            return ""
        return f"at {'least' if self.is_limit_least else 'most'} {self.limit[1]:g} of the defaults'"

    def beyond(self, log_ratio: float) -> float:
        """How far the second metric's log ratio to the default is beyond its limit; below 0 within it."""
        if self.limit is None:
            return -math.inf
        over = log_ratio - math.log(self.limit[1])
        return -over if self.is_limit_least else over


class Purpose(Enum):
    """Why a step is taken."""

    RECORD = "record"
    """The load is recorded once, under the default."""
    SCREEN = "screen"
    SEARCH = "search"
    """A race of new candidates against the incumbent."""
    CONFIRM = "confirm"
    """The incumbent and the default on fresh starts."""
    LINES = "lines"
    """The winner without each of its lines, and the default with each of them."""
    FINAL = "final"
    """The short conf with and without each line, the winner and the default, with a seed by which nothing was
    chosen."""
    CRASH = "crash"
    """The winner is killed, to compare its predictions with what happens."""
    FLUSH = "flush"
    """The advised configuration on emulated disks: what would a faster flush give?"""


@dataclass(frozen=True, slots=True)
class Step:
    """What a search asks for: in every round each candidate is measured once, in random order."""

    number: int
    """From 1."""
    purpose: Purpose
    candidates: tuple[Candidate, ...]
    """The others are compared with the first."""
    rounds: int
    seed: int
    design: str = "fresh"
    why: str = ""
    """A sentence for the page: ``wal_compression and commit_delay look useful; five values near them``."""
    devices: tuple[str, ...] = ()
    """Emulated disks on which the only candidate is measured in addition to the tuning's disk."""
    as_recorded: bool = False
    """Whether the load before a crash has about as many transactions as the recording. The simulation can
    then be compared with what is measured, including whole checkpoint cycles."""
    is_default_ruled_out: bool = False
    """Whether the default breaks a promise: it is run to compare others with it, and is never the answer."""


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """The answer of one trial of a step."""

    step: int
    round: int
    candidate: Candidate
    value: float | None
    """The objective, in its own unit; None if the trial failed."""
    limit_value: float | None = None
    """Value of the second metric."""
    failure: str | None = None
    seconds: float = 0.0
    """Wall time that the trial took."""
    host: str | None = None
    """Host that measured it, in a tuning over hosts. Rounds are numbered across all hosts of a step, so that
    a round, and with it every comparison, belongs to one host."""
    device: str | None = None
    """Emulated disk of this trial; None for the tuning's disk."""


class Limit(Enum):
    """What rules a candidate out before it is run."""

    MAY_LOSE = "may lose"
    RECOVERY_TARGET = "recovery target"
    WAL_DISK = "WAL disk"
    MEMORY = "memory"
    REFUSED = "refused by the server"
    PLATFORM = "no line for the platform"
    """Refused there, or not in the list that walproof knows: the reason says which."""


@dataclass(frozen=True, slots=True)
class CandidatePrediction:
    """What is known about a candidate without running it."""

    wal_bytes_per_txn: float | None
    pg_wal_bytes: float | None
    """Largest size of pg_wal."""
    recovery_s: float | None
    recovery_low_s: float | None = None
    recovery_high_s: float | None = None


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A limit that a candidate would break."""

    limit: Limit
    predicted: str
    """Prediction with its unit, as it is printed."""
    allowed: str


class Judge(Protocol):
    """Predicts what a candidate would do and which limits it would break, without a trial."""

    def __call__(self, candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        """The prediction, and the limits that would be broken, if any."""


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """What a tuning was asked for. Its hash names the tuning."""

    factors: tuple[Factor, ...]
    keep: Mapping[str, str]
    """Settings that every candidate has (from ``--keep`` and the user's conf)."""
    starts: tuple[Candidate, ...]
    """Configurations that are tried first: the user's and pgtune's."""
    promises: Promises
    objective: Objective
    budget_s: float
    seed: int
    most_lines: int = 8
    margin: float = 0.02
    """Largest share by which a shorter conf may be worse."""
    own: Candidate | None = None
    """The user's own configuration, one of ``starts``: what is advised is compared with it, too."""


@dataclass(frozen=True, slots=True)
class TuningFacts:
    """A tuning as far as it has come. A search is told nothing else."""

    plan: TuningPlan
    steps: tuple[Step, ...] = ()
    measured: tuple[TrialAnswer, ...] = ()
    spent_s: float = 0.0
    """Wall time so far: of all steps, recording and preparing included, and of what was computed between."""
    trial_s: float | None = None
    """Wall time of a trial of the load, if known."""
    notes: tuple[str, ...] = field(default=())
    answer_s: float = 0.0
    """Wall time that making the last answer will take, if known."""

    @property
    def is_default_ruled_out(self) -> bool:
        """Whether the default is only what others are compared with, as far as the steps say."""
        return any(step.is_default_ruled_out for step in self.steps)

    def hosts(self, step: int) -> tuple[str, ...]:
        """Hosts that measured the step in parallel; empty if this machine alone did."""
        found = (trial.host for trial in self.measured if trial.step == step)
        return tuple(dict.fromkeys(host for host in found if host is not None))


class Search(Protocol):
    """Says what to measure next, from the facts alone, so that a resumed tuning goes on as it began."""

    def ask(self, facts: TuningFacts) -> Step | None:
        """The next step; None if the tuning is over."""
