"""``--within``: a pilot fixes the rounds, one extension at most, time goes where intervals are widest."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.analysis.facts import DEFAULT, FPW_OFF, FSYNC_OFF, INSTALL, OLDER, fail, make_plan, make_trials
from tests.analysis.slices import start, toggled_plan
from walproof.analysis.effect import effects
from walproof.analysis.within import PILOT_ROUNDS, DueCells, Within, outlook
from walproof.facts import Cell, Design, Trial, Variant

PLAN = make_plan((DEFAULT, FSYNC_OFF))


def truth(cell: Cell) -> float:
    return 2000.0 if cell[2] == "fsync=off" else 500.0


def until(trials: Sequence[Trial], number: int) -> list[Trial]:
    return [trial for trial in trials if trial.round <= number]


def stop(rule: Within, trials: Sequence[Trial], most: int) -> int:
    """The round after which a run of so many at most ends."""
    return next(n for n in range(1, most + 1) if n == most or rule(until(trials, n)))


def test_the_pilot_fixes_the_number_and_it_is_extended_once() -> None:
    """The run ends at the pilot's number, or at the one that all of its rounds ask for."""
    rule = Within(PLAN, 0.02, "tps")
    ends = set()
    for seed in range(12):
        trials = make_trials(PLAN, 60, truth, noise=0.01, seed=seed)
        ((_, first),) = rule.rounds(until(trials, PILOT_ROUNDS))
        ((_, second),) = rule.rounds(until(trials, first))
        end = stop(rule, trials, 60)
        assert end == max(first, second)
        ends.add((end > PILOT_ROUNDS, end > first))
    assert ends == {(False, False), (True, False), (True, True)}


def test_it_never_ends_before_the_pilot_and_never_waits_for_what_never_starts() -> None:
    plan = make_plan()
    still = make_trials(plan, 4, lambda cell: 100.0, noise=0.0001)
    assert [stop(Within(plan, 0.05, "tps"), still, 4), len(until(still, 3))] == [3, 9]
    broken = fail(still, lambda trial: trial.variant == "fsync=off")
    assert Within(plan, 0.05, "tps")(until(broken, 3))
    assert Within(plan, 0.05, "tps")(until(fail(still, lambda trial: True), 3))
    assert not Within(plan, 0.05, "tps")(())


def test_a_failed_trial_is_made_up_for() -> None:
    trials = make_trials(PLAN, 30, truth, noise=0.015)
    ((_, whole),) = Within(PLAN, 0.02, "tps").rounds(until(trials, 3))
    lost = fail(trials, lambda trial: (trial.round, trial.variant) == (2, "fsync=off"))
    ((effect, planned),) = Within(PLAN, 0.02, "tps").rounds(until(lost, 3))
    assert (effect.n, effect.left_out) == (2, 1)
    assert planned > 3
    assert whole >= 3


def test_a_variant_that_is_the_baseline_takes_no_rounds() -> None:
    """However unsure its ratio is: it is chance, and nobody waits for it."""

    twin = Variant("twin", {})
    plan = replace(make_plan((DEFAULT, FSYNC_OFF, twin)), same=("twin",))
    steady = make_trials(plan, 8, truth, noise=0.001)
    trials = [
        replace(
            trial, metrics={**trial.metrics, "tps": trial.metrics["tps"] * (0.4 if trial.round % 2 else 1.0)}
        )
        if trial.variant == "twin"
        else trial
        for trial in steady
    ]
    rule = Within(plan, 0.05, "tps")
    assert stop(rule, trials, 8) == PILOT_ROUNDS
    assert stop(Within(replace(plan, same=()), 0.05, "tps"), trials, 8) > PILOT_ROUNDS
    assert not rule.due(until(trials, PILOT_ROUNDS))
    found = outlook(plan, until(trials, PILOT_ROUNDS), "tps")
    assert found is not None
    assert found.widest.variant == "fsync=off"
    alone = replace(make_plan((DEFAULT, twin)), same=("twin",))
    assert stop(Within(alone, 0.05, "tps"), make_trials(alone, 8, truth, noise=0.5), 8) == PILOT_ROUNDS


def test_installs_are_effects() -> None:
    plan = make_plan((DEFAULT,), installs=(INSTALL, OLDER))
    assert Within(plan, 0.05, "tps")(make_trials(plan, 3, lambda cell: 100.0, noise=0.001))
    assert not Within(plan, 0.05, "tps")(make_trials(plan, 3, lambda cell: 100.0, noise=0.5))


def test_later_rounds_have_what_is_not_known_yet() -> None:
    """One of eight variants varies twenty times as much: it goes on with the baseline alone."""
    variants = [Variant(f"variant {number}", {}) for number in range(7)]
    plan = replace(make_plan((DEFAULT, *variants)), rounds=50, half_width=0.05)
    quiet = make_trials(plan, 5, lambda cell: 100.0, noise=0.005)
    loud = make_trials(plan, 5, lambda cell: 100.0, noise=0.1, seed=2)
    trials = [b if b.variant == "variant 3" else a for a, b in zip(quiet, _ordered(loud, quiet), strict=True)]
    within = Within(plan, 0.05, "tps")
    due = DueCells(plan, within)(6, until(trials, 5))
    assert {cell.variant for cell in due} == {"default", "variant 3"}
    assert set(DueCells(plan, within)(2, until(trials, 1))) == set(plan.cells)
    assert set(DueCells(plan, None)(6, until(trials, 5))) == set(plan.cells)


def _ordered(trials: Sequence[Trial], like: Sequence[Trial]) -> list[Trial]:
    by_cell = {(trial.round, trial.cell): trial for trial in trials}
    return [replace(by_cell[value.round, value.cell], number=value.number) for value in like]


def test_outlook_says_what_is_wanted_and_what_there_is_time_for() -> None:
    plan = replace(make_plan(), rounds=50, half_width=0.02)
    trials = make_trials(plan, 3, truth, noise=0.03, seed=6)
    assert outlook(plan, until(trials, 2), "tps") is None
    found = outlook(plan, trials, "tps")
    assert found is not None
    assert found.wanted_more is not None
    assert found.rounds_more == found.wanted_more > 0
    assert found.half_width_then <= 0.0201
    # Three trials of 15 s a round.
    assert found.seconds_more == pytest.approx(45 * found.rounds_more)
    assert (found.widest.half_width or 0) > 0.02
    short = outlook(replace(plan, budget_s=3 * 45 + 100), trials, "tps")
    assert short is not None
    assert (short.rounds_more, short.wanted_more) == (2, found.wanted_more)
    assert 0.02 < short.half_width_then < (short.widest.half_width or 0)
    alone = outlook(replace(plan, half_width=None, budget_s=3 * 45 + 100), trials, "tps")
    assert alone is not None
    assert (alone.rounds_more, alone.wanted_more) == (2, None)
    assert alone.half_width_then == pytest.approx(short.half_width_then)


def test_outlook_without_an_interval() -> None:
    plan = replace(make_plan(), rounds=50, budget_s=600.0)
    trials = fail(make_trials(plan, 4, truth), lambda trial: True)
    assert outlook(plan, trials, "tps") is None
    assert outlook(plan, (), "tps") is None


def test_what_two_stages_keep_of_the_coverage() -> None:
    """150 runs of three variants that may stop at +- 4 % (about twelve rounds): all intervals cover 95 %, the
    band being four standard deviations of a share over runs. Looking after every round covers 91 %."""
    plan = make_plan((DEFAULT, FSYNC_OFF, FPW_OFF))
    rule = Within(plan, 0.04, "tps")
    held, rounds = [], []
    for seed in range(150):
        trials = make_trials(plan, 40, lambda cell: 500.0, noise=0.045, seed=seed)
        end = PILOT_ROUNDS
        while end < 40 and not rule(until(trials, end)):
            # Between its two decisions the rule does not look.
            end = max(end + 1, min(40, *(total for _, total in rule.rounds(until(trials, end)))))
        rounds.append(end)
        for effect in effects(plan, until(trials, end)):
            assert effect.interval is not None
            held.append(effect.interval.contains(1.0))
    assert sum(held) / len(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 150))
    assert 6 < sum(rounds) / len(rounds) < 20


def test_a_design_whose_ratios_are_known_takes_no_more_time() -> None:
    """The baseline of the first design was in every round, though what is due is compared with another."""
    cut = toggled_plan("default, toggled", "off", starts=50)
    base = replace(cut.variants[0], name="default", design=Design.FRESH, design_reason=None)
    large = replace(base, name="large", design_reason="max_wal_size acts at checkpoints")
    plan = replace(cut, variants=(base, *cut.variants, large), baseline="default", rounds=50, half_width=0.02)
    starts = [start(cut, number, random.Random(number), noise=0.3) for number in (1, 2, 3)]
    windows = [
        replace(
            starts[0], number=10 * number + at, round=number, variant=name, slices=(), metrics={"tps": tps}
        )
        for number in (1, 2, 3)
        for at, (name, tps) in enumerate((("default", 100.0), ("large", 110.0 + 0.01 * number)))
    ]
    trials = [*starts, *windows]
    due = DueCells(plan, Within(plan, 0.02, "tps"))(4, trials)
    assert [cell.variant for cell in due] == ["default, toggled"]
    found = outlook(plan, trials, "tps")
    assert found is not None
    each = starts[0].ended_at - starts[0].started_at
    assert found.seconds_more == pytest.approx(each * found.rounds_more)
