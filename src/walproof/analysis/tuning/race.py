"""Which configuration is the best so far, and what races it next?

A step of the race has the incumbent, one nominee and a few new candidates. The nominee is the best guess from
everything measured so far; it becomes the incumbent when the rounds *since it was nominated* say that it is
better, so that the luck that got it nominated does not count twice. The new candidates are those most likely
to be better still (expected improvement; Jones, Schonlau and Welch 1998), one of them proposed by TPE.
A candidate whose interval lies below the incumbent is dropped (racing: Maron and Moore 1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from walproof.analysis.contrast import Contrast
from walproof.analysis.tuning.model import Model
from walproof.analysis.tuning.propose import SECOND, proposals, rebuilt
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import Values, contrast, limit_values, mean_log, objective_values, pooled
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningFacts

if TYPE_CHECKING:
    from walproof.analysis.tuning.model import Matrix

PROMOTE_P = 0.1
"""One-sided p value on fresh rounds below which a nominee becomes the incumbent."""
DROP_LEVEL = 0.9
"""Level of the interval that drops a candidate when it lies below the incumbent."""
WORTH = 0.003
"""Guessed gain, as a logarithm, below which no nominee is worth a trial."""
NEARLY = 0.01
"""How far below the best guess, as a logarithm, a nominee may be and still go on."""
STALE = 0.002
"""Expected improvement, as a logarithm, below which nothing new is worth a trial."""
GRID_MOST = 512
"""Most points of a grid that is looked at as a whole."""
_TPE_TRIES = 12
_TPE_WANTED = 6
"""TPE's proposals for a large grid; a grid that is looked at as a whole takes one."""


@dataclass(frozen=True, slots=True)
class Race:
    """Where the race stands."""

    incumbent: Candidate
    dropped: frozenset[Candidate]
    promotions: tuple[tuple[int, Contrast], ...]
    """(step, comparison with the previous incumbent) of each change of the incumbent, in order."""


@dataclass(frozen=True, slots=True)
class RaceBatch:
    """What should race next."""

    candidates: tuple[Candidate, ...]
    """Incumbent, nominee, new candidates."""
    gains: tuple[float, ...]
    """Guessed log ratio of each to the incumbent."""


def replay(facts: TuningFacts) -> Race:
    """The state of the race, from its steps alone."""
    incumbent, dropped = DEFAULT, set(_failed(facts))
    promotions: list[tuple[int, Contrast]] = []
    bases = [DEFAULT]
    since: dict[tuple[Candidate, Candidate], set[int]] = {}
    for step in (taken for taken in facts.steps if taken.purpose is Purpose.SEARCH):
        values = objective_values(facts, _searching(facts, step.number))
        spread = pooled(values, bases)
        if spread is None or len(step.candidates) < 2:
            continue
        nominee = step.candidates[1]
        numbers = since.setdefault((nominee, incumbent), set())
        numbers.add(step.number)
        fresh = contrast(values.within(lambda at, on=numbers: at[0] in on), nominee, incumbent, spread)  # type: ignore[misc]
        for candidate in step.candidates[1:]:
            whole = contrast(values, candidate, incumbent, spread)
            interval = whole.interval(DROP_LEVEL) if whole.pairs else None
            if interval is not None and interval.high < 1:
                dropped.add(candidate)
        if is_better(fresh, PROMOTE_P) and keeps_second(facts, nominee):
            promotions.append((step.number, fresh))
            incumbent = nominee
            bases.append(nominee)
            dropped.discard(nominee)
    return Race(incumbent, frozenset(dropped), tuple(promotions))


def is_better(found: Contrast, p: float) -> bool:
    """Whether the candidate is better, by a one-sided test."""
    return found.mean is not None and found.mean > 0 and found.p is not None and found.p / 2 <= p


def keeps_second(facts: TuningFacts, candidate: Candidate) -> bool:
    """Whether the second metric, as far as it was measured, is within its limit."""
    broken = second_broken(facts, candidate)
    return broken is None or broken <= 0


def second_broken(facts: TuningFacts, candidate: Candidate) -> float | None:
    """Logarithm of how far the second metric is beyond its limit; below 0 if within, None if unknown."""
    limit = facts.plan.objective.limit
    if limit is None or candidate == DEFAULT:
        return None
    values = limit_values(facts)
    log = mean_log(values, candidate, DEFAULT)
    if log is None:
        log = _across(values, candidate)
    if log is None:
        return None
    # A limit below 1 belongs to a metric of which more is better: it must not fall below the limit.
    return log - math.log(limit[1]) if limit[1] >= 1 else math.log(limit[1]) - log


def _across(values: Values, candidate: Candidate) -> float | None:
    """Log ratio to the default by way of a third candidate that was measured beside both."""
    found = [
        first + second
        for third in values.candidates
        if (first := mean_log(values, candidate, third)) is not None
        and (second := mean_log(values, third, DEFAULT)) is not None
    ]
    return found[0] if found else None


def batch(
    facts: TuningFacts, space: Space, admits: Callable[[Candidate], bool], count: int, seed: int
) -> RaceBatch | None:
    """At most ``count`` candidates for the next step of the race; None if nothing is worth a trial."""
    race = replay(facts)
    values = objective_values(facts, _searching(facts))
    model = Model(space, values)

    def runs(candidate: Candidate) -> bool:
        return candidate not in race.dropped and admits(candidate) and keeps_second(facts, candidate)

    proposed = _proposed(facts, space, model, values, runs, seed)
    pool = _pool(facts, space, race, model, proposed)
    guess = model.guess(pool, race.incumbent)
    means = guess.means.tolist()
    nominee = _first(pool, sorted(range(len(pool)), key=lambda at: (-means[at], pool[at])), runs)
    if nominee is None:
        return None
    best = simplified(space, model, pool[nominee], runs)
    if best == race.incumbent:
        best = pool[nominee]
    undecided = _undecided(facts, race)
    if undecided in pool and runs(undecided):
        # It stays the nominee while it is nearly the best guess, so that its rounds add up.
        mean = means[pool.index(undecided)]
        if mean > 0 and mean > model.guess([best], race.incumbent).means[0] - NEARLY:
            best = undecided
    level = max(0.0, means[nominee])
    gains = _expected(guess.means - level, guess.sds).tolist()
    chosen = [best]
    order = sorted(range(len(pool)), key=lambda at: (-gains[at], pool[at]))
    if means[nominee] < WORTH and gains[order[0]] < STALE:
        return None
    for at in order:
        if len(chosen) >= count - 2:
            break
        if gains[at] >= STALE and pool[at] not in (*chosen, race.incumbent) and runs(pool[at]):
            chosen.append(pool[at])
    chosen += [candidate for candidate in proposed if candidate not in (*chosen, race.incumbent)][
        : count - 1 - len(chosen)
    ]
    shown = (race.incumbent, *chosen)
    return RaceBatch(shown, tuple(model.guess(shown, race.incumbent).means.tolist()))


def simplified(
    space: Space,
    model: Model,
    candidate: Candidate,
    admits: Callable[[Candidate], bool],
    most: int | None = None,
) -> Candidate:
    """The candidate without lines whose guessed gain is within its uncertainty, and with at most ``most``."""
    while candidate.settings:
        fewer = [space.without(candidate, name) for name, _ in candidate.settings]
        fewer = [shorter for shorter in fewer if admits(shorter)]
        if not fewer:
            break
        guess = model.guess(fewer, candidate)
        # Each line's gain beyond its uncertainty: a line that may do nothing has to come back on its merits.
        losses = (-guess.means - guess.sds).tolist()
        least = min(range(len(fewer)), key=lambda at: (losses[at], fewer[at]))
        if losses[least] > 0 and (most is None or len(candidate.settings) <= most):
            break
        candidate = fewer[least]
    return candidate


def _undecided(facts: TuningFacts, race: Race) -> Candidate:
    """The last step's nominee if it still races the incumbent that it raced then; else the default."""
    step = latest(facts, Purpose.SEARCH)
    if step is None or len(step.candidates) < 2 or step.candidates[0] != race.incumbent:
        return DEFAULT
    return step.candidates[1]


def _searching(facts: TuningFacts, until: int | None = None) -> list[int]:
    """Steps on which a choice may rest."""
    return [
        step.number
        for step in facts.steps
        if step.purpose in (Purpose.SCREEN, Purpose.SEARCH) and (until is None or step.number <= until)
    ]


def searching_values(facts: TuningFacts) -> Values:
    """Everything that was measured to choose the winner."""
    return objective_values(facts, _searching(facts))


def _failed(facts: TuningFacts) -> set[Candidate]:
    worked = {trial.candidate for trial in facts.measured if trial.value is not None}
    failed = {trial.candidate for trial in facts.measured if trial.value is None and trial.device is None}
    return failed - worked - {DEFAULT}


def _proposed(
    facts: TuningFacts,
    space: Space,
    model: Model,
    values: Values,
    runs: Callable[[Candidate], bool],
    seed: int,
) -> list[Candidate]:
    """New candidates of TPE, in its order."""
    known = [candidate for candidate in values.candidates if space.holds(candidate)]
    logs = dict(zip(known, model.guess(known).means.tolist(), strict=True)) if known else {}
    constraints = {
        candidate: {SECOND: broken}
        for candidate in known
        if (broken := second_broken(facts, candidate)) is not None
    }
    study = rebuilt(space, logs, constraints, seed)
    new = (candidate for candidate in proposals(study, space, runs, _TPE_TRIES) if candidate not in logs)
    return list(islice(new, 1 if space.size <= GRID_MOST else _TPE_WANTED))


def _pool(
    facts: TuningFacts, space: Space, race: Race, model: Model, proposed: Sequence[Candidate]
) -> list[Candidate]:
    """Candidates that may be chosen: the whole grid if it is small, else the neighbours of good ones."""
    measured = [candidate for candidate in values_candidates(facts) if space.holds(candidate)]
    pool: dict[Candidate, None] = dict.fromkeys([*measured, *proposed])
    if space.size <= GRID_MOST:
        pool.update(dict.fromkeys(space.everything()))
        near: Iterable[Candidate] = (race.incumbent,)
    else:
        means = model.guess(measured).means.tolist()
        best = [candidate for _, candidate in sorted(zip(means, measured, strict=True), reverse=True)[:3]]
        near = [race.incumbent, *best]
        near += [_climbed(space, model, candidate) for candidate in near]
    for candidate in near:
        pool[candidate] = None
        pool.update(dict.fromkeys(space.neighbours(candidate)))
    return [candidate for candidate in pool if candidate != race.incumbent]


def values_candidates(facts: TuningFacts) -> list[Candidate]:
    """Every candidate that was measured to choose the winner, each once."""
    return list(searching_values(facts).candidates)


def _climbed(space: Space, model: Model, candidate: Candidate) -> Candidate:
    """A local maximum of the model's guess: move one factor at a time to its best choice until none helps."""
    for _ in range(10):
        around = [candidate, *space.neighbours(candidate)]
        means = model.guess(around).means.tolist()
        best = around[max(range(len(around)), key=lambda at: means[at])]
        if best == candidate:
            break
        candidate = best
    return candidate


def _first(pool: Sequence[Candidate], order: Iterable[int], runs: Callable[[Candidate], bool]) -> int | None:
    return next((at for at in order if runs(pool[at])), None)


def _expected(means: Matrix, sds: Matrix) -> Matrix:
    """Expected improvement above 0 of normal guesses."""
    import numpy as np
    from scipy.special import ndtr

    z = means / sds
    found: Matrix = means * ndtr(z) + sds * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return found


def latest(facts: TuningFacts, purpose: Purpose) -> Step | None:
    """The last step of that purpose."""
    return next((step for step in reversed(facts.steps) if step.purpose is purpose), None)
