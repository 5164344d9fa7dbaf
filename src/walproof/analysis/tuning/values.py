"""Measured values as logarithms, larger always better, and comparisons of two candidates within rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from walproof.analysis.contrast import Contrast, Pair
from walproof.analysis.inference.spread import Pooling, Spread, spreads
from walproof.facts import Cell
from walproof.facts.tuning import Candidate, Purpose, Step, TrialAnswer, TuningFacts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float64]

FEW_DEGREES = 4
"""Degrees of freedom of a comparison's own noise below which the noise of the whole tuning is used."""
Round: TypeAlias = tuple[int, int]
"""(step, round in it)."""


@dataclass(frozen=True, slots=True)
class Values:
    """Logarithms by round and candidate."""

    logs: dict[tuple[Round, Candidate], float]

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Every round, in order."""
        return tuple(sorted({key[0] for key in self.logs}))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate, in the order of first measurement."""
        return tuple(dict.fromkeys(candidate for _, candidate in sorted(self.logs, key=lambda key: key[0])))

    def ratios(self, candidate: Candidate, base: Candidate) -> dict[Round, float]:
        """Log ratio of the two in each round that has both; above 0 if the candidate is better."""
        return {
            number: self.logs[number, candidate] - self.logs[number, base]
            for number in self.rounds
            if (number, candidate) in self.logs and (number, base) in self.logs
        }

    def within(self, keep: Callable[[Round], bool]) -> Values:
        """The values of the rounds that ``keep`` accepts."""
        return Values({key: value for key, value in self.logs.items() if keep(key[0])})


def objective_values(facts: TuningFacts, steps: Iterable[int] | None = None) -> Values:
    """The objective's values, of the named steps or of all. Failed trials have none."""
    sign = 1.0 if facts.plan.objective.larger_is_better else -1.0
    return Values(_logs(facts, steps, lambda trial: trial.value, sign))


def limit_values(facts: TuningFacts, steps: Iterable[int] | None = None) -> Values:
    """The second metric's values, without a change of sign."""
    return Values(_logs(facts, steps, lambda trial: trial.limit_value, 1.0))


def _logs(
    facts: TuningFacts, steps: Iterable[int] | None, get: Callable[[TrialAnswer], float | None], sign: float
) -> dict[tuple[Round, Candidate], float]:
    wanted = None if steps is None else set(steps)
    found: dict[tuple[Round, Candidate], float] = {}
    for trial in facts.measured:
        value = get(trial)
        if trial.device is not None:
            continue  # another disk says nothing about settings
        if (wanted is None or trial.step in wanted) and value is not None and 0 < value < math.inf:
            found[(trial.step, trial.round), trial.candidate] = sign * math.log(value)
    return found


def compare(values: Values, pairs: Sequence[tuple[Candidate, Candidate]]) -> tuple[Contrast, ...]:
    """The contrast of each pair ``(candidate, base)``, with the spread that all pairs together show."""
    import numpy as np

    rounds = values.rounds
    rows = list(dict.fromkeys(candidate for pair in pairs for candidate in pair))
    logs = np.full((len(rows), len(rounds)), np.nan)
    for row, candidate in enumerate(rows):
        for column, number in enumerate(rounds):
            logs[row, column] = values.logs.get((number, candidate), np.nan)
    known: Sequence[Spread | None] = [None] * len(pairs)
    if any(len(values.ratios(*pair)) >= 2 for pair in pairs):
        known = spreads(logs, [(rows.index(candidate), rows.index(base)) for candidate, base in pairs])
    return tuple(
        contrast(values, candidate, base, spread)
        for (candidate, base), spread in zip(pairs, known, strict=True)
    )


def contrast(values: Values, candidate: Candidate, base: Candidate, spread: Spread | None) -> Contrast:
    """The contrast of two candidates, with a spread that is known already."""
    order = {number: index for index, number in enumerate(values.rounds, start=1)}
    ratios = values.ratios(candidate, base)
    pairs = tuple(Pair(order[number], math.exp(log), 0, 0) for number, log in ratios.items())
    begun = sum((number, candidate) in values.logs for number in order)
    return Contrast(_cell(candidate), _cell(base), pairs, begun, spread)


def pooled(values: Values, bases: Sequence[Candidate]) -> Spread | None:
    """How much a log ratio varies in one round, from every pair with two rounds; None without such a pair.

    If candidates contradict a common spread, their spreads are averaged by degrees of freedom.
    """
    pairs = [
        (candidate, base)
        for base in dict.fromkeys(bases)
        for candidate in values.candidates
        if candidate != base and len(values.ratios(candidate, base)) >= 2
    ]
    if not pairs:
        return None
    found = [comparison.spread for comparison in compare(values, pairs) if comparison.spread is not None]
    common = [spread for spread in found if spread.pooling is not Pooling.OWN]
    if common:
        return common[0]
    degrees = sum(spread.degrees for spread in found)
    if degrees <= 0:
        return None
    variance = sum(spread.variance * spread.degrees for spread in found) / degrees
    return Spread(variance, degrees, Pooling.OWN, 0.0)


def compared_in(
    facts: TuningFacts, step: Step, pairs: Sequence[tuple[Candidate, Candidate]]
) -> tuple[Contrast, ...]:
    """The contrasts of a step's pairs, by the rule of all that is said of a step.

    Where their own rounds are too few to show how much they vary, and contradict each other, that is taken
    from all fresh trials of the tuning up to the step.
    """
    found = compare(objective_values(facts, [step.number]), pairs)
    if not any(_is_unsure(comparison) for comparison in found):
        return found
    noise = _noise(facts, step)
    if noise is None:
        return found
    spread = Spread(noise.variance, noise.degrees, Pooling.ALL, 0.5)
    return tuple(
        replace(comparison, spread=spread) if _is_unsure(comparison) else comparison for comparison in found
    )


def _is_unsure(comparison: Contrast) -> bool:
    """Whether its spread is that of its own few rounds."""
    spread = comparison.spread
    return spread is not None and spread.pooling is Pooling.OWN and spread.degrees < FEW_DEGREES


def _noise(facts: TuningFacts, step: Step) -> Spread | None:
    """How much a ratio varies from round to round, from all fresh trials of the tuning up to that step."""
    numbers = [
        earlier.number
        for earlier in facts.steps
        if earlier.number <= step.number
        and earlier.design == "fresh"
        and earlier.purpose not in (Purpose.RECORD, Purpose.CRASH, Purpose.FLUSH)
    ]
    bases = [earlier.candidates[0] for earlier in facts.steps if earlier.number in numbers]
    return pooled(objective_values(facts, numbers), bases)


def mean_log(values: Values, candidate: Candidate, base: Candidate) -> float | None:
    """Mean log ratio over the rounds that have both."""
    ratios = values.ratios(candidate, base)
    return fmean(ratios.values()) if ratios else None


def _cell(candidate: Candidate) -> Cell:
    return Cell("", "", written(candidate))


def written(candidate: Candidate) -> str:
    """``commit_delay=100 wal_compression=lz4``, or ``default``."""
    return " ".join(f"{name}={value}" for name, value in candidate.settings) or "default"
