"""The conductor's order, resume, stop rule and budget, with trials that end at once.

What a trial does on a server is tested in tests/live; here only the sequence matters, so the trial is a
stand-in with a clock of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, plan
from tests.lab.silence import Silence
from walproof.analysis.sweep import ClimbSweeps
from walproof.facts import Plan, Run, Series, Trial, TrialState
from walproof.facts.store import Store
from walproof.lab.runner import conduct
from walproof.lab.trial import TrialOrder


class Interrupt(BaseException):
    pass


class InstantTrials:
    """Every trial takes 10 s of its own clock; the ``stop_at``-th one is interrupted."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.orders: list[TrialOrder] = []
        self.clock = 0.0
        self._stop_at = stop_at

    def run(self, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
        if len(self.orders) + 1 == self._stop_at:
            raise Interrupt
        self.orders.append(order)
        began, self.clock = self.clock, self.clock + 10.0
        trial = Trial(
            order.number, order.round, order.install, order.workload, order.variant,
            TrialState.DONE, began, self.clock, began, 9.0, {"tps": 100.0}, {},
        )  # fmt: skip
        return trial, ()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def _begin(store: Store, one: Plan) -> Run:
    return store.add_run(one, ("walproof",), ENVIRONMENT, "1.0")


def _conduct(store: Store, run: Run, trials: InstantTrials, stop_after: int | None = None) -> None:
    def enough(done: Sequence[Trial]) -> bool:
        return stop_after is not None and max(trial.round for trial in done) >= stop_after

    conduct(store, run, trials.run, ClimbSweeps(run.plan), enough, Silence())


def test_every_round_holds_every_cell_once_in_an_order_of_its_own(store: Store) -> None:
    run = _begin(store, plan(rounds=12, variants=3))
    trials = InstantTrials()
    _conduct(store, run, trials)
    rounds = [[o.variant for o in trials.orders if o.round == number] for number in range(1, 13)]
    assert all(sorted(one) == ["default", "fsync=off", "full_page_writes=off"] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert [order.number for order in trials.orders] == list(range(1, 37))
    assert store.run(run.id).finished_at is not None


@pytest.mark.parametrize("stop_at", range(1, 10))
def test_an_interrupted_run_goes_on_where_it_stopped(store: Store, stop_at: int) -> None:
    whole = InstantTrials()
    reference = _begin(store, plan(rounds=3, variants=3))
    _conduct(store, reference, whole)
    run = _begin(store, plan(rounds=3, variants=3))
    first, second = InstantTrials(stop_at), InstantTrials()
    with pytest.raises(Interrupt):
        _conduct(store, run, first)
    assert store.run(run.id).finished_at is None
    assert len(store.trials(run.id)) == stop_at - 1
    _conduct(store, run, second)
    # Together exactly what an uninterrupted run does, in the same order.
    assert first.orders + second.orders == whole.orders
    assert store.run(run.id).finished_at is not None


def test_the_stop_rule_ends_the_run_after_a_whole_round(store: Store) -> None:
    run = _begin(store, plan(rounds=10))
    _conduct(store, run, InstantTrials(), stop_after=4)
    assert len(store.trials(run.id)) == 8
    assert store.run(run.id).finished_at is not None


@pytest.mark.parametrize(("budget_s", "rounds"), [(5.0, 1), (39.0, 1), (40.0, 2), (99.0, 4), (1000.0, 10)])
def test_no_round_begins_that_would_end_after_the_budget(store: Store, budget_s: float, rounds: int) -> None:
    # Two variants, 10 s each: a round takes 20 s. The first round always runs.
    run = _begin(store, plan(rounds=10, budget_s=budget_s))
    _conduct(store, run, InstantTrials())
    assert len(store.trials(run.id)) == 2 * rounds


def test_a_round_that_was_begun_is_finished_when_its_rest_fits(store: Store) -> None:
    run = _begin(store, plan(rounds=10, budget_s=40.0))
    with pytest.raises(Interrupt):
        _conduct(store, run, InstantTrials(stop_at=4))
    _conduct(store, run, InstantTrials())
    assert len(store.trials(run.id)) == 4
