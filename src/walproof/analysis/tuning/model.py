"""What is a configuration that was never run likely to do? Sums of the effects of factors and of pairs.

A Gaussian process with an additive kernel (Duvenaud, Nickisch and Rasmussen 2011): each factor has an effect
on the logarithm, each pair of factors a smaller additional one, and both are 0 at the default, so that a line
has to show that it does something. Every round has its own level, as in a comparison within rounds.

The model says what to measure next and what leads meanwhile, and may keep a line that a short test would give
back. Conclusions rest on comparisons within fresh rounds (:mod:`.values`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from walproof.analysis.tuning.space import Space, places
from walproof.analysis.tuning.values import Values
from walproof.facts.tuning import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float64]

_REACH = 0.5
"""Reach of an ordered factor's kernel, as a share of its range: neighbours are alike, the ends hardly."""
_NOISE = (0.01, 0.02, 0.035, 0.06, 0.1)
_MAIN = (0.03, 0.08, 0.2)
_PAIRS = (0.15, 0.5)
"""Sizes that are tried: noise and factors' effects as logarithms, pairs' effects as shares of factors'."""
_ROUND = 0.5
"""Standard deviation of a round's level: so large that rounds are compared within themselves."""
_TYPICAL_NOISE, _NOISE_SPREAD = 0.03, 0.7
"""Noise assumed before anything is known, and the spread of its logarithm."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Guessed log ratios of some candidates to the default or another base, with standard deviations."""

    means: Matrix
    sds: Matrix


class Model:
    """Fitted to everything measured so far."""

    def __init__(self, space: Space, values: Values) -> None:
        import numpy as np

        self._kernels = [_kernel(space, name) for name in space.factors]
        self._space = space
        known = [(number, candidate) for number, candidate in values.logs if space.holds(candidate)]
        known.sort(key=lambda key: (key[0], key[1].settings))
        self._codes = self._code([candidate for _, candidate in known])
        rounds = np.array([values.rounds.index(number) for number, _ in known], dtype=int)
        logs = np.array([values.logs[key] for key in known])
        self._same = (rounds[:, None] == rounds[None, :]).astype(float)
        for number in set(rounds.tolist()):
            logs[rounds == number] -= logs[rounds == number].mean()
        self._logs = logs
        self._main, self._pairs, self.noise = self._fitted()
        inner = self._covariance(self._codes, self._codes) + self._blur(self.noise)
        self._inverse = np.linalg.inv(inner) if len(logs) else np.zeros((0, 0))
        self._weights = self._inverse @ logs

    def guess(self, candidates: Sequence[Candidate], base: Candidate | None = None) -> Guess:
        """Log ratio of each candidate to ``base`` (by default the default), and how uncertain it is."""
        import numpy as np

        codes = self._code(candidates)
        cross = self._covariance(codes, self._codes)
        variance = self._diagonal(codes)
        if base is not None:
            base_codes = self._code([base])
            other = self._covariance(base_codes, self._codes)
            variance = (
                variance + self._diagonal(base_codes)[0] - 2 * self._covariance(codes, base_codes)[:, 0]
            )
            cross = cross - other
        means = cross @ self._weights
        variance = variance - np.einsum("ij,jk,ik->i", cross, self._inverse, cross)
        return Guess(means, np.sqrt(np.maximum(variance, 1e-12)))

    def _code(self, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        import numpy as np

        codes = [self._space.code(candidate) for candidate in candidates]
        return np.array(codes, dtype=np.int64).reshape(len(candidates), len(self._kernels))

    def _parts(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
        """Kernels of single factors and of pairs, each of size 1."""
        import numpy as np

        total = np.zeros((len(rows), len(columns)))
        squares = np.zeros_like(total)
        for index, kernel in enumerate(self._kernels):
            part = kernel[rows[:, index][:, None], columns[:, index][None, :]]
            total += part
            squares += part**2
        return total, (total**2 - squares) / 2

    def _covariance(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Matrix:
        single, pairs = self._parts(rows, columns)
        return self._main**2 * (single + self._pairs**2 * pairs)

    def _diagonal(self, codes: NDArray[np.int64]) -> Matrix:
        import numpy as np

        parts = np.array(
            [kernel[codes[:, index], codes[:, index]] for index, kernel in enumerate(self._kernels)]
        )
        total, squares = parts.sum(axis=0), (parts**2).sum(axis=0)
        variance: Matrix = self._main**2 * (total + self._pairs**2 * (total**2 - squares) / 2)
        return variance

    def _blur(self, noise: float) -> Matrix:
        import numpy as np

        blur: Matrix = _ROUND**2 * self._same + noise**2 * np.eye(len(self._same))
        return blur

    def _fitted(self) -> tuple[float, float, float]:
        """The sizes under which the values are most likely."""
        import numpy as np

        if not len(self._logs):
            return _MAIN[1], _PAIRS[0], _TYPICAL_NOISE
        single, pairs = self._parts(self._codes, self._codes)
        found = []
        for main in _MAIN:
            for share in _PAIRS:
                inner = main**2 * (single + share**2 * pairs)
                for noise in _NOISE:
                    lower = np.linalg.cholesky(inner + self._blur(noise))
                    rest = np.linalg.solve(lower, self._logs)
                    likely = -0.5 * float(rest @ rest) - float(np.log(np.diag(lower)).sum())
                    likely -= 0.5 * (np.log(noise / _TYPICAL_NOISE) / _NOISE_SPREAD) ** 2
                    found.append((likely, main, share, noise))
        return max(found)[1:]


def _kernel(space: Space, name: str) -> Matrix:
    """How alike the effects of one factor's choices are, as (choices, choices); 0 at the default."""
    import numpy as np

    factor = space.factors[name]
    at = np.array(places(factor))
    if factor.scale is None:
        kernel = np.eye(len(at))
    else:
        kernel = np.exp(-(((at[:, None] - at[None, :]) / _REACH) ** 2) / 2)
    base = factor.choices.index(factor.default)
    anchored: Matrix = (kernel - kernel[:, [base]] - kernel[[base], :] + kernel[base, base]) / 2
    return anchored
