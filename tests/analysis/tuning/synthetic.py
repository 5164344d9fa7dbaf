"""Synthetic response tables: made, not measured, so that the truth is known.

Each is a product of what settings would do on some machine, with interactions, plateaus and limits that bind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from bench.tune.table import Table
from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import Candidate, Factor, Objective, Promises, Scale, TuningPlan
from walproof.settings.durability import DurabilityClass

COMPRESSION = Factor("wal_compression", ("off", "lz4"), None, "off", "fresh")
SIZE = Factor("max_wal_size", ("1GB", "4GB", "16GB"), Scale.LOG, "1GB", "fresh")
DELAY = Factor("commit_delay", ("0", "100", "1000"), Scale.LOG, "0", "fresh")
BUFFERS = Factor("wal_buffers", ("16MB", "64MB"), Scale.LOG, "16MB", "fresh")
WRITER = Factor("wal_writer_delay", ("200ms", "1s"), Scale.LOG, "200ms", "fresh")
TARGET = Factor("checkpoint_completion_target", ("0.5", "0.9"), Scale.LINEAR, "0.9", "fresh")
FACTORS = (COMPRESSION, SIZE, DELAY, BUFFERS, TARGET)
"""72 points; without BUFFERS 36."""


def plan_of(factors: tuple[Factor, ...], *, trials: int, seed: int, **others: object) -> TuningPlan:
    """A tuning whose budget is so many trials of 20 s."""
    return TuningPlan(
        factors,
        {},
        others.pop("starts", ()),  # type: ignore[arg-type]
        Promises(DurabilityClass.NONE),
        others.pop("objective", Objective("tps", True)),  # type: ignore[arg-type]
        20.0 * trials,
        seed,
        **others,  # type: ignore[arg-type]
    )


def synthetic(
    factors: tuple[Factor, ...],
    log: Callable[[Mapping[str, str]], float],
    *,
    noise: float = 0.03,
    rounds: float = 0.05,
    breaks: Callable[[Mapping[str, str]], bool] = lambda values: False,
) -> Table:
    """A table from the logarithm of each point's value over the default's."""
    space = Space(plan_of(factors, trials=1, seed=1))
    chance = np.random.default_rng(1)
    truth: dict[Candidate, float] = {}
    ruled_out = set()
    for candidate in space.everything():
        values = space.values(candidate)
        truth[candidate] = 1000 * math.exp(log(values))
        if candidate.settings and breaks(values):
            ruled_out.add(candidate)
    single = chance.standard_normal(400) * noise
    shared = chance.standard_normal(400) * rounds
    return Table(factors, truth, frozenset(ruled_out), single - single.mean(), shared - shared.mean())


def limited(values: Mapping[str, str]) -> bool:
    """A limit on pg_wal that only compression keeps at the largest size."""
    return values["max_wal_size"] == "16GB" and values["wal_compression"] == "off"


def flat(values: Mapping[str, str]) -> float:
    """Nothing does anything."""
    return 0.0


def peaked(values: Mapping[str, str]) -> float:
    """Two settings that need each other, one with a top in the middle, one that does nothing."""
    size = {"1GB": 0.0, "4GB": 0.12, "16GB": 0.18}[values["max_wal_size"]]
    delay = {"0": 0.0, "100": 0.09, "1000": -0.15}[values["commit_delay"]]
    compressed = values["wal_compression"] == "lz4"
    log = size + delay
    if compressed:
        # What compression saves is images, of which there are fewer between far checkpoints.
        log += 0.10 - size / 3
    if compressed and values["commit_delay"] == "100":
        log += 0.05
    if values["checkpoint_completion_target"] == "0.5":
        log -= 0.04
    return log
