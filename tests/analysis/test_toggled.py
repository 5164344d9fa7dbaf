"""Does a 95 % interval from slices hold the truth 95 times in 100? And what becomes of odd starts."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.analysis.slices import CHECKPOINT_S, LENGTH_S, start, toggled_plan
from tests.facts import plans
from walproof.analysis.carry_over import carry_overs, fit_carry_over, lasting_ms, places_of
from walproof.analysis.comparisons import adjust_p_values
from walproof.analysis.effect import Conclusion, Effect, effects
from walproof.analysis.gate import Outcome, judge
from walproof.analysis.interval import Interval
from walproof.analysis.precision import rounds_for
from walproof.analysis.summary import analyse
from walproof.analysis.toggled import by_variant
from walproof.analysis.within import Within, outlook
from walproof.facts import Design, Gate, Plan, Trial, TrialState
from walproof.facts.gate import parse_promises

PLAN = toggled_plan("default", "same", "off")
TRUTH = {"off": math.log(1.25)}


def _effect(plan: Plan, trials: list[Trial], variant: str, metric: str = "tps") -> Effect:
    return next(effect for effect in effects(plan, trials, metric) if effect.variant == variant)


@pytest.mark.parametrize("starts", [1, 2, 4])
def test_intervals_hold_the_truth(starts: int) -> None:
    """Slices in an autoregressive walk, with stalls; 100 studies of a gain of 25 % and of nothing."""
    rng = random.Random(starts)
    held, widths = 0, []
    for _ in range(100):
        trials = [start(PLAN, number, rng, effects=TRUTH) for number in range(1, starts + 1)]
        for name in ("same", "off"):
            effect = _effect(PLAN, trials, name)
            assert effect.interval is not None
            held += effect.interval.contains(math.exp(TRUTH.get(name, 0.0)))
            widths.append(effect.half_width or 0.0)
    # 190 of 200 are expected; fewer than 180 or all of them would come by chance once in 500 times.
    assert 180 <= held < 200
    assert sum(widths) / len(widths) < 0.12 / math.sqrt(starts)


def test_starts_that_contradict_each_other_are_the_units() -> None:
    rng = random.Random(3)
    trials = [
        start(PLAN, number, rng, own_effects={"same": shift}, noise=0.02, stalls=0)
        for number, shift in enumerate((-0.2, 0.15, 0.0), 1)
    ]
    effect = _effect(PLAN, trials, "same")
    assert effect.toggled is not None
    assert effect.toggled.contradicting
    assert effect.half_width is not None
    assert effect.half_width > 0.2, "three starts that differ by 20 % are not known within less"
    assert effect.conclusion is Conclusion.NO_DIFFERENCE
    assert rounds_for(effect, 0.05) is None


def test_starts_that_contradict_each_other_are_planned_for_by_how_much_they_differ() -> None:
    """Two such starts have an interval of one degree of freedom; a run for +- 3 % ended with it."""
    plan = replace(toggled_plan("default", "same"), rounds=400, half_width=0.03)
    rng = random.Random(3)
    shifts = (-0.1, 0.1, 0.0, 0.05)
    trials = [
        start(plan, number, rng, own_effects={"same": shift}, noise=0.02, stalls=0)
        for number, shift in enumerate(shifts, 1)
    ]
    effect = _effect(plan, trials[:2], "same")
    toggled = effect.toggled
    assert toggled is not None
    assert toggled.contradicting
    assert effect.half_width is not None
    assert effect.half_width > 1
    rule = Within(plan, 0.03, "tps")
    assert not rule(trials[:2])
    ((_, total),) = rule.rounds(trials[:2])
    assert total > 10
    width = toggled.half_width_after(total)
    before = toggled.half_width_after(total - 1)
    assert width is not None
    assert before is not None
    assert width <= 0.03 < before
    assert toggled.half_width_after(2) == pytest.approx(effect.half_width)
    assert toggled.starts_for(100.0) == 1, "one more at least"
    assert toggled.half_width_after(2, 1 - 1e-12) == math.inf
    # The budget still bounds what is run, and what is expected then is said.
    spent = sum(trial.ended_at - trial.started_at for trial in trials[:3])
    short = replace(plan, budget_s=1.7 * spent)
    found = outlook(short, trials[:3], "tps")
    assert found is not None
    assert found.wanted_more is not None
    assert found.wanted_more > found.rounds_more
    assert found.rounds_more <= 3
    assert found.half_width_then < (found.widest.half_width or 0)


def test_the_same_start_is_one_trial_of_each_variant() -> None:
    rng = random.Random(4)
    trials = [start(PLAN, 1, rng, effects=TRUTH, noise=0.01, stalls=0)]
    seen = by_variant(PLAN, trials)
    assert [trial.variant for trial in seen] == ["default", "same", "off"]
    assert by_variant(PLAN, seen) == seen
    assert all({other.variant for other in trial.slices} == {trial.variant} for trial in seen)
    assert seen[2].metrics["tps"] / seen[0].metrics["tps"] == pytest.approx(1.25, rel=0.05)
    assert seen[0].metrics["wal_bytes_per_txn"] == pytest.approx(5000)
    assert seen[0].metrics["latency_ms_p95"] == 6.0
    effect = _effect(PLAN, list(seen), "off")
    assert effect == _effect(PLAN, trials, "off")
    assert effect.design is Design.TOGGLED
    assert effect.baseline.variant == "default"
    assert (effect.n, len(effect.ratios)) == (1, 1)
    wal = _effect(PLAN, trials, "off", "wal_bytes_per_txn")
    assert wal.ratio == pytest.approx(1.0)


def test_a_failed_start_is_one_of_every_variant() -> None:
    failed = replace(plans.failed(2, round_number=2), variant="default")
    trials = [start(PLAN, 1, random.Random(5)), failed]
    assert [effect.left_out for effect in effects(PLAN, trials)] == [1, 1]
    analysis = analyse(PLAN, trials)
    assert (analysis.trials, analysis.failed, len(analysis.failures)) == (2, 1, 1)
    assert [absolute.failed for absolute in analysis.absolute] == [1, 1, 1]


def test_slices_without_a_transaction_need_no_logarithm() -> None:
    trial = start(PLAN, 1, random.Random(6), noise=0.02, stalls=0)
    stalled = tuple(
        replace(slice_, transactions=0, latency_ms_sum=0.0) if slice_.pass_number == 7 else slice_
        for slice_ in trial.slices
    )
    effect = _effect(PLAN, [replace(trial, slices=stalled)], "same")
    assert effect.interval is not None
    assert effect.interval.contains(1.0)
    nothing = tuple(replace(slice_, transactions=0) for slice_ in trial.slices)
    empty = _effect(PLAN, [replace(trial, slices=nothing)], "same")
    assert (empty.ratio, empty.interval, empty.conclusion) == (None, None, Conclusion.TOO_FEW)


def test_a_carry_over_is_found_and_named() -> None:
    """What ``off`` leaves to the slice after it is found; ``same`` leaves nothing."""
    rng = random.Random(8)
    trials = [start(PLAN, n, rng, left={"off": 0.06}, noise=0.02, stalls=0) for n in (1, 2)]
    same, off = carry_overs(PLAN, trials)
    assert (same.variant, off.variant) == ("same", "off")
    assert off.ratio == pytest.approx(math.exp(0.06), rel=0.015)
    assert off.is_notable
    assert not same.is_notable
    assert off.slices == sum(slice_.predecessor == "off" for trial in trials for slice_ in trial.slices)
    # Predecessors are balanced, so that what one leaves is left to all.
    ratio = _effect(PLAN, trials, "same").ratio
    assert ratio == pytest.approx(1.0, abs=0.02)


def test_servers_that_take_turns_say_nothing_of_carry_over() -> None:
    """What their variants differ by was taken for noise, and hid what toggled ones leave."""
    rng = random.Random(8)
    toggled = [start(PLAN, n, rng, left={"off": 0.06}, noise=0.02, stalls=0) for n in (1, 2)]
    cut = toggled_plan("default, sliced", "images", passes=8)
    turns = [start(cut, n, rng, effects={"images": 0.4}) for n in (3, 4)]
    sliced = tuple(replace(variant, design=Design.SLICED) for variant in cut.variants)
    mixed = replace(PLAN, variants=(*PLAN.variants, *sliced), slicing=cut.toggling)
    assert carry_overs(mixed, [*toggled, *turns]) == carry_overs(PLAN, toggled)
    assert carry_overs(mixed, turns) == ()


def test_carry_over_intervals_hold_the_truth() -> None:
    rng = random.Random(9)
    held = 0
    for _ in range(60):
        trials = [start(PLAN, n, rng, stalls=0) for n in (1, 2)]
        held += sum(over.interval.contains(1.0) for over in carry_overs(PLAN, trials))
    assert held >= 106, "of 120"


def test_carry_overs_are_counted_together() -> None:
    """Of six variants that leave nothing, one was marked in one run of four."""
    names = ("default", *(f"v{number}" for number in range(6)))
    plan = toggled_plan(*names, passes=20)
    starts = [start(plan, n, random.Random(n), left={"v0": 0.2}, noise=0.02, stalls=0) for n in (1, 2)]
    found = carry_overs(plan, starts)
    alone_p = fit_carry_over([trial.slices for trial in starts], "default", names[1:], "tps")
    assert [over.p_family for over in found] == list(
        adjust_p_values([alone_p[name][3] for name in names[1:]])
    )
    assert found[0].is_notable
    alone = Interval(1.003, 1.037, 0.95, "t")
    assert replace(found[0], ratio=1.02, interval=alone, p_family=0.04).is_notable
    assert not replace(found[0], ratio=1.02, interval=alone, p_family=0.06).is_notable


def test_too_short_a_start_says_nothing_of_carry_over() -> None:
    plan = toggled_plan("default", "same", passes=2)
    assert carry_overs(plan, [start(plan, 1, random.Random(1))]) == ()


def test_the_places_of_slices() -> None:
    trials = [start(PLAN, 1, random.Random(1))]
    (place,) = places_of(PLAN, trials)
    slices = trials[0].slices
    length_s = slices[-1].ended_at - slices[0].began_at
    assert place.after_checkpoint_s is not None
    assert place.after_checkpoint_s == pytest.approx((CHECKPOINT_S, CHECKPOINT_S + length_s))
    assert length_s == pytest.approx(len(slices) * (LENGTH_S + 0.035), rel=0.01)
    assert (place.checkpoints, place.starts, place.design) == (0, 1, Design.TOGGLED)
    assert place.wal_change == pytest.approx(1.0)
    some = replace(trials[0], metrics={"tps": 900.0, "checkpoints_requested": 2.0})
    (place,) = places_of(PLAN, [some])
    assert (place.after_checkpoint_s, place.checkpoints) == (None, 2)


def test_more_starts_make_it_as_sure_as_asked() -> None:
    rng = random.Random(11)
    trials = [start(PLAN, number, rng) for number in (1, 2)]
    effect = _effect(PLAN, trials, "same")
    assert effect.half_width is not None
    assert rounds_for(effect, effect.half_width * 1.01) == 0
    more = rounds_for(effect, effect.half_width / 3)
    assert more is not None
    assert 8 <= more <= 24, "nine times as many groups, and a smaller t quantile"
    assert not Within(PLAN, 0.5, "tps")(trials[:1]), "the second start shows whether it contradicts the first"
    assert Within(PLAN, 0.5, "tps")(trials)
    assert not Within(PLAN, 0.001, "tps")(trials)
    found = outlook(replace(PLAN, rounds=50, half_width=0.001), trials, "tps")
    assert found is not None, "after the pilot, which is two starts, there is something to say"
    assert found.rounds_more > 0


def test_fresh_trials_are_compared_as_ever() -> None:
    plan = plans.plan()
    trials = [
        plans.trial(at, round_number=(at + 1) // 2, variant=("default", "fsync=off")[at % 2], tps=100.0 + at)
        for at in range(1, 7)
    ]
    assert by_variant(plan, trials) == tuple(trials)
    (effect,) = effects(plan, trials)
    assert (effect.design, effect.toggled, effect.n) == (Design.FRESH, None, 3)
    assert all(trial.state is TrialState.DONE for trial in trials)


@pytest.mark.parametrize(("p95_ms", "is_long"), [(55.0, False), (800.0, True)])
def test_transactions_that_go_on_from_slice_to_slice_are_told(p95_ms: float, *, is_long: bool) -> None:
    """The guard time is 30 ms, and a tenth of a slice as long."""
    plan = toggled_plan("default", "off")
    trials = [
        replace(
            trial,
            slices=tuple(
                replace(slice_, latency_ms_p95=p95_ms if slice_.number % 3 else None)
                for slice_ in trial.slices
            ),
        )
        for trial in (start(plan, number, random.Random(number)) for number in (1, 2))
    ]
    install, workload = plan.installs[0].label, plan.workloads[0].name
    assert lasting_ms(plan, trials, install, workload) == (p95_ms if is_long else None)
    assert lasting_ms(plan, by_variant(plan, trials), install, workload) == (p95_ms if is_long else None)
    offered = replace(plan, workloads=(replace(plan.workloads[0], rate_tps=10.0),))
    assert lasting_ms(offered, trials, install, workload) is None, "with --rate a latency holds the lag"
    assert lasting_ms(plan, (), install, workload) is None
    # A gate may call it broken, for the ratio is too near 1, and never that it holds.
    outcomes = []
    for effect in (0.0, -0.5):
        gate = replace(plan, gate=Gate(parse_promises(["tps < 0.9x"])))
        made = [
            start(gate, number, random.Random(number), effects={"off": effect}, noise=0.03, stalls=0)
            for number in (1, 2)
        ]
        long = [
            replace(trial, slices=tuple(replace(slice_, latency_ms_p95=p95_ms) for slice_ in trial.slices))
            for trial in made
        ]
        found = judge(gate, long, is_finished=True)
        assert found is not None
        outcomes.append(found.outcome)
        assert ("began under other" in str(found.judged[0].reason)) is (is_long and effect == 0.0)
    assert outcomes == [Outcome.UNDECIDED if is_long else Outcome.HOLDS, Outcome.BROKEN]


def test_a_gate_says_what_a_variant_leaves_to_the_slices_after_its_own() -> None:
    rng = random.Random(2)
    trials = [start(PLAN, number, rng, left={"off": 0.06}, noise=0.02, stalls=0) for number in (1, 2)]
    found = judge(replace(PLAN, gate=Gate(parse_promises(["tps < 0.5x"]))), trials, is_finished=True)
    assert found is not None
    assert found.outcome is Outcome.HOLDS
    reasons = {judged.cell.variant: judged.reason for judged in found.judged}
    assert reasons["same"] is None
    assert (reasons["off"] or "").startswith("though off leaves something to the slice after it (1.0")
