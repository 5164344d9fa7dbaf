"""What walproof's search is held against: random search, and Optuna's TPE as it comes.

Both run one trial a question and answer with the configuration whose trials have the best mean. Neither is
told what the limits rule out before it has run it: then the candidate counts as measured and is not advised.
Both are told not to repeat a point before the grid was seen (a gift: Optuna's own TPE would).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import fmean

import numpy as np
import optuna

from bench.tune.table import Table
from walproof.analysis.tuning.propose import distributions
from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningPlan


def random_search(table: Table, plan: TuningPlan, trials: int) -> Iterator[Candidate]:
    """The answer after each trial: the grid in random order, again and again."""
    chance = np.random.default_rng(plan.seed)
    points = list(table.truth)

    def order() -> Iterator[Candidate]:
        while True:
            for index in chance.permutation(len(points)):
                yield points[index]

    points_in_order = order()
    yield from _answers(table, plan, trials, lambda told: next(points_in_order), lambda candidate, log: None)


def plain_tpe(table: Table, plan: TuningPlan, trials: int) -> Iterator[Candidate]:
    """The answer after each trial of Optuna's sampler with its own settings."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Space(plan)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=plan.seed))
    kinds = distributions(space)
    asked: list[optuna.Trial] = []

    def ask(told: dict[Candidate, list[float]]) -> Candidate:
        for left in reversed(range(20)):
            trial = study.ask(kinds)
            candidate = space.candidate(
                {
                    name: str(value)
                    if space.factors[name].scale is None
                    else space.factors[name].choices[int(value)]
                    for name, value in trial.params.items()
                }
            )
            if candidate not in told or len(told) == len(table.truth) or not left:
                break
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        asked.append(trial)
        return candidate

    def tell(candidate: Candidate, log: float) -> None:
        trial = asked[-1]
        trial.set_constraint("limits", 1.0 if candidate in table.ruled_out else -1.0)
        study.tell(trial, log)

    yield from _answers(table, plan, trials, ask, tell)


def _answers(
    table: Table,
    plan: TuningPlan,
    trials: int,
    ask: Callable[[dict[Candidate, list[float]]], Candidate],
    tell: Callable[[Candidate, float], None],
) -> Iterator[Candidate]:
    told: dict[Candidate, list[float]] = {}
    for number in range(1, trials + 1):
        candidate = ask(told)
        step = Step(number, Purpose.SEARCH, (candidate,), 1, plan.seed * 100_003 + number)
        log = math.log(table.trial(candidate, step, 1))
        told.setdefault(candidate, []).append(log)
        tell(candidate, log)
        allowed = [point for point in told if point not in table.ruled_out]
        yield max(allowed, key=lambda point: fmean(told[point])) if allowed else DEFAULT
