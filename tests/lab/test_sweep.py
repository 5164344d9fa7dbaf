"""A sweep is climbed until two steps in a row gain nothing: which trials are run, in which rounds, and after
an interruption; with trials that end at once at rates that are given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, plan
from walproof.analysis.sweep import climb, sweeps_of
from walproof.analysis.within import DueCells, Within
from walproof.facts import Load, LoadMethod, Plan, Run, Series, Trial, TrialState, Variant
from walproof.facts.store import Store
from walproof.lab.runner import conduct
from walproof.lab.schedule import Unseen
from walproof.lab.trial import TrialOrder
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view

BATCHES = (10, 100, 1_000, 10_000, 100_000)
FLAT = {10: 50.0, 100: 100.0, 1_000: 101.0, 10_000: 100.0, 100_000: 100.0}
RISING = {10: 10.0, 100: 20.0, 1_000: 30.0, 10_000: 40.0, 100_000: 50.0}
LATE = {10: 99.0, 100: 100.0, 1_000: 150.0, 10_000: 151.0, 100_000: 150.0}
EARLY = {10: 100.0, 100: 101.0, 1_000: 102.0, 10_000: 500.0, 100_000: 900.0}


class Interrupt(BaseException):
    pass


class Rates:
    """Trials of the rate that their batch has; the ``stop_at``-th is interrupted, ``broken`` ones fail."""

    def __init__(self, rates: Mapping[int, float], stop_at: int | None = None, broken: int = 0) -> None:
        self.rates = rates
        self.orders: list[TrialOrder] = []
        self._stop_at, self._broken = stop_at, broken

    def run(self, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
        if len(self.orders) + 1 == self._stop_at:
            raise Interrupt
        self.orders.append(order)
        at = 0 if order.variant == "COPY" else int(order.variant)
        has_failed = at == self._broken and at > 0
        # A round as a whole is fast or slow; within it rates differ by two in a thousand.
        rate = self.rates.get(at, 100.0) * (1 + order.round % 3) * (1 + 0.002 * ((order.round + at) % 2))
        metrics = {} if has_failed else {"rows_per_s": rate, "complete_rows_per_s": rate}
        state = TrialState.FAILED if has_failed else TrialState.DONE
        trial = Trial(
            order.number, order.round, order.install, order.workload, order.variant, state,
            0.0, 1.0, 0.0, 1.0, metrics, {}, reason="it broke" if has_failed else None,
        )  # fmt: skip
        return trial, ()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def _plan(rounds: int = 5, half_width: float | None = None) -> Plan:
    variants = [Variant(str(at), {}, conditions=LoadMethod(batch_rows=at)) for at in reversed(BATCHES)]
    return replace(
        plan(rounds=rounds), kind=Load("t", "CREATE TABLE t (x int)", 10), half_width=half_width,
        variants=(Variant("COPY", {}), *variants), baseline="COPY",
    )  # fmt: skip


def _run(store: Store, asked: Plan, trials: Rates) -> Run:
    run = store.add_run(asked, ("walproof",), ENVIRONMENT, "1.0")
    _conduct(store, run, trials)
    return store.run(run.id)


def _conduct(store: Store, run: Run, trials: Rates) -> None:
    within = Within(run.plan, run.plan.half_width, "rows_per_s") if run.plan.half_width else None
    conduct(store, run, trials.run, DueCells(run.plan, within), within or _never, Unseen())


def _never(_: Sequence[Trial]) -> bool:
    return False


def _rounds(trials: Rates) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for order in trials.orders:
        found.setdefault(0 if order.variant == "COPY" else int(order.variant), []).append(order.round)
    return found


def test_points_above_the_knee_are_never_tried(store: Store) -> None:
    trials = Rates(EARLY)
    run = _run(store, _plan(), trials)
    every = [1, 2, 3, 4, 5]
    # Its rate would be higher: what nobody tries nobody knows, and the report says so.
    assert _rounds(trials) == {0: every, 10: every, 100: every, 1_000: every}
    view = build_view(run, store.trials(run.id))
    text = to_markdown(view).replace("\\", "")
    assert "| 100,000 |" in text
    assert "copy: 10,000 and 100,000 rows a batch were skipped" in text
    assert "are shown to gain less than 5 %, by the upper end" in text
    (told,) = json.loads(to_json(view))["sweeps"]
    assert [point["at"] for point in told["skipped"]] == [10_000, 100_000]
    assert told["has_ended"] is True
    assert "skipped: more gains nothing" in to_html(view)


def test_a_rising_sweep_gets_rounds_of_its_own(store: Store) -> None:
    """Rounds 4 and 5 have the fourth point; 6 gives it its third; then the fifth is tried three times."""
    trials = Rates(RISING)
    run = _run(store, _plan(), trials)
    assert _rounds(trials) == {
        0: [1, 2, 3, 4, 5, 6, 7, 8, 9], 10: [1, 2, 3, 4, 5], 100: [1, 2, 3, 4, 5], 1_000: [1, 2, 3, 4, 5, 6],
        10_000: [4, 5, 6, 7, 8, 9], 100_000: [7, 8, 9],
    }  # fmt: skip
    (sweep,) = sweeps_of(run.plan)
    found = climb(sweep, store.trials(run.id), 5)
    assert [step.rounds for step in found.steps] == [5, 5, 3, 3]
    assert (found.skipped, found.has_ended, found.is_waiting) == ((), False, False)
    assert "may gain" not in to_markdown(build_view(run, store.trials(run.id)))


def test_one_step_without_gain_is_not_the_end(store: Store) -> None:
    trials = Rates(LATE)
    run = _run(store, _plan(), trials)
    assert set(_rounds(trials)) == {0, *BATCHES}
    (sweep,) = sweeps_of(run.plan)
    found = climb(sweep, store.trials(run.id), 5)
    assert [step.is_gainless for step in found.steps] == [True, False, True, True]
    assert found.has_ended
    assert found.skipped == ()


@pytest.mark.parametrize("stop_at", [2, 9, 16, 23, 27, 31, 34])
def test_it_is_resumed_where_it_stopped(store: Store, stop_at: int) -> None:
    whole = Rates(RISING)
    _run(store, _plan(), whole)
    run = store.add_run(_plan(), ("walproof",), ENVIRONMENT, "1.0")
    first, second = Rates(RISING, stop_at), Rates(RISING)
    with pytest.raises(Interrupt):
        _conduct(store, run, first)
    view = build_view(run, store.trials(run.id))
    assert not any(load["has_ended"] for load in json.loads(to_json(view))["sweeps"])
    _conduct(store, run, second)
    assert first.orders + second.orders == whole.orders


def test_a_point_that_fails_does_not_hold_the_run_up(store: Store) -> None:
    trials = Rates(RISING, broken=10_000)
    run = _run(store, _plan(rounds=2), trials)
    assert run.finished_at is not None
    assert len(_rounds(trials)[100_000]) == 2


def test_skipped_points_do_not_hold_a_precise_run_up(store: Store) -> None:
    """Rounds 4 to 50 would be run if the rule waited for effects of points that nobody tries."""
    trials = Rates(FLAT | {1_000: 100.0})
    _run(store, _plan(rounds=50, half_width=0.05), trials)
    assert len(_rounds(trials)[0]) < 10


def test_a_point_that_is_reached_late_is_told_from_one_that_was_tried(store: Store) -> None:
    """The first trial of a cell is also broken off, whatever its round."""
    trials = Rates(RISING)
    _run(store, _plan(), trials)
    first = {order.variant: order.round for order in trials.orders if order.is_first}
    assert first == {"COPY": 1, "10": 1, "100": 1, "1000": 1, "10000": 4, "100000": 7}
    assert sum(order.is_first for order in trials.orders) == len(first)
