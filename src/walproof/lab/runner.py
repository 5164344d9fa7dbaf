"""The conductor: runs a plan's rounds from the first missing trial to the last, storing each as it ends."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

from walproof.facts import Plan, Run, Series, Trial
from walproof.lab.design import round_order
from walproof.lab.schedule import Enough, Progress, RoundCells
from walproof.lab.trial import TrialOrder

RunOne = Callable[[TrialOrder], tuple[Trial, tuple[Series, ...]]]
"""Runs one trial: what goes wrong with it is in its facts."""


class TrialStore(Protocol):
    """Where trials of a run are stored: a `Store`, or what goes on while one is away (`KeptTrials`)."""

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """Every trial that is stored."""

    def add_trial(self, run_id: str, trial: Trial, series: Sequence[Series] = ()) -> None:
        """Store a finished trial."""

    def finish_run(self, run_id: str) -> None:
        """Store that no round is missing."""


def conduct(
    store: TrialStore, run: Run, run_one: RunOne, cells_of: RoundCells, enough: Enough, progress: Progress
) -> None:
    """Run what is missing of ``run``. A trial is stored when it ends, so an interruption loses one at most.

    ``run_one`` runs a trial; ``cells_of`` says which cells a round has; after every whole round ``enough``
    and the budget are asked.
    Raises StoreError.
    """
    plan = run.plan
    done = list(store.trials(run.id))
    progress.run_started(run, done, plan.trials_most)
    for round_number in itertools.count(1):
        wanted = set(cells_of(round_number, [trial for trial in done if trial.round < round_number]))
        if not wanted:
            break
        wanted -= {trial.cell for trial in done if trial.round == round_number}
        order = [cell for cell in round_order(plan.cells, plan.seed, round_number) if cell in wanted]
        if order and not _affordable(plan, done, round_number):
            break
        for cell in order:
            number = max((trial.number for trial in done), default=0) + 1
            progress.trial_started(number, round_number, cell)
            is_first = all(before.cell != cell for before in done)
            trial, series = run_one(TrialOrder(number, round_number, *cell, is_first=is_first))
            store.add_trial(run.id, trial, series)
            done.append(trial)
            progress.trial_ended(trial)
        if order:
            progress.round_ended(done)
        if round_number < plan.rounds and enough([t for t in done if t.round <= round_number]):
            break
    store.finish_run(run.id)


def _affordable(plan: Plan, done: Sequence[Trial], round_number: int) -> bool:
    """Whether a round as long as the longest so far still fits into the budget. The first always does."""
    if plan.budget_s is None or round_number == 1:
        return True
    lengths: dict[int, float] = defaultdict(float)
    for trial in done:
        lengths[trial.round] += trial.ended_at - trial.started_at
    left_of_round = max(lengths.values()) - lengths.get(round_number, 0.0)
    return sum(lengths.values()) + left_of_round <= plan.budget_s
