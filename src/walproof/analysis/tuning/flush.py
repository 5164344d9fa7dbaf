"""What would a faster flush give? The advised configuration on emulated disks, against the tuning's disk.

Each round has the configuration on the tuning's own disk and on every emulated one, so a ratio is one within
a round. On an emulated disk a flush takes the time that it is given, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.analysis.interval import LEVEL, Interval
from walproof.analysis.tuning.race import latest
from walproof.analysis.tuning.values import Values, compare
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, TuningFacts

DEVICES = ("flush=0.5ms", "flush=0.05ms", "flush=2ms")
"""A good disk of a cloud, one with a cache that outlives a power cut, a poor one; the first ones first."""
OBJECTIVES = ("tps", "latency_ms_p99")
"""For which the time of a flush may matter."""


@dataclass(frozen=True, slots=True)
class FlushGain:
    """What one emulated disk makes of the configuration."""

    device: str
    ratio: float
    """Of the objective to that on the tuning's disk, above 1: better."""
    interval: Interval | None
    rounds: int


def flush_gains(facts: TuningFacts, level: float = LEVEL) -> tuple[FlushGain, ...]:
    """Of each emulated disk; empty where that was not measured."""
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
        FlushGain(device, math.exp(contrast.mean), contrast.interval(level), len(contrast.pairs))
        for device, contrast in zip(step.devices, found, strict=True)
        if contrast.mean is not None
    )


def _as_candidate(device: str | None) -> Candidate:
    """Disks in place of configurations."""
    return DEFAULT if device is None else Candidate.of({"device": device})
