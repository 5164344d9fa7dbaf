"""Which configuration is the best so far, and what races it next?

A step of the race has the incumbent, one nominee and a few new candidates. The incumbent is the measured
candidate that is guessed best from everything measured so far. A guess shrinks what few trials say towards
what other candidates with the same lines say, so that luck alone does not make an incumbent (the optimizer's
curse, and this remedy: Smith and Winkler 2006). The nominee is the best guess of all others, measured or not.
The new candidates are those most likely to be better still (expected improvement; Jones, Schonlau and Welch
1998), one of them proposed by TPE. A candidate whose interval lies below the incumbent is dropped (racing:
Maron and Moore 1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from walproof.analysis.tuning.blocks import Blocks, Estimate
from walproof.analysis.tuning.model import Model
from walproof.analysis.tuning.propose import SECOND, proposals, rebuilt
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import Values, limit_values, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningFacts

if TYPE_CHECKING:
    from walproof.analysis.tuning.model import Matrix

DROP_LEVEL = 0.9
"""Level of the interval that drops a candidate when it lies below the incumbent."""
WORTH = 0.003
"""Guessed gain, as a logarithm, below which no nominee is worth a trial."""
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


@dataclass(frozen=True, slots=True)
class RaceBatch:
    """What should race next."""

    candidates: tuple[Candidate, ...]
    """Incumbent, nominee, new candidates."""
    gains: tuple[float, ...]
    """Guessed log ratio of each to the incumbent."""


def replay(facts: TuningFacts) -> Race:
    """The state of the race, from its steps alone.

    A default that breaks a promise is never the incumbent, unless nothing else was measured.
    """
    failed = _failed(facts)
    values = searching_values(facts)
    space = Space(facts.plan)
    racing = [candidate for candidate in values.candidates if candidate not in failed]
    beyond = second_limit(facts, searching_steps(facts))
    able = [
        candidate
        for candidate in racing
        if space.holds(candidate)
        and (beyond(candidate) or 0) <= 0
        and not (candidate == DEFAULT and facts.is_default_ruled_out)
    ] or [DEFAULT]
    means = Model(space, values).guess(able).means.tolist()
    best = max(range(len(able)), key=lambda at: means[at])
    incumbent = able[best] if means[best] > 0 or facts.is_default_ruled_out else DEFAULT
    blocks = Blocks(values)
    below = {candidate for candidate in racing if _is_below(blocks.estimate(candidate, incumbent))}
    return Race(incumbent, frozenset(failed | below))


def _is_below(found: Estimate | None) -> bool:
    interval = None if found is None else found.interval(DROP_LEVEL)
    return interval is not None and interval.high < 1


def second_limit(
    facts: TuningFacts, steps: Sequence[int] | None = None
) -> Callable[[Candidate], float | None]:
    """How far a candidate's second metric is beyond its limit, by the named steps or by all.

    The answer is a logarithm, below 0 within the limit; None for the default, and where it is not known.
    """
    objective = facts.plan.objective
    if objective.limit is None:
        return lambda candidate: None
    blocks = Blocks(limit_values(facts, steps))

    def beyond(candidate: Candidate) -> float | None:
        found = blocks.estimate(candidate, DEFAULT)
        return None if found is None else objective.beyond(found.mean)

    return beyond


def keeps_second(facts: TuningFacts, space: Space, steps: Sequence[int]) -> Callable[[Candidate], bool]:
    """Whether a candidate's second metric is within its limit, by the named steps.

    Of a candidate that they did not measure it is guessed from what they measured of others.
    """
    objective = facts.plan.objective
    if objective.limit is None:
        return lambda candidate: True
    beyond = second_limit(facts, steps)
    model = Model(space, limit_values(facts, steps))

    def keeps(candidate: Candidate) -> bool:
        by = beyond(candidate)
        if by is None:
            by = objective.beyond(model.guess([candidate]).means.tolist()[0])
        return candidate == DEFAULT or by <= 0

    return keeps


def batch(
    facts: TuningFacts, space: Space, admits: Callable[[Candidate], bool], count: int, seed: int
) -> RaceBatch | None:
    """At most ``count`` candidates for the next step of the race; None if nothing is worth a trial."""
    race = replay(facts)
    values = searching_values(facts)
    model = Model(space, values)
    beyond = second_limit(facts)

    def runs(candidate: Candidate) -> bool:
        return candidate not in race.dropped and admits(candidate) and (beyond(candidate) or 0) <= 0

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
    level = max(0.0, means[nominee])
    gains = _expected(guess.means - level, guess.sds).tolist()
    chosen = [best]
    order = sorted(range(len(pool)), key=lambda at: (-gains[at], pool[at]))
    promising = takewhile(lambda at: gains[at] >= STALE, order)
    if means[nominee] < WORTH and not any(runs(pool[at]) for at in promising):
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


def searching_values(facts: TuningFacts) -> Values:
    """Everything that was measured to choose the winner."""
    return objective_values(facts, searching_steps(facts))


def searching_steps(facts: TuningFacts) -> list[int]:
    """Numbers of the steps that choose the winner."""
    return [step.number for step in facts.steps if step.purpose in (Purpose.SCREEN, Purpose.SEARCH)]


def _failed(facts: TuningFacts) -> set[Candidate]:
    """Candidates that never worked, except in a toggled screen whose only start failed with all of them."""
    worked = [trial for trial in facts.measured if trial.value is not None]
    answered = {trial.step for trial in worked}
    lost = {
        step.number
        for step in facts.steps
        if step.purpose is Purpose.SCREEN and step.design == "toggled" and step.number not in answered
    }
    failed = {
        trial.candidate
        for trial in facts.measured
        if trial.value is None and trial.device is None and trial.step not in lost
    }
    return failed - {trial.candidate for trial in worked} - {DEFAULT}


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
    beyond = second_limit(facts)
    constraints = {candidate: {SECOND: by} for candidate in known if (by := beyond(candidate)) is not None}
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
