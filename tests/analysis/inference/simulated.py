"""Runs whose truth is known: log values of cells by round, in which nothing differs.

Every ratio is 1, so an interval of a log ratio is right when it holds 0, and a family when it calls none
different. Deterministic: the same seed, the same runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from walproof.analysis.inference.family import Compared, family_p_values
from walproof.analysis.inference.spread import Pooling, spreads
from walproof.analysis.interval import t_p_value, t_quantile

Shape = Literal["normal", "heavy", "dips"]


@dataclass(frozen=True)
class Scenario:
    """How the trials of a made run vary."""

    name: str
    cells: int
    """The first is the baseline."""
    rounds: int
    factors: tuple[tuple[int, float], ...] = ()
    """(cell, how many times the others' standard deviation it varies by)."""
    shape: Shape = "normal"
    round_noise: float = 2.0
    drift: float = 0.0
    """Of the machine from trial to trial, in standard deviations; orders within rounds are random."""
    missing: float = 0.0
    """Share of trials that failed."""


@dataclass(frozen=True)
class Outcome:
    """What many runs of a scenario came to."""

    coverage: float
    """Of single intervals, over all ratios."""
    worst: float
    """Of the ratio whose intervals hold the truth least often."""
    family: float
    """Share of runs in which nothing was called different."""
    width: float
    """Median half-width relative to that of paired t intervals."""


def runs_of(scenario: Scenario, runs: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Log values, a row a cell and a column a round; NaN for failed trials."""
    chance = np.random.default_rng(seed)
    shape = (scenario.cells, scenario.rounds)
    sizes = np.ones(scenario.cells)
    for cell, factor in scenario.factors:
        sizes[cell] = factor
    for _ in range(runs):
        if scenario.shape == "heavy":
            noise = chance.standard_t(3, shape) / np.sqrt(3)
        else:
            noise = chance.standard_normal(shape)
        if scenario.shape == "dips":
            noise = noise - 4.0 * (chance.random(shape) < 0.1)
        places = np.array([chance.permutation(scenario.cells) for _ in range(scenario.rounds)]).T
        when = places + scenario.cells * np.arange(scenario.rounds)
        logs = noise * sizes[:, None] + scenario.drift * when
        logs = logs + scenario.round_noise * chance.standard_normal(scenario.rounds)
        logs[chance.random(shape) < scenario.missing] = np.nan
        yield logs


def outcome(scenario: Scenario, runs: int, seed: int = 1) -> Outcome:
    """Coverage and width over so many runs."""
    pairs = [(cell, 0) for cell in range(1, scenario.cells)]
    held: list[list[bool]] = [[] for _ in pairs]
    calm, widths, paired = [], [], []
    for logs in runs_of(scenario, runs, seed):
        family = []
        for index, spread in enumerate(spreads(logs, pairs)):
            ratios = logs[index + 1] - logs[0]
            ratios = ratios[np.isfinite(ratios)]
            if spread is None:
                continue
            error, mean = float(np.sqrt(spread.variance / len(ratios))), float(ratios.mean())
            reach = t_quantile(0.95, spread.degrees) * error
            held[index].append(abs(mean) <= reach)
            widths.append(reach)
            standard_error = float(ratios.std(ddof=1)) / np.sqrt(len(ratios))
            paired.append(t_quantile(0.95, len(ratios) - 1) * standard_error)
            share = spread.shared * (len(ratios) / scenario.rounds) ** 2
            p = t_p_value(mean / error, spread.degrees)
            family.append(Compared(p, spread.degrees, 0, share, spread.pooling is not Pooling.OWN))
        calm.append(_is_calm(family))
    every = [value for row in held for value in row]
    return Outcome(
        coverage=float(np.mean(every)),
        worst=min(float(np.mean(row)) for row in held),
        family=float(np.mean(calm)),
        width=float(np.median(widths) / np.median(paired)),
    )


def _is_calm(family: Sequence[Compared]) -> bool:
    """Whether nothing is called different: the smallest p value is the first to be."""
    if not family:
        return True
    least = min(compared.p for compared in family)
    return (
        min(
            family_p_values(
                [compared if compared.p == least else replace(compared, p=1.0) for compared in family]
            )
        )
        > 0.05
    )


def scenarios(cells: int, rounds: int) -> Sequence[Scenario]:
    """Equal spreads, and all that can be wrong with them."""
    last = cells - 1
    spread = tuple((cell, 2 ** (-1 + 2 * cell / last)) for cell in range(cells))
    return (
        Scenario("equal", cells, rounds),
        Scenario("heavy tails (t, 3 degrees)", cells, rounds, shape="heavy"),
        Scenario("one trial in ten lower by four", cells, rounds, shape="dips"),
        Scenario("drift", cells, rounds, drift=0.05),
        Scenario("one trial in ten failed", cells, rounds, missing=0.1),
        Scenario("baseline twice the others", cells, rounds, factors=((0, 2.0),)),
        Scenario("baseline three times", cells, rounds, factors=((0, 3.0),)),
        Scenario("one variant twice", cells, rounds, factors=((last, 2.0),)),
        Scenario("one variant three times", cells, rounds, factors=((last, 3.0),)),
        Scenario("one variant a third", cells, rounds, factors=((last, 1 / 3),)),
        Scenario("from a half to twice", cells, rounds, factors=spread),
    )
