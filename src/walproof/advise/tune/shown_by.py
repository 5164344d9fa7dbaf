"""By what is the effect of a setting known: by windows, by simulation, or by neither?"""

from __future__ import annotations

from enum import Enum

from walproof.settings.tuning import movables
from walproof.wal.whatif_target import SETTINGS

OF_DISTANCE = frozenset({"max_wal_size", "checkpoint_timeout", "checkpoint_completion_target"})
"""Settings of how far checkpoints are apart. A crash shows what they do to the time away only after a whole
checkpoint cycle, which the window of a trial is not."""


OVER_CYCLES = ("recovery_s", "wal_bytes_per_txn")
"""Metrics that a window shows only in part: it comes soon after a checkpoint, and a crash at its end leaves
little to replay, while most changes are the first ones of their page."""


class ShownBy(Enum):
    """What shows all that a setting does."""

    WINDOWS = "windows"
    SIMULATION = "simulation"
    """It acts at checkpoints, and simulation knows it."""
    NOTHING = "nothing"
    """It acts at checkpoints, which windows show only if one falls into them, and no simulation knows it."""


def shown_by(setting: str) -> ShownBy:
    """What shows all that the setting does."""
    row = movables().get(setting)
    if row is None or not row.acts_at_checkpoints:
        return ShownBy.WINDOWS
    return ShownBy.SIMULATION if setting in SETTINGS else ShownBy.NOTHING
