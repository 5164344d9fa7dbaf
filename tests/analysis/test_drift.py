"""Drift: trends are found, steady machines stay steady, and shared variance is measured."""

from __future__ import annotations

import pytest

from tests.analysis.facts import DEFAULT, FSYNC_OFF, fail, make_plan, make_trials
from walproof.analysis.drift import Drift, Steadiness, measure_drift
from walproof.facts import Cell

PLAN = make_plan()


def truth(cell: Cell) -> float:
    return {"default": 500.0, "fsync=off": 2000.0, "full_page_writes=off": 510.0}[cell[2]]


def drift_of(rounds: int, **options: float) -> Drift:
    seed = int(options.pop("seed", 1))
    return measure_drift(PLAN, make_trials(PLAN, rounds, truth, seed=seed, **options))  # type: ignore[arg-type]


def test_a_slow_down_is_measured() -> None:
    """30 trials that each lose 0.5 %: exp(-0.005 x 29) = 0.865 from the first to the last."""
    found = drift_of(10, drift_per_trial=-0.005, noise=0.01)
    assert found.steadiness is Steadiness.SLOWING
    assert found.trend == pytest.approx(0.865, abs=0.02)
    assert found.trend_interval is not None
    assert found.trend_interval.high < 1
    assert found.trend_interval.contains(0.865)
    assert drift_of(10, drift_per_trial=0.005, noise=0.01).steadiness is Steadiness.RISING


def test_a_steady_machine_has_no_trend_in_95_of_100_runs() -> None:
    """1000 runs, as short as a trend is judged from; four standard deviations of 0.05 are 0.028."""
    found = [drift_of(3, seed=seed) for seed in range(1000)]
    trends = [d for d in found if d.steadiness in (Steadiness.SLOWING, Steadiness.RISING)]
    assert len(trends) / 1000 == pytest.approx(0.05, abs=0.028)
    wandering = [d for d in found if d.steadiness is Steadiness.WANDERING]
    assert len(wandering) / 1000 < 0.06


def test_spells_without_a_trend_are_seen() -> None:
    """Whole rounds better or worse by 10 %: neighbours are alike, although nothing leads anywhere."""
    kinds = [drift_of(12, round_noise=0.1, noise=0.01, seed=seed).steadiness for seed in range(40)]
    assert kinds.count(Steadiness.WANDERING) > 20
    assert Steadiness.STEADY not in kinds


def test_removed_share_is_the_rounds_part_of_the_variance() -> None:
    """Round noise 3 %, trial noise 1 %: 9 of 10 parts of the variance belong to rounds."""
    shares = [drift_of(30, round_noise=0.03, noise=0.01, seed=seed).removed_share for seed in range(20)]
    known = [share for share in shares if share is not None]
    assert len(known) == 20
    assert sum(known) / 20 == pytest.approx(0.9, abs=0.03)
    none = drift_of(30, noise=0.01).removed_share
    assert none == pytest.approx(0.0, abs=0.1)


def test_baseline_spread_is_its_deviation_between_rounds() -> None:
    found = drift_of(60, round_noise=0.04, noise=0.03)
    assert found.baseline_spread == pytest.approx(0.05, abs=0.012)


def test_points_are_relative_to_their_cell_and_in_run_order() -> None:
    found = drift_of(5, noise=0.0)
    assert [point.relative for point in found.points] == pytest.approx([1.0] * 15)
    assert [point.trial for point in found.points] == list(range(1, 16))
    assert found.steadiness is Steadiness.STEADY
    assert found.trend == pytest.approx(1.0)


def test_few_trials_say_so() -> None:
    for rounds in (0, 1, 2):
        found = drift_of(rounds)
        assert found.steadiness is Steadiness.TOO_FEW
        assert found.trend is None
        assert found.removed_share is None


def test_failed_trials_are_no_points() -> None:
    trials = make_trials(PLAN, 6, truth)
    left = measure_drift(PLAN, fail(trials, lambda trial: trial.variant == "fsync=off"))
    assert len(left.points) == 12
    assert left.removed_share is not None
    drift = measure_drift(PLAN, fail(trials, lambda trial: trial.variant != "default"))
    assert len(drift.points) == 6
    assert drift.steadiness is Steadiness.TOO_FEW
    assert drift.baseline_spread is not None


def test_rounds_of_one_cell_share_nothing_measurable() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    trials = fail(make_trials(plan, 12, truth), lambda trial: trial.variant == "fsync=off")
    found = measure_drift(plan, trials)
    assert found.trend is not None
    assert found.removed_share is None
