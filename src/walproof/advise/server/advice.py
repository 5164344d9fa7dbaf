"""What a rule finds: that a change is advised, that all is well, or that it could not look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from walproof.advise.server.case import ServerCase
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.settings.change import Change
from walproof.settings.durability import DurabilityClass


class Weight(StrEnum):
    """How much a piece of advice matters, in this order."""

    DANGER = "danger"
    """Data or the service is at stake."""
    GAIN = "gain"
    """Less work, less WAL or a shorter recovery."""
    EVIDENCE = "evidence"
    """The next look will see more."""


class Sure(StrEnum):
    """How sure a piece of advice is."""

    HIGH = "high"
    """It follows from what was seen."""
    MEDIUM = "medium"
    """It holds if the window is like other times."""
    LOW = "low"
    """The window was short, or something that matters could not be seen."""


@dataclass(frozen=True, slots=True)
class AdvisedFigure:
    """A figure of this server now and after the change, with the range in which it is expected."""

    name: str
    """``WAL``, ``full-page images``, ``pg_wal at most``, ``recovery reads at most``, ..."""
    unit: str
    """``bytes/h``, ``bytes``, ``s``, ``/h``."""
    now: float | None
    then: float
    low: float | None = None
    high: float | None = None


def wal_figure(study: Study, chosen: ServerPrediction) -> AdvisedFigure:
    """The WAL of now beside that of a simulated server."""
    unit = "bytes" if study.hours is None else "bytes/h"
    span = chosen.wal_span
    return AdvisedFigure("WAL", unit, study.present.wal_bytes, chosen.wal_bytes, span.low, span.high)


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that is advised, and why."""

    rule: str
    weight: Weight
    title: str
    """What to do, in the imperative."""
    evidence: tuple[str, ...]
    """Sentences with this server's own figures."""
    changes: tuple[Change, ...] = ()
    steps: tuple[str, ...] = ()
    """SQL or other lines, if the change is not one of settings."""
    figures: tuple[AdvisedFigure, ...] = ()
    costs: tuple[str, ...] = ()
    """What it costs or risks."""
    durability: DurabilityClass = DurabilityClass.NONE
    """What a crash may cost if the advice is followed."""
    sure: Sure = Sure.HIGH
    unknown: tuple[str, ...] = ()
    """What the rule could not know."""
    benefit: float = 0.0
    """Orders advice of the same weight: bytes of WAL that it saves each hour."""


@dataclass(frozen=True, slots=True)
class Fine:
    """The rule looked and found nothing to change."""

    rule: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """The rule could not look."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The rule had nothing to look at."""

    rule: str
    reason: str


Found: TypeAlias = Advice | Fine | Unseen
Rule: TypeAlias = Callable[[ServerCase], Found | None]
"""None if the rule has no object: slots on a server without any, settings that the version does not have."""
