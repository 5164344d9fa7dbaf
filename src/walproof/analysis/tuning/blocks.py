"""How do two candidates compare that seldom or never ran in the same round?

By way of the others: a value is the level of its round, plus what its candidate does, plus noise, and
generalized least squares over all rounds gives the ratio of any two candidates that a chain of shared rounds
connects. Levels are drawn, too: where a machine is as fast in one round as in another, values of different
rounds compare directly, and one noisy trial that links two rounds does not move everything else in them (the
recovery of inter-block information: Yates 1940). How much levels vary is weighed by the likelihood of what
the candidates leave over (Patterson and Thompson 1971), with a half-Cauchy prior on their spread in units of
the noise (Gelman 2006). Where levels vary much this becomes the comparison within rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walproof.analysis.interval import LEVEL, Interval, t_quantile
from walproof.analysis.tuning.values import Round, Values
from walproof.facts.tuning import Candidate

if TYPE_CHECKING:
    from walproof.analysis.tuning.values import Matrix

_ESTIMABLE = 1e-6
"""Largest error of a contrast's own equation that is rounding."""
_SPREADS = (0.05, 100.0, 23)
"""Standard deviations of rounds' levels that are weighed, in units of the noise: from, to, how many."""
_LEAST = 1e-18
"""Variance of logarithms below which values are equal."""


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


@dataclass(frozen=True, slots=True)
class _Fit:
    """The candidates' effects under one spread of the rounds' levels."""

    effects: Matrix
    inverse: Matrix
    """Covariance of the effects, in units of the noise's variance; (candidates, candidates)."""
    rest: Matrix
    """What effects and levels leave over of each value."""
    likely: float
    """Logarithm of the spread's posterior weight, but for a constant."""


class Blocks:
    """Fitted to all rounds of some values."""

    def __init__(self, values: Values) -> None:
        import numpy as np

        rounds = {number: column for column, number in enumerate(values.rounds)}
        self._columns = {each: at for at, each in enumerate(values.candidates)}
        self._keys = tuple(values.logs)
        logs = np.array(list(values.logs.values()))
        in_round = np.zeros((len(logs), len(rounds)))
        has = np.zeros((len(logs), len(self._columns)))
        for row, (number, each) in enumerate(self._keys):
            in_round[row, rounds[number]] = has[row, self._columns[each]] = 1.0
        # Within rounds: which candidates a chain connects, and how much a value varies.
        within = _weighed(has, in_round, math.inf)
        inner = within.T @ within
        self._inner, self._inverse = inner, np.linalg.pinv(inner, hermitian=True)
        self._degrees = len(logs) - len(rounds) - int(np.linalg.matrix_rank(inner, hermitian=True))
        noise = _weighed(logs, in_round, math.inf)
        noise = noise - within @ (self._inverse @ (within.T @ noise))
        self._variance = float(noise @ noise) / self._degrees if self._degrees else None
        first, last, count = _SPREADS
        spreads = np.geomspace(first, last, count).tolist() if len(logs) else []
        self._fits = [_fitted(logs, has, in_round, spread) for spread in spreads]
        best = max((fit.likely for fit in self._fits), default=0.0)
        weights = np.exp(np.array([fit.likely - best for fit in self._fits]))
        self._weights: Matrix = weights / weights.sum()

    def estimate(self, candidate: Candidate, base: Candidate) -> Estimate | None:
        """Log ratio of ``candidate`` to ``base``; None if no chain of rounds connects them."""
        import numpy as np

        if candidate == base or not {candidate, base} <= set(self._columns):
            return None
        wanted = np.zeros(len(self._inner))
        wanted[self._columns[candidate]], wanted[self._columns[base]] = 1.0, -1.0
        if np.abs(self._inner @ self._inverse @ wanted - wanted).max() > _ESTIMABLE:
            return None
        means = np.array([fit.effects @ wanted for fit in self._fits])
        mean = float(self._weights @ means)
        error = None
        if self._variance is not None:
            own = self._variance * np.array([wanted @ fit.inverse @ wanted for fit in self._fits])
            error = math.sqrt(float(self._weights @ (own + (means - mean) ** 2)))
        return Estimate(mean, error, self._degrees)

    def ratios(self, candidate: Candidate, base: Candidate) -> dict[Round, float]:
        """Log ratio to ``base`` that each trial of ``candidate`` says, given all others.

        Their mean is the estimate's. Empty if no chain of rounds connects the two.
        """
        found = self.estimate(candidate, base)
        if found is None:
            return {}
        rest = sum(weight * fit.rest for weight, fit in zip(self._weights, self._fits, strict=True))
        return {
            number: found.mean + float(over)
            for (number, each), over in zip(self._keys, rest, strict=True)
            if each == candidate
        }


def _fitted(logs: Matrix, has: Matrix, in_round: Matrix, spread: float) -> _Fit:
    """The fit with levels of that standard deviation, in units of the noise.

    ``has`` and ``in_round``: which candidate and which round each value is of; (values, candidates) and
    (values, rounds), 0 or 1.
    """
    import numpy as np

    inner = has.T @ _weighed(has, in_round, spread)
    inverse: Matrix = np.asarray(np.linalg.inv(inner), dtype=np.float64)
    effects: Matrix = inverse @ (has.T @ _weighed(logs, in_round, spread))
    over = logs - has @ effects
    rest = _weighed(over, in_round, spread)
    degrees = len(logs) - has.shape[1]
    likely = math.log(spread / (1 + spread**2))
    likely -= 0.5 * (
        float(np.log(1 + in_round.sum(axis=0) * spread**2).sum()) + float(np.linalg.slogdet(inner)[1])
    )
    if degrees:
        likely -= 0.5 * degrees * math.log(max(float(over @ rest) / degrees, _LEAST))
    return _Fit(effects, inverse, rest, likely)


def _weighed(values: Matrix, in_round: Matrix, spread: float) -> Matrix:
    """Values without that part of their round's sum that is its level, by the spread of levels: the values'
    inverse covariance times them. Of an infinite spread that is their round's mean."""
    levels = (in_round.T @ values).T / (spread**-2 + in_round.sum(axis=0))
    found: Matrix = values - in_round @ levels.T
    return found
