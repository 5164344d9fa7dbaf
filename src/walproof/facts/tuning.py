"""A tuning: what was promised, which settings may move, what was asked of servers and what they answered.

A tuning is a row of steps. Each step that measures is an ordinary run in the store, so that its trials are
kept, resumed and shown like those of any other study; a tuning holds what was asked and what was answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from walproof.settings.durability import DurabilityClass


class Candidate(NamedTuple):
    """A configuration: what it sets over the base settings of the tuning, sorted by name."""

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
"""The candidate that sets nothing: every ratio is to it or to the incumbent."""


class Scale(Enum):
    """How the values between the ends of a factor's range are spaced."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Factor:
    """A setting that may move, and where."""

    setting: str
    choices: tuple[str, ...]
    """Values as they are written into a conf, the smallest first where they have an order. What is searched
    is this grid: a value between two of them is not worth a line of its own."""
    scale: Scale | None
    """How they are spaced; None: they have no order."""
    default: str
    """Value of the server without a line, in the form of ``choices``."""
    design: str
    """``toggled`` or ``fresh``: how it may be compared (settings/designs.csv)."""
    needs: tuple[tuple[str, str], ...] = ()
    """(setting, value) without which it does nothing."""


@dataclass(frozen=True, slots=True)
class Promises:
    """What every configuration that is run or advised has to keep."""

    may_lose: DurabilityClass
    recovery_target_s: float | None = None
    """Time away after a crash of the machine, at most."""
    wal_disk_bytes: int | None = None
    """Size of pg_wal, at most."""
    memory_bytes: int | None = None
    """What the server may take, at most; None: most of the machine's."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What is made better."""

    metric: str
    """Of facts/metrics.csv: ``tps``, ``latency_ms_p99``, ``wal_bytes_per_txn``."""
    larger_is_better: bool
    limit: tuple[str, float] | None = None
    """A second metric and the ratio to the default that it must not be worse than."""


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
    """Leave-one-out of the winner and add-one to the default."""
    FINAL = "final"
    """The short conf, the winner and the default with a seed that nothing was chosen by."""
    CRASH = "crash"
    """The winner is killed, to hold its predictions to what happens."""
    FLUSH = "flush"
    """What is advised on emulated disks: what would a faster flush give?"""


@dataclass(frozen=True, slots=True)
class Step:
    """What a search asks for: each candidate measured once a round, beside the others, in random order."""

    number: int
    """From 1."""
    purpose: Purpose
    candidates: tuple[Candidate, ...]
    """The first is what the others are compared with."""
    rounds: int
    seed: int
    design: str = "fresh"
    why: str = ""
    """A sentence for the page: ``wal_compression and commit_delay look useful; five values near them``."""
    devices: tuple[str, ...] = ()
    """Emulated disks on which its only candidate is measured as well, beside the tuning's disk."""
    as_recorded: bool = False
    """Whether the load before a crash has about as many transactions as the recording: what was simulated on
    it can be held against what is measured, whole checkpoint cycles included."""


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """What one trial of a step answered."""

    step: int
    round: int
    candidate: Candidate
    value: float | None
    """The objective, in its own unit; None: the trial failed."""
    limit_value: float | None = None
    """The second metric's."""
    failure: str | None = None
    seconds: float = 0.0
    """Wall time that the trial took."""
    host: str | None = None
    """That measured it, of a tuning over hosts: rounds of a step are numbered through all of its hosts, so a
    round, and with it every comparison, is one host's."""
    device: str | None = None
    """The emulated disk of this trial alone; None: the tuning's disk."""


class Limit(Enum):
    """What rules a candidate out before it is run."""

    MAY_LOSE = "may lose"
    RECOVERY_TARGET = "recovery target"
    WAL_DISK = "WAL disk"
    MEMORY = "memory"
    REFUSED = "refused by the server"


@dataclass(frozen=True, slots=True)
class CandidatePrediction:
    """What is known of a candidate without running it."""

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
    """With its unit, as it is printed."""
    allowed: str


class Judge(Protocol):
    """What a candidate is predicted to do, and which limits it would break; costs no trial."""

    def __call__(self, candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        """What is predicted, and what is broken; nothing is, where the second is empty."""


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """What was asked for; its hash names the tuning."""

    factors: tuple[Factor, ...]
    keep: Mapping[str, str]
    """Settings that every candidate has (``--keep``, the user's own conf)."""
    starts: tuple[Candidate, ...]
    """Configurations that are tried first: the user's own, pgtune's."""
    promises: Promises
    objective: Objective
    budget_s: float
    seed: int
    most_lines: int = 8
    margin: float = 0.02
    """A shorter conf may be worse by this share, at most."""


@dataclass(frozen=True, slots=True)
class TuningFacts:
    """A tuning as far as it has come: the only thing that a search is told."""

    plan: TuningPlan
    steps: tuple[Step, ...] = ()
    measured: tuple[TrialAnswer, ...] = ()
    spent_s: float = 0.0
    """Wall time of all steps, recording and preparing included."""
    trial_s: float | None = None
    """Wall time of a trial of the load, as far as is known."""
    notes: tuple[str, ...] = field(default=())

    def hosts(self, step: int) -> tuple[str, ...]:
        """Hosts that measured the step beside each other; none where this machine alone did."""
        found = (trial.host for trial in self.measured if trial.step == step)
        return tuple(dict.fromkeys(host for host in found if host is not None))


class Search(Protocol):
    """Says what to measure next: a function of the facts, so that what is resumed goes on as it began."""

    def ask(self, facts: TuningFacts) -> Step | None:
        """The next step, or None: the tuning is over."""
