"""What may be worth a trial? Optuna's multivariate TPE proposes, from a study rebuilt from the facts.

The study lives for one question. Every measured candidate is a finished trial of it, whose value is the mean
log ratio to the default. A candidate that a limit rules out is reported as breaking a constraint, so that the
sampler keeps away from it (TPE with constraints: Watanabe and Hutter 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import Candidate

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

BROKEN = "promise"
"""Name of the constraint that is above 0 for a candidate that the judge rules out."""
SECOND = "second metric"
"""Name of the constraint on the second metric: its log ratio to the limit."""
_START_UP = 6
"""Finished trials before TPE's model is used."""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Each searched factor for Optuna: numbers of its choices if they have an order, else the choices."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    for name in space.searched:
        factor = space.factors[name]
        if factor.scale is None:
            found[name] = CategoricalDistribution(factor.choices)
        else:
            found[name] = IntDistribution(0, len(factor.choices) - 1)
    return found


def parameters(space: Space, candidate: Candidate) -> dict[str, str | int]:
    """The candidate as parameters of those distributions."""
    values = space.values(candidate)
    return {
        name: values[name]
        if space.factors[name].scale is None
        else space.factors[name].choices.index(values[name])
        for name in space.searched
    }


def rebuilt(
    space: Space,
    logs: Mapping[Candidate, float],
    constraints: Mapping[Candidate, Mapping[str, float]],
    seed: int,
) -> optuna.Study:
    """A study in memory with a finished trial for each candidate."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=_START_UP),
    )
    kinds = distributions(space)
    for candidate, log in logs.items():
        if math.isfinite(log) and space.holds(candidate):
            study.add_trial(
                optuna.trial.create_trial(
                    params=parameters(space, candidate),
                    distributions=kinds,
                    value=log,
                    constraints=dict(constraints.get(candidate, {})) or None,
                )
            )
    return study


def proposals(
    study: optuna.Study, space: Space, admits: Callable[[Candidate], bool], tries: int
) -> Iterator[Candidate]:
    """Candidates that TPE proposes in ``tries`` tries, each once, without those that are ruled out."""
    import optuna

    kinds = distributions(space)
    seen: set[Candidate] = set()
    for _ in range(tries):
        trial = study.ask(kinds)
        values = {
            name: str(value) if space.factors[name].scale is None else space.factors[name].choices[int(value)]
            for name, value in trial.params.items()
        }
        candidate = space.candidate(values)
        fine = admits(candidate)
        if not fine:
            trial.set_constraint(BROKEN, 1.0)
        study.tell(trial, state=optuna.trial.TrialState.PRUNED if not fine else optuna.trial.TrialState.FAIL)
        if fine and candidate not in seen:
            seen.add(candidate)
            yield candidate
