"""The conductor: runs a plan's rounds from the first missing trial to the last, storing each as it ends."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from walproof.facts import Plan, Run, Series, Trial, TrialState
from walproof.facts.run import BegunTrial, next_round_s
from walproof.lab.design import round_order
from walproof.lab.hearing import Hearing, Requests
from walproof.lab.schedule import Enough, Progress, RoundCells
from walproof.lab.trial import TrialOrder

FUTILE_ROUNDS = 2
"""So many rounds in which every trial failed end a run: the next would fail, too."""

RunOne = Callable[[TrialOrder], tuple[Trial, tuple[Series, ...]]]
"""Runs one trial; what goes wrong with it is in its facts."""


class TrialStore(Requests, Protocol):
    """Where trials of a run are stored: a `Store`, or its stand-in while a store is away (`KeptTrials`)."""

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """Every trial that is stored."""

    def begin_trial(self, run_id: str, begun: BegunTrial) -> None:
        """Store that a trial begins, for those who look on."""

    def add_trial(self, run_id: str, trial: Trial, series: Sequence[Series] = ()) -> None:
        """Store a finished trial."""

    def finish_run(self, run_id: str) -> None:
        """Record that no round is missing."""


def conduct(
    store: TrialStore, run: Run, run_one: RunOne, cells_of: RoundCells, enough: Enough, progress: Progress
) -> None:
    """Run what is missing of ``run``. A trial is stored when it ends, so an interruption loses at most one.

    ``run_one`` runs a trial; ``cells_of`` says which cells a round has; after every whole round ``enough``
    and the budget are asked; a run whose first rounds failed altogether ends. What is asked of the run
    meanwhile is heard before every trial: a stop ends it there; rounds that were granted follow when it would
    end by itself, with every cell, whatever the budget.
    Raises StoreError.
    """
    plan = run.plan
    done = list(store.trials(run.id))
    hearing = Hearing(store, run, progress)
    progress.run_started(run, done, hearing.trials_most)
    is_over = False
    added = 0
    for round_number in itertools.count(1):
        hearing.listen()
        before = [trial for trial in done if trial.round < round_number]
        wanted = set() if is_over else set(cells_of(round_number, before))
        if not wanted or not _affordable(plan, before):
            if hearing.is_stopped or added >= hearing.rounds_more:
                break
            is_over, added = True, added + 1
            wanted = set(plan.round_cells(1))
        wanted -= {trial.cell for trial in done if trial.round == round_number}
        order = [cell for cell in round_order(plan.cells, plan.seed, round_number) if cell in wanted]
        for cell in order:
            hearing.listen()
            if hearing.is_stopped:
                break
            number = max((trial.number for trial in done), default=0) + 1
            progress.trial_started(number, round_number, cell)
            store.begin_trial(run.id, BegunTrial(number, round_number, *cell, began_at=time.time()))
            is_first = all(earlier.cell != cell for earlier in done)
            trial, series = run_one(TrialOrder(number, round_number, *cell, is_first=is_first))
            store.add_trial(run.id, trial, series)
            done.append(trial)
            progress.trial_ended(trial)
        if hearing.is_stopped:
            break
        if order:
            progress.round_ended(done)
        if not is_over and round_number < plan.rounds:
            so_far = [earlier for earlier in done if earlier.round <= round_number]
            is_over = enough(so_far) or _is_futile(round_number, so_far)
    store.finish_run(run.id)
    hearing.end()


def _affordable(plan: Plan, before: Sequence[Trial]) -> bool:
    """Whether another round still fits into the budget. The first always does."""
    if plan.budget_s is None or not before:
        return True
    return sum(trial.ended_at - trial.started_at for trial in before) + next_round_s(before) <= plan.budget_s


def _is_futile(rounds: int, trials: Sequence[Trial]) -> bool:
    """Whether every trial failed, in so many rounds that no other is worth its time."""
    return rounds >= FUTILE_ROUNDS and all(trial.state is TrialState.FAILED for trial in trials)
