"""What a server's checkpoints should be set to, from simulated servers."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.analysis.whatif_answer import answer, fits
from walproof.analysis.whatif_slope import size_mb
from walproof.settings.change import Change

WORTH = 0.1
"""Share of the WAL that a larger max_wal_size has to save before it is advised."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a server's checkpoints should be set to."""

    prediction: ServerPrediction
    """With these settings."""
    size_mb: int
    needed_mb: int | None
    """The size that the rate of WAL needs, which limits may have made smaller; None where simulated cycles
    decide."""
    changes: tuple[Change, ...]
    is_within: bool
    """Whether these keep within the limits; if nothing does, they are the nearest."""


def choice(study: Study, limits: ServerLimits) -> Choice | None:
    """Settings that keep within the limits, or save a tenth of the WAL; None where none is better."""
    present, found = study.present, answer(study, limits)
    simulated = found.simulated
    saved = 1 - simulated.wal_bytes / present.wal_bytes if present.wal_bytes else 0.0
    if simulated.target == present.target or (saved < WORTH and fits(present, limits)):
        return None
    now, then = present.target, found.prediction.target
    size, timeout_s = size_mb(found.prediction), then.checkpoint_timeout_s
    changes = settings(
        size if size != now.max_wal_size_mb else None,
        timeout_s if timeout_s != now.checkpoint_timeout_s else None,
    )
    return Choice(found.prediction, size, found.needed_mb, changes, found.is_within) if changes else None


def settings(size_mb: int | None, timeout_s: int | None) -> tuple[Change, ...]:
    """The changes that set these; None is not set."""
    changes = []
    if size_mb is not None:
        changes.append(Change("max_wal_size", say_size(size_mb)))
    if timeout_s is not None:
        changes.append(
            Change("checkpoint_timeout", f"{timeout_s // 60}min" if timeout_s % 60 == 0 else f"{timeout_s}s")
        )
    return tuple(changes)


def say_size(size_mb: int) -> str:
    """A size as postgresql.conf takes it."""
    return f"{size_mb // 1024}GB" if size_mb % 1024 == 0 else f"{size_mb}MB"
