"""Ratios of two cells within the rounds that have both, and how sure their mean is.

Which cells are compared is the caller's: variants with their baseline, installs with the first one, a batch
size with the next smaller. Comparisons that are asked for together share what is known about the spread
(:mod:`walproof.analysis.inference.spread`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from walproof.analysis.inference.spread import Spread, spreads
from walproof.analysis.interval import LEVEL, Interval, t_p_value, t_quantile
from walproof.analysis.rounds import index_trials, positive_metric, rounds_of
from walproof.facts import Cell, Trial


@dataclass(frozen=True, slots=True)
class Pair:
    """Both trials of a round."""

    round: int
    ratio: float
    trial: int
    baseline_trial: int

    @property
    def log(self) -> float:
        """Natural logarithm of the ratio."""
        return math.log(self.ratio)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A cell compared with its baseline."""

    cell: Cell
    baseline: Cell
    pairs: tuple[Pair, ...]
    begun: int
    """Rounds with a trial of the cell; those without a pair are left out."""
    spread: Spread | None
    """None for fewer than two pairs."""

    @property
    def mean(self) -> float | None:
        """Mean of the log ratios; None without pairs."""
        return fmean(pair.log for pair in self.pairs) if self.pairs else None

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Interval of the ratio, the geometric mean over rounds."""
        mean, spread = self.mean, self.spread
        if mean is None or spread is None:
            return None
        reach = t_quantile(level, spread.degrees) * math.sqrt(spread.variance / len(self.pairs))
        return Interval(mean - reach, mean + reach, level, "t").exp()

    @property
    def p(self) -> float | None:
        """p value of "the ratio is 1"."""
        mean, spread = self.mean, self.spread
        if mean is None or spread is None:
            return None
        error = math.sqrt(spread.variance / len(self.pairs))
        if error == 0:
            # Equal but for rounding.
            return 1.0 if abs(mean) < 1e-12 else 0.0
        return t_p_value(mean / error, spread.degrees)


def contrasts(
    cells: Sequence[tuple[Cell, Cell]], trials: Sequence[Trial], metric: str
) -> tuple[Contrast, ...]:
    """One for each ``(cell, its baseline)``, all of one workload, so that it may be put together.

    Raises AnalysisError when a round holds a cell twice.
    """
    index, rounds = index_trials(trials), rounds_of(trials)
    found = [_pairs(pair, index, rounds, metric) for pair in cells]
    if all(len(pairs) < 2 for pairs, _ in found):
        known: Sequence[Spread | None] = [None] * len(cells)
    else:
        known = _spreads(cells, index, rounds, metric)
    return tuple(
        Contrast(cell, baseline, pairs, begun, spread)
        for (cell, baseline), (pairs, begun), spread in zip(cells, found, known, strict=True)
    )


def _pairs(
    cells: tuple[Cell, Cell], index: Mapping[tuple[int, Cell], Trial], rounds: Sequence[int], metric: str
) -> tuple[tuple[Pair, ...], int]:
    pairs: list[Pair] = []
    begun = 0
    for number in rounds:
        trial, other = (index.get((number, cell)) for cell in cells)
        # A round without a trial of the cell is no loss: it was interrupted and goes on at resume, or it has
        # few cells, as those have that a sweep adds.
        begun += trial is not None
        value, reference = positive_metric(trial, metric), positive_metric(other, metric)
        if trial is not None and other is not None and value is not None and reference is not None:
            pairs.append(Pair(number, value / reference, trial.number, other.number))
    return tuple(pairs), begun


def _spreads(
    cells: Sequence[tuple[Cell, Cell]],
    index: Mapping[tuple[int, Cell], Trial],
    rounds: Sequence[int],
    metric: str,
) -> Sequence[Spread | None]:
    import numpy as np

    rows = {cell: row for row, cell in enumerate(dict.fromkeys(cell for pair in cells for cell in pair))}
    logs = np.full((len(rows), len(rounds)), np.nan)
    for cell, row in rows.items():
        for column, number in enumerate(rounds):
            value = positive_metric(index.get((number, cell)), metric)
            if value is not None:
                logs[row, column] = math.log(value)
    return spreads(logs, [(rows[cell], rows[baseline]) for cell, baseline in cells])
