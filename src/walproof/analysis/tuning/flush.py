"""What would a faster flush give? The advised configuration on emulated disks, against the tuning's disk.

Each round runs the configuration on the tuning's own disk and on every emulated one, so every ratio is within
a round. On an emulated disk a flush takes exactly the time it is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.analysis.interval import Interval
from walproof.analysis.tuning.race import latest
from walproof.analysis.tuning.values import Values, compare
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, TuningFacts

DEVICES = ("flush=0.5ms", "flush=0.05ms", "flush=2ms")
"""A good cloud disk, a disk whose cache outlives a power cut, a poor disk; little time takes the first."""
OBJECTIVES = ("tps", "latency_ms_p99")
"""Objectives for which the time of a flush may matter."""


@dataclass(frozen=True, slots=True)
class FlushGain:
    """The gain of the configuration on one emulated disk."""

    device: str
    ratio: float
    """Objective over its value on the tuning's disk; above 1 is better."""
    interval: Interval | None
    rounds: int


def flush_gains(facts: TuningFacts) -> tuple[FlushGain, ...]:
    """The gain on each emulated disk; empty if that was not measured."""
    step = latest(facts, Purpose.FLUSH)
    if step is None:
        return ()
    sign = 1.0 if facts.plan.objective.larger_is_better else -1.0
    logs = {
        ((trial.step, trial.round), _as_candidate(trial.device)): sign * math.log(trial.value)
        for trial in facts.measured
        if trial.step == step.number and trial.value is not None and 0 < trial.value < math.inf
    }
    found = compare(Values(logs), [(_as_candidate(device), DEFAULT) for device in step.devices])
    return tuple(
        FlushGain(device, math.exp(contrast.mean), contrast.interval(), len(contrast.pairs))
        for device, contrast in zip(step.devices, found, strict=True)
        if contrast.mean is not None
    )


def _as_candidate(device: str | None) -> Candidate:
    """A disk as a candidate, so that disks are compared as configurations are."""
    return DEFAULT if device is None else Candidate.of({"device": device})
