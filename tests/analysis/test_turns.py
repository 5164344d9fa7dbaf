"""Slices of builds, and of versions of a load: each start is one trial of each, and gates judge by them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.analysis.facts import DEFAULT, INSTALL, OLDER, fail, make_plan, make_workload
from tests.analysis.slices import STARTS, taking_turns
from walproof.analysis.carry_over import places_of
from walproof.analysis.effect import install_effects
from walproof.analysis.gate import Outcome, judge
from walproof.analysis.toggled import by_variant
from walproof.analysis.unmeasured import unmeasured
from walproof.facts import Design, Gate, Plan, Trial, TrialState
from walproof.facts.gate import parse_promises


def _versions(effect: float, *promises: str) -> tuple[Plan, list[Trial]]:
    plan = make_plan((DEFAULT,), (make_workload("other"), make_workload("this")))
    return taking_turns(
        replace(plan, gate=Gate(parse_promises(promises), "other")), ("other", "this"), effect
    )


@pytest.mark.parametrize(
    ("effect", "outcome"), [(0.0, Outcome.HOLDS), (math.log(0.8), Outcome.BROKEN), (0.2, Outcome.HOLDS)]
)
def test_a_gate_judges_versions_by_slices(effect: float, outcome: Outcome) -> None:
    plan, trials = _versions(effect, "tps < 0.93x")
    found = judge(plan, trials, is_finished=True)
    assert found is not None
    (judged,) = found.judged
    assert (judged.cell.workload, judged.baseline.workload) == ("this", "other")
    assert judged.outcome is outcome
    assert judged.ratio == pytest.approx(math.exp(effect), rel=0.05)


def test_a_version_that_stands_still_in_some_slices_is_caught() -> None:
    """In three passes of eight it ended nothing; by the other five the gate held."""
    plan, trials = _versions(0.0, "tps < 0.93x")
    stalled = [
        replace(
            trial,
            slices=tuple(
                replace(slice_, transactions=0)
                if slice_.variant == "this" and slice_.pass_number in {2, 3, 7}
                else slice_
                for slice_ in trial.slices
            ),
        )
        for trial in trials
    ]
    found = judge(plan, stalled, is_finished=True)
    assert found is not None
    (judged,) = found.judged
    assert judged.outcome is Outcome.BROKEN
    assert judged.ratio == pytest.approx(5 / 8, rel=0.15)


def test_a_start_is_one_trial_of_each_version() -> None:
    plan, trials = _versions(math.log(0.5), "tps < 0.93x")
    apart = by_variant(plan, trials)
    assert [trial.workload for trial in apart] == ["other", "this"] * STARTS
    assert {trial.variant for trial in apart} == {"default"}
    for trial in apart:
        assert {slice_.variant for slice_ in trial.slices} == {trial.workload}
    assert apart[1].metrics["tps"] < 0.7 * apart[0].metrics["tps"]
    assert by_variant(plan, apart) == apart
    failed = replace(trials[0], state=TrialState.FAILED, slices=(), metrics={}, reason="no disk")
    assert [trial.workload for trial in by_variant(plan, [failed])] == ["other", "this"]


def test_builds_are_compared_by_slices_with_the_first() -> None:
    labels = (OLDER.label, INSTALL.label)
    plan, trials = taking_turns(make_plan((DEFAULT,), installs=(OLDER, INSTALL)), labels, math.log(1.2))
    (effect,) = install_effects(plan, trials)
    assert (effect.install, effect.baseline.install) == (INSTALL.label, OLDER.label)
    assert effect.ratio == pytest.approx(1.2, rel=0.05)
    assert effect.interval is not None
    assert effect.interval.contains(1.2)
    assert effect.design is Design.SLICED
    (place,) = places_of(plan, trials)
    assert place.after_checkpoint_s == pytest.approx((1.5, 1.5 + 8 * 0.3)), "of the first build alone"


@pytest.mark.parametrize("effect", [0.0, math.log(0.2)])
def test_a_start_that_failed_counts_against_the_change(effect: float) -> None:
    """It runs both sides. A change that crashed in three starts of eight held by the other five."""
    plan, trials = _versions(effect, "tps < 0.5x")
    starts = fail(trials, lambda trial: trial.round in (2, 3, 5), "the server ended")
    found = judge(plan, starts, is_finished=True)
    assert found is not None
    (judged,) = found.judged
    lost = unmeasured(plan, found, starts)
    if effect:
        assert (judged.outcome, lost) == (Outcome.BROKEN, ()), "what the others show to be broken is broken"
    else:
        assert judged.outcome is Outcome.UNDECIDED
        assert judged.reason == "3 of its 8 starts failed, and a start runs both sides: the server ended"
        assert [(side.cell.workload, side.failed) for side in lost[0].sides] == [("this", 3), ("other", 3)]
