"""The conductor's order, resume, stop rule and budget, with trials that end at once.

What a trial does on a server is tested in tests/live; here only the sequence matters, so the trial is a
stand-in with a clock of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, plan
from walproof.analysis.sweep import ClimbSweeps
from walproof.errors import StoreError
from walproof.facts import Gate, Plan, Promise, Request, RequestKind, Run, Series, Side, Trial, TrialState
from walproof.facts.store import Store
from walproof.lab.runner import conduct
from walproof.lab.schedule import Unseen
from walproof.lab.trial import Measured, TrialOrder, Trials, run_trial
from walproof.report.requests import say_request


class Interrupt(BaseException):
    pass


class InstantTrials:
    """Every trial takes 10 s of its own clock; the ``stop_at``-th is interrupted, the first ones fail."""

    def __init__(self, stop_at: int | None = None, failing: int = 0) -> None:
        self.orders: list[TrialOrder] = []
        self.clock = 0.0
        self._stop_at = stop_at
        self._failing = failing

    def run(self, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
        if len(self.orders) + 1 == self._stop_at:
            raise Interrupt
        self.orders.append(order)
        began, self.clock = self.clock, self.clock + 10.0
        trial = Trial(
            order.number, order.round, order.install, order.workload, order.variant,
            TrialState.DONE, began, self.clock, began, 9.0, {"tps": 100.0}, {},
        )  # fmt: skip
        if len(self.orders) <= self._failing:
            trial = replace(trial, state=TrialState.FAILED, metrics={}, reason="pgbench failed")
        return trial, ()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def _begin(store: Store, asked: Plan) -> Run:
    return store.add_run(asked, ("walproof",), ENVIRONMENT, "1.0")


def _conduct(store: Store, run: Run, trials: InstantTrials, stop_after: int | None = None) -> None:
    def enough(done: Sequence[Trial]) -> bool:
        return stop_after is not None and max(trial.round for trial in done) >= stop_after

    conduct(store, run, trials.run, ClimbSweeps(run.plan), enough, Unseen())


def test_every_round_holds_every_cell_once_in_an_order_of_its_own(store: Store) -> None:
    run = _begin(store, plan(rounds=12, variants=3))
    trials = InstantTrials()
    _conduct(store, run, trials)
    rounds = [[o.variant for o in trials.orders if o.round == number] for number in range(1, 13)]
    assert all(sorted(variants) == ["default", "fsync=off", "full_page_writes=off"] for variants in rounds)
    assert len({tuple(variants) for variants in rounds}) > 1
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


class Unlucky(Trials):
    """The system refuses a file."""

    def __init__(self, number: int) -> None:
        self._number = number

    def run(self, order: TrialOrder, measured: Measured) -> None:
        raise OSError(self._number, os.strerror(self._number), "/srv/trial")


def test_a_full_disk_fails_the_trial() -> None:
    trial, _ = run_trial(Unlucky(errno.ENOSPC), TrialOrder(1, 1, "18", "w", "default"))
    assert trial.state is TrialState.FAILED
    assert trial.reason == 'could not use "/srv/trial": No space left on device'


def test_what_no_machine_causes_is_a_defect() -> None:
    with pytest.raises(NotADirectoryError):
        run_trial(Unlucky(errno.ENOTDIR), TrialOrder(1, 1, "18", "w", "default"))


def test_the_stop_rule_ends_the_run_after_a_whole_round(store: Store) -> None:
    run = _begin(store, plan(rounds=10))
    _conduct(store, run, InstantTrials(), stop_after=4)
    assert len(store.trials(run.id)) == 8
    assert store.run(run.id).finished_at is not None


@pytest.mark.parametrize(("failing", "trials"), [(20, 4), (4, 4), (3, 20), (0, 20)])
def test_two_rounds_in_which_everything_failed_end_the_run(store: Store, failing: int, trials: int) -> None:
    run = _begin(store, plan(rounds=10))
    _conduct(store, run, InstantTrials(failing=failing))
    assert len(store.trials(run.id)) == trials
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


class AskingTrials(InstantTrials):
    """As they run, somebody asks: trial number -> what."""

    def __init__(self, store: Store, run: Run, asked: dict[int, tuple[RequestKind, int]]) -> None:
        super().__init__()
        self._store, self._run, self._asked = store, run, asked

    def run(self, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
        if order.number in self._asked:
            self._store.ask(self._run.id, *self._asked[order.number])
        return super().run(order)


def test_a_stop_ends_the_run_after_the_present_trial(store: Store) -> None:
    run = _begin(store, plan(rounds=10))
    _conduct(store, run, AskingTrials(store, run, {5: (RequestKind.STOP, 0)}))
    assert len(store.trials(run.id)) == 5
    ended = store.run(run.id)
    assert ended.finished_at is not None
    assert ended.stopped is not None
    assert ended.stopped.words == "the run ends here"


@pytest.mark.parametrize("budget_s", [None, 60.0])
def test_more_rounds_follow_the_planned_ones_whatever_the_budget(
    store: Store, budget_s: float | None
) -> None:
    run = _begin(store, plan(rounds=3, budget_s=budget_s))
    trials = AskingTrials(store, run, {1: (RequestKind.ROUNDS, 2), 6: (RequestKind.ROUNDS, 1)})
    _conduct(store, run, trials)
    assert [order.round for order in trials.orders] == [n for n in range(1, 7) for _ in range(2)]
    assert store.run(run.id).rounds_more == 3
    assert store.run(run.id).finished_at is not None


@pytest.mark.parametrize("stop_at", [2, 7, 8, 9, 10])
@pytest.mark.parametrize("stop_after", [None, 3])
def test_rounds_that_were_granted_are_run_after_an_interruption(
    store: Store, stop_at: int, stop_after: int | None
) -> None:
    run = _begin(store, plan(rounds=3 if stop_after is None else 9))
    first = AskingTrials(store, run, {1: (RequestKind.ROUNDS, 2)})
    first._stop_at = stop_at
    with pytest.raises(Interrupt):
        _conduct(store, run, first, stop_after)
    second = InstantTrials()
    _conduct(store, store.run(run.id), second, stop_after)
    orders = [*first.orders, *second.orders]
    assert [order.round for order in orders] == [n for n in range(1, 6) for _ in range(2)]


def test_an_old_stop_does_not_end_a_run_that_was_begun_again(store: Store) -> None:
    run = _begin(store, plan(rounds=2))
    with pytest.raises(Interrupt):
        _conduct(store, run, InstantTrials(stop_at=2))
    store.ask(run.id, RequestKind.STOP)
    _conduct(store, store.run(run.id), InstantTrials())
    assert len(store.trials(run.id)) == 4
    (asked,) = store.requests(run.id)
    assert (asked.is_granted, asked.words) == (False, "the run was begun again after that")


def test_gates_and_steps_of_tunings_take_no_rounds(store: Store) -> None:
    gated = replace(plan(rounds=2), gate=Gate((Promise("tps", Side.BELOW, 0.9),)))
    run = _begin(store, gated)
    with pytest.raises(StoreError, match="takes no more rounds: the looks of a gate are planned"):
        store.ask(run.id, RequestKind.ROUNDS, 1)
    step = store.add_run(plan(rounds=2), ("walproof", "tune", "x"), ENVIRONMENT, "1.0")
    with pytest.raises(StoreError, match="the search asks for"):
        store.ask(step.id, RequestKind.ROUNDS, 1)


def test_who_watches_is_told_what_was_asked(store: Store) -> None:
    told: list[tuple[str, int]] = []

    class Ear(Unseen):
        def request_heard(self, request: Request, trials_most: int) -> None:
            told.append((say_request(request), trials_most))

    run = _begin(store, plan(rounds=2))
    trials = AskingTrials(store, run, {1: (RequestKind.ROUNDS, 1), 5: (RequestKind.STOP, 0)})
    conduct(store, run, trials.run, ClimbSweeps(run.plan), lambda _: False, Ear())
    assert told == [
        ("1 more round: 1 more round follows after the planned ones", 6),
        ("stop: the run ends here", 6),
    ]
