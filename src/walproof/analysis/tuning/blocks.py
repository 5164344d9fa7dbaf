"""How do two candidates compare that seldom or never ran in the same round?

By way of the others: a value is the level of its round, plus what its candidate does, plus noise; least
squares over all rounds gives the ratio of any two candidates that a chain of shared rounds connects. That is
the intra-block analysis of incomplete blocks (Yates 1936; Cochran and Cox, "Experimental Designs", 1957).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.analysis.interval import LEVEL, Interval, t_quantile
from walproof.analysis.tuning.values import Round, Values
from walproof.facts.tuning import Candidate

_ESTIMABLE = 1e-6
"""Largest error of a contrast's own equation that is rounding."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A log ratio."""

    mean: float
    error: float | None
    """Standard error; None without degrees of freedom."""
    degrees: int

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Interval of the ratio (not its logarithm); None without degrees of freedom."""
        if self.error is None:
            return None
        reach = t_quantile(level, self.degrees) * self.error
        return Interval(self.mean - reach, self.mean + reach, level, "t").exp()


class Blocks:
    """Fitted to all rounds of some values."""

    def __init__(self, values: Values) -> None:
        import numpy as np

        rounds = {number: column for column, number in enumerate(values.rounds)}
        self._columns = {each: len(rounds) + at for at, each in enumerate(values.candidates)}
        design = np.zeros((len(values.logs), len(rounds) + len(self._columns)))
        for row, (number, each) in enumerate(values.logs):
            design[row, rounds[number]] = design[row, self._columns[each]] = 1.0
        self._inner = design.T @ design
        self._inverse = np.linalg.pinv(self._inner, hermitian=True)
        logs = np.array(list(values.logs.values()))
        self._effects = self._inverse @ design.T @ logs
        self._degrees = len(logs) - int(np.linalg.matrix_rank(self._inner, hermitian=True))
        rest = logs - design @ self._effects
        self._rest = {key: float(value) for key, value in zip(values.logs, rest, strict=True)}
        self._variance = float(rest @ rest) / self._degrees if self._degrees else None

    def estimate(self, candidate: Candidate, base: Candidate) -> Estimate | None:
        """Log ratio of ``candidate`` to ``base``; None if no chain of rounds connects them."""
        import numpy as np

        if candidate == base or not {candidate, base} <= set(self._columns):
            return None
        wanted = np.zeros(len(self._inner))
        wanted[self._columns[candidate]], wanted[self._columns[base]] = 1.0, -1.0
        if np.abs(self._inner @ self._inverse @ wanted - wanted).max() > _ESTIMABLE:
            return None
        error = None
        if self._variance is not None:
            error = math.sqrt(self._variance * float(wanted @ self._inverse @ wanted))
        return Estimate(float(wanted @ self._effects), error, self._degrees)

    def ratios(self, candidate: Candidate, base: Candidate) -> dict[Round, float]:
        """Log ratio to ``base`` that each trial of ``candidate`` says, given all others.

        Their mean is the estimate's. Empty if no chain of rounds connects the two.
        """
        found = self.estimate(candidate, base)
        if found is None:
            return {}
        return {number: found.mean + rest for (number, each), rest in self._rest.items() if each == candidate}
