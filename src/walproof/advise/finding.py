"""A finding: one sentence about the trials, with what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from walproof.settings.durability import DurabilityClass


class FindingKind(Enum):
    """What a finding is about."""

    EFFECT = "effect"
    """The variant against the baseline; names the durability class first where it risks data."""
    FAILURE = "failure"
    """Trials that failed."""
    FLUSH = "flush"
    """Commits wait for the WAL flush."""
    LOCK = "lock"
    """Transactions wait for a row lock, and how much of a gain is due to it."""
    CPU = "cpu"
    """The processors are the limit."""
    OTHERS = "others"
    """The processors are busy with other programs."""
    STEAL = "steal"
    """The hypervisor gave the processors to someone else."""
    DISK = "disk"
    """The disk is the limit, outside commits."""
    IDLE = "idle"
    """The server waits for the load generator between statements."""
    WAIT = "wait"
    """Backends wait for something else."""
    WAL = "wal"
    """How the variant changes the WAL volume."""
    CHECKPOINT = "checkpoint"
    """Whether checkpoints fell into the windows."""
    DRIFT = "drift"
    """How steady the machine was."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, about one cell or the whole run, with its evidence."""

    kind: FindingKind
    install: str | None
    """None, with the two below, when the finding is about the whole run."""
    workload: str | None
    variant: str | None
    durability: DurabilityClass | None
    """Class of the variant; None for the whole run."""
    sentence: str
    """Plain text; states the risk first where committed data is at risk."""
    trials: tuple[int, ...]
    """Numbers of the trials that it rests on."""
    metrics: Mapping[str, float]
    """The figures that it rests on: mean over the trials, named as in the facts."""
