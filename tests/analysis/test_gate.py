"""A gate's errors, where the truth is known: false alarms, what is missed, when it ends."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.analysis.facts import DEFAULT, INSTALL, OLDER, fail, make_plan, make_trials, make_workload
from tests.analysis.slices import start, toggled_plan
from walproof.advise.gate import say_answer, say_help, say_look
from walproof.analysis.gate import FALSE_RATE, FIRST_ROUNDS, GateRule, Judgement, Outcome, judge
from walproof.facts import Cell, Gate, Plan, Trial, Variant
from walproof.facts.gate import parse_promises

OTHER = Variant("other", {})
RUNS = 200


def gated(plan: Plan, *promises: str, rounds: int = 30, against: str | None = None) -> Plan:
    return replace(plan, rounds=rounds, gate=Gate(parse_promises(promises), against))


def other_by(ratio: float) -> Callable[[Cell], float]:
    return lambda cell: ratio if cell.variant == "other" else 1.0


PLAN = gated(make_plan((DEFAULT, OTHER)), "tps < 0.97x")


def decided(plan: Plan, trials: Sequence[Trial]) -> Judgement:
    found = judge(plan, trials, is_finished=True)
    assert found is not None
    return found


def outcomes(plan: Plan, ratio: float, noise: float = 0.02, runs: int = RUNS) -> dict[Outcome, float]:
    """Share of the runs by outcome, when every variant has that ratio to the baseline."""
    found = [
        decided(
            plan,
            make_trials(
                plan,
                plan.rounds,
                lambda cell: 500.0 if cell.variant == plan.baseline else 500.0 * ratio,
                noise=noise,
                round_noise=0.1,
                seed=seed,
            ),
        ).outcome
        for seed in range(runs)
    ]
    return {outcome: found.count(outcome) / runs for outcome in Outcome}


def test_a_ratio_at_its_limit_is_called_broken_as_rarely_as_is_said() -> None:
    """The hardest case that keeps the promise. Four standard deviations of a share over runs are allowed."""
    shares = outcomes(PLAN, 0.97)
    slack = 4 * math.sqrt(FALSE_RATE * (1 - FALSE_RATE) / RUNS)
    assert shares[Outcome.BROKEN] <= FALSE_RATE + slack
    # The mistake on the other side is as rare, and most gates say that they do not know.
    assert shares[Outcome.HOLDS] <= FALSE_RATE + slack
    assert shares[Outcome.UNDECIDED] > 0.85


def test_several_promises_and_variants_are_no_more_often_called_broken() -> None:
    """Four variants, all at the limit: without counting them together 10 % of the gates would be broken."""
    variants = (DEFAULT, *(Variant(f"variant {number}", {}) for number in range(4)))
    plan = gated(make_plan(variants), "tps < 0.97x", rounds=16)
    shares = outcomes(plan, 0.97, runs=120)
    assert shares[Outcome.BROKEN] <= FALSE_RATE + 4 * math.sqrt(FALSE_RATE * (1 - FALSE_RATE) / 120)


def test_what_is_unchanged_holds_and_what_is_worse_is_caught() -> None:
    """Trials that vary by 2 %, thirty rounds: 6 % less throughput, against a limit of 3 %."""
    unchanged, worse = outcomes(PLAN, 1.0, runs=80), outcomes(PLAN, 0.94, runs=80)
    assert unchanged[Outcome.HOLDS] > 0.95
    assert unchanged[Outcome.BROKEN] == 0
    assert worse[Outcome.BROKEN] > 0.9
    assert worse[Outcome.HOLDS] == 0


def test_a_gate_ends_as_soon_as_it_is_decided_and_a_resumed_run_decides_the_same() -> None:
    """The rule after each round, as the lab asks it, ends where the report of all that was measured looks."""
    ends = []
    for seed, ratio in ((1, 1.0), (2, 0.8), (3, 0.97), (4, 1.3)):
        trials = make_trials(PLAN, 30, other_by(ratio), seed=seed)
        rule = GateRule(PLAN)
        end = next(n for n in range(1, 31) if n == 30 or rule([t for t in trials if t.round <= n]))
        seen = [trial for trial in trials if trial.round <= end]
        found = decided(PLAN, seen)
        assert found.done == end
        assert found.is_over
        assert found == judge(PLAN, seen, is_finished=False)
        # More rounds, which a careless hand might add, change nothing.
        assert found.judged == decided(PLAN, trials).judged
        ends.append((found.outcome, end in found.looks))
    assert [outcome for outcome, _ in ends[:2]] == [Outcome.HOLDS, Outcome.BROKEN]
    assert all(looked for _, looked in ends)


def test_looks_follow_from_the_budget_alone() -> None:
    """Two trials of 15 s a round: 300 s have room for ten. Ratios change nothing about it."""
    plan = replace(PLAN, budget_s=300.0, rounds=200)
    for ratio in (0.5, 1.0):
        trials = make_trials(plan, 10, other_by(ratio), noise=0.2)
        found = decided(plan, trials)
        assert len(found.looks) <= 5
        assert (found.looks[0], found.looks[-1]) == (FIRST_ROUNDS, 10)
    early = judge(plan, trials[:4], is_finished=False)
    assert early is not None
    assert (early.done, early.looks, early.is_over) == (0, (FIRST_ROUNDS,), False)


def test_a_budget_that_is_over_before_the_next_look_has_a_last_one() -> None:
    plan = gated(make_plan((DEFAULT, OTHER)), "tps < 0.5x")
    trials = make_trials(plan, 2, lambda cell: 100.0, noise=0.001)
    assert decided(plan, trials).outcome is Outcome.HOLDS
    waiting = judge(plan, trials, is_finished=False)
    assert waiting is not None
    assert (waiting.outcome, waiting.done) == (Outcome.UNDECIDED, 0)
    # A round that was interrupted is not looked at.
    assert decided(plan, trials[:3]).done == 1


def test_a_broken_promise_ends_the_run_for_the_others() -> None:
    plan = gated(make_plan((DEFAULT, OTHER)), "tps < 0.97x", "latency_ms_avg > 1.03x")
    slow = make_trials(plan, 30, lambda cell: 50.0 if cell.variant == "other" else 100.0, noise=0.01)
    trials = [
        replace(
            trial, metrics={**trial.metrics, "latency_ms_avg": 1 + 0.3 * random.Random(trial.number).random()}
        )
        for trial in slow
    ]
    found = decided(plan, trials)
    assert found.outcome is Outcome.BROKEN
    assert [judged.outcome for judged in found.judged] == [Outcome.BROKEN, Outcome.UNDECIDED]
    assert "another promise is broken" in (found.judged[1].reason or "")
    assert found.done < 30


def test_what_does_not_vary_is_decided_at_the_first_look() -> None:
    """Bytes that are counted, and a limit that is met to the digit: a promise is broken beyond it alone."""
    plan = gated(make_plan((DEFAULT, OTHER)), "wal_bytes_per_txn > 1.5x", "wal_bytes_per_txn > 1.4x")
    trials = make_trials(
        plan,
        4,
        lambda cell: 1500.0 if cell.variant == "other" else 1000.0,
        noise=0,
        metric="wal_bytes_per_txn",
    )
    found = decided(plan, trials)
    assert [judged.outcome for judged in found.judged] == [Outcome.HOLDS, Outcome.BROKEN]


def test_a_look_at_which_the_budget_ends_is_the_last() -> None:
    """It has what the looks that never come would have had of the error."""
    trials = make_trials(PLAN, 24, lambda cell: 0.98 if cell.variant == "other" else 1.0, noise=0.05)
    going_on, ended = judge(PLAN, trials, is_finished=False), decided(PLAN, trials)
    assert going_on is not None
    assert going_on.looks == (4, 10, 17, 24, 30)
    assert (going_on.done, going_on.is_over) == (24, False)
    assert (ended.looks, ended.done, ended.is_over) == ((4, 10, 17, 24), 24, True)
    first, last = (found.judged[0].interval for found in (going_on, ended))
    assert first is not None
    assert last is not None
    assert last.high - last.low < first.high - first.low


def test_what_cannot_be_measured_ends_undecided_and_says_why() -> None:
    trials = fail(make_trials(PLAN, 30, lambda cell: 100.0), lambda trial: trial.variant == "other")
    found = decided(PLAN, trials)
    assert (found.outcome, found.done, found.is_over) == (Outcome.UNDECIDED, FIRST_ROUNDS, True)
    assert "trials failed: server did not start" in (found.judged[0].reason or "")
    nothing = gated(make_plan((DEFAULT, OTHER)), "latency_ms_p99 > 1.1x")
    found = decided(nothing, make_trials(nothing, 5, lambda cell: 100.0))
    assert found.judged[0].reason == "no round has both values; no trial has latency_ms_p99"
    assert judge(make_plan(), (), is_finished=True) is None


@pytest.mark.parametrize(("reached", "is_queue"), [(99.0, False), (60.0, True)])
def test_latencies_of_a_queue_decide_nothing(reached: float, *, is_queue: bool) -> None:
    """Where more is offered than a server does, latency is the length of the window on either side."""
    offered = replace(make_workload(), rate_tps=100.0)
    plan = gated(make_plan((DEFAULT, OTHER), (offered,)), "latency_ms_p99 > 1.1x")
    metrics = {"tps": reached, "transactions": 10 * reached}
    trials = make_trials(plan, 5, lambda cell: 900.0, metric="latency_ms_p99", metrics=metrics)
    found = decided(plan, trials)
    (judged,) = found.judged
    assert judged.ratio == pytest.approx(1.0, rel=0.1)
    if is_queue:
        assert (found.outcome, found.done, found.is_over) == (Outcome.UNDECIDED, FIRST_ROUNDS, True)
        assert judged.reason is not None
        assert judged.reason.startswith("default reached 60 of the 100 transactions/s that were offered: ")
    else:
        assert found.outcome is Outcome.HOLDS
    # A variant alone that cannot keep up is slower, and that is an answer.
    slow = [
        replace(trial, metrics={"tps": 60.0, "transactions": 600.0, "latency_ms_p99": 5000.0})
        if trial.variant == "other"
        else replace(trial, metrics={**trial.metrics, "tps": 99.0})
        for trial in trials
    ]
    assert decided(plan, slow).outcome is Outcome.BROKEN


IMAGES = "wal_fpi_stat.insert"


def counted(plan: Plan, of_baseline: Sequence[float], of_other: Sequence[float]) -> list[Trial]:
    """Rounds in which both sides have these counts, one after the other."""
    values = {"default": of_baseline, "other": of_other}
    trials = make_trials(plan, len(of_other), lambda cell: 100.0)
    return [
        replace(trial, metrics={**trial.metrics, IMAGES: values[trial.variant][trial.round - 1]})
        for trial in trials
    ]


def test_a_count_that_is_zero_in_some_trials_has_no_ratio() -> None:
    """Rounds of zero were dropped, and what was left of them called twice as many without a doubt."""
    plan = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} > 1.05x", rounds=8)
    for of_baseline, of_other in (([1.0] * 8, [0.0, 2.0] * 4), ([0.0, 2.0] * 4, [1.0] * 8)):
        found = decided(plan, counted(plan, of_baseline, of_other))
        (judged,) = found.judged
        assert (judged.outcome, judged.ratio, judged.interval) == (Outcome.UNDECIDED, None, None)
        assert judged.reason == "2 of 8 trials have 0 of it: no ratio"
        assert (found.done, found.is_over) == (FIRST_ROUNDS, True)


@pytest.mark.parametrize("of_baseline", [0.0, 3.0])
def test_what_is_always_zero_is_above_no_limit(of_baseline: float) -> None:
    above = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} > 1.05x", rounds=8)
    trials = counted(above, [of_baseline] * 8, [0.0] * 8)
    (judged,) = decided(above, trials).judged
    assert (judged.outcome, judged.ratio, judged.rounds) == (Outcome.HOLDS, None, FIRST_ROUNDS)
    below = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} < 0.95x", rounds=8)
    (judged,) = decided(below, trials).judged
    assert judged.outcome is (Outcome.BROKEN if of_baseline else Outcome.UNDECIDED)
    assert "no trial has" not in (judged.reason or "")
    alone = [trial for trial in trials if trial.variant == "other"]
    missing = [replace(trial, metrics={}) for trial in trials if trial.variant == "default"]
    (judged,) = decided(above, [*alone, *missing]).judged
    assert (judged.outcome, judged.rounds) == (Outcome.UNDECIDED, 0)
    assert judged.reason == "4 of 4 trials have 0 of it: no ratio"


@pytest.mark.parametrize(
    ("promise", "of_baseline", "of_other"),
    [(f"{IMAGES} < 0.95x", 3.0, 0.0), (f"{IMAGES} > 1.05x", 0.0, 50.0)],
)
def test_what_is_zero_on_one_side_alone_is_broken(promise: str, of_baseline: float, of_other: float) -> None:
    """A change under which nothing ends was let through, and one that is half as fast was caught."""
    plan = gated(make_plan((DEFAULT, OTHER)), promise, rounds=12)
    trials = counted(plan, [of_baseline] * 12, [of_other] * 12)
    early = judge(plan, [trial for trial in trials if trial.round <= FIRST_ROUNDS], is_finished=False)
    assert early is not None
    assert (early.outcome, early.is_over) == (Outcome.UNDECIDED, False)
    found = decided(plan, trials)
    (judged,) = found.judged
    assert (found.outcome, judged.ratio, judged.rounds) == (Outcome.BROKEN, None, found.done)
    assert 6 <= found.done <= 12
    (said,) = say_answer(plan, found)
    assert said.startswith(f"Broken: {promise} for other: every trial of what ")
    # Where it comes to the other side once, nothing is known.
    once = counted(plan, [of_baseline] * 12, [of_other] * 12)
    once = [
        replace(trial, metrics={**trial.metrics, IMAGES: 1.0}) if trial.round == 1 else trial
        for trial in once
    ]
    assert decided(plan, once).outcome is Outcome.UNDECIDED


def test_too_few_rounds_of_zeros_say_how_many_would_do() -> None:
    plan = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} < 0.95x", rounds=5)
    found = decided(plan, counted(plan, [3.0] * 5, [0.0] * 5))
    (judged,) = found.judged
    assert (judged.outcome, found.done) == (Outcome.UNDECIDED, FIRST_ROUNDS)
    assert "; 6 rounds, which the budget has no room for, " in (judged.reason or "")
    plan = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} < 0.95x", rounds=12)
    waiting = judge(plan, counted(plan, [3.0] * 5, [0.0] * 5), is_finished=False)
    assert waiting is not None
    assert not waiting.is_over
    assert (waiting.judged[0].reason or "").endswith("so few rounds do not show that it is no chance")


def test_a_load_that_ends_nothing_in_any_slice_is_broken() -> None:
    """Six starts of servers that take turns, whose change ends no transaction."""
    cut = toggled_plan("default", "other", passes=8, starts=12)
    plan = gated(cut, "tps < 0.9x", rounds=12)
    trials = [start(plan, number, random.Random(number)) for number in range(1, 13)]
    still = [
        replace(
            trial,
            slices=tuple(
                replace(slice_, transactions=0, latency_ms_sum=0.0) if slice_.variant == "other" else slice_
                for slice_ in trial.slices
            ),
        )
        for trial in trials
    ]
    assert decided(plan, still).outcome is Outcome.BROKEN


def test_what_was_zero_in_the_first_looks_is_judged_again() -> None:
    """No checkpoint fell into four windows; the promise held by these, whatever the next rounds wrote."""
    plan = gated(make_plan((DEFAULT, OTHER)), "tps < 0.97x", f"{IMAGES} > 1.05x", rounds=16)
    counts = counted(plan, [1.0] * 16, [*[0.0] * FIRST_ROUNDS, *[5.0] * 12])
    trials = [
        replace(trial, metrics={**trial.metrics, IMAGES: images.metrics[IMAGES]})
        for trial, images in zip(make_trials(plan, 16, other_by(0.985)), counts, strict=True)
    ]
    first = judge(plan, [trial for trial in trials if trial.round <= FIRST_ROUNDS], is_finished=False)
    assert first is not None
    assert [judged.outcome for judged in first.judged] == [Outcome.UNDECIDED, Outcome.HOLDS]
    found = decided(plan, trials)
    assert found.done > FIRST_ROUNDS
    assert found.outcome is not Outcome.HOLDS
    assert found.judged[1].outcome is Outcome.UNDECIDED
    assert (found.judged[1].reason or "").startswith(f"{FIRST_ROUNDS} of ")


def test_a_promise_that_nothing_can_decide_does_not_end_the_gate_for_the_others() -> None:
    """One trial of 0 images ended it at the first look, long before the loss of throughput was shown."""
    plan = gated(make_plan((DEFAULT, OTHER)), "tps < 0.97x", f"{IMAGES} > 1.05x")
    counts = counted(plan, [1.0] * 30, [0.0, *[2.0] * 29])

    def both(ratio: float, noise: float) -> list[Trial]:
        measured = make_trials(plan, 30, other_by(ratio), noise=noise)
        return [
            replace(trial, metrics={**trial.metrics, IMAGES: images.metrics[IMAGES]})
            for trial, images in zip(measured, counts, strict=True)
        ]

    slow = both(0.9, 0.02)
    assert not GateRule(plan)(slow[: 2 * FIRST_ROUNDS])
    found = decided(plan, slow)
    assert [judged.outcome for judged in found.judged] == [Outcome.BROKEN, Outcome.UNDECIDED]
    assert found.outcome is Outcome.BROKEN
    # Where the others hold, nothing is left to wait for.
    found = decided(plan, both(1.0, 0.001))
    assert [judged.outcome for judged in found.judged] == [Outcome.HOLDS, Outcome.UNDECIDED]
    assert (found.outcome, found.done < 30) == (Outcome.UNDECIDED, True)


def test_slices_that_write_no_wal_are_zeros() -> None:
    toggled = toggled_plan("default", "other", passes=8, starts=2)
    plan = gated(toggled, "wal_bytes_per_txn > 1.02x", rounds=2)
    trials = [start(plan, number, random.Random(number)) for number in (1, 2)]
    still = [
        replace(trial, slices=tuple(replace(slice_, lsn_end=slice_.lsn_begin) for slice_ in trial.slices))
        for trial in trials
    ]
    (judged,) = decided(plan, still).judged
    assert (judged.outcome, judged.reason) == (Outcome.HOLDS, "4 of 4 trials have 0 of it: no ratio")


def test_installs_and_versions_of_a_workload_are_compared() -> None:
    """Each with the one that it is to be compared with, in the direction that is typed."""
    builds = gated(make_plan((DEFAULT,), installs=(OLDER, INSTALL)), "tps < 0.97x")
    (judged,) = decided(
        builds, make_trials(builds, 8, lambda c: 90.0 if c.install == "18.3" else 100.0)
    ).judged
    assert (judged.cell.install, judged.baseline.install, judged.outcome) == ("18.3", "15.9", Outcome.BROKEN)
    versions = gated(
        make_plan((DEFAULT,), (make_workload("other"), make_workload("this"))), "tps < 0.97x", against="other"
    )
    (judged,) = decided(
        versions, make_trials(versions, 8, lambda c: 200.0 if c.workload == "this" else 100.0)
    ).judged
    assert judged.cell == Cell("18.3", "this", "default")
    assert judged.baseline.workload == "other"
    assert judged.outcome is Outcome.HOLDS
    assert judged.ratio == pytest.approx(2, rel=0.05)


def test_slices_decide_as_rounds_do() -> None:
    """Six starts of forty passes of slices that vary by 12 % and depend on each other."""
    plan = toggled_plan("default", "same", "worse", passes=40, starts=6)
    for name, effect, expected in (("same", 0.0, Outcome.HOLDS), ("worse", -0.15, Outcome.BROKEN)):
        toggled = toggled_plan("default", name, passes=40, starts=6)
        gate = gated(toggled, "tps < 0.92x", rounds=6)
        rng = random.Random(5)
        trials = [start(gate, number, rng, effects={name: effect}) for number in range(1, 7)]
        assert decided(gate, trials).outcome is expected
    assert plan.toggles_all


def test_words_of_a_promise_without_a_ratio() -> None:
    """What the look says, and no advice of more rounds, which would change nothing."""
    plan = gated(make_plan((DEFAULT, OTHER)), f"{IMAGES} > 1.05x", rounds=8)
    trials = counted(plan, [1.0] * 8, [0.0, 2.0] * 4)
    found = decided(plan, trials)
    assert say_look(plan, found, trials)[1] == (
        "  wal_fpi_stat.insert > 1.05x  other: 2 of 8 trials have 0 of it: no ratio, undecided"
    )
    assert say_answer(plan, found)[1].endswith("for other: 2 of 8 trials have 0 of it: no ratio.")
    (line,) = say_help(plan, found, trials)
    assert "above 0 in every trial" in line


def test_an_early_look_says_no_figures_that_mean_nothing() -> None:
    """At a level of a first look of many, four rounds that vary by 20 % reach from 0 to infinity."""
    plan = gated(make_plan((DEFAULT, OTHER)), "tps < 0.97x", rounds=200)
    trials = make_trials(plan, FIRST_ROUNDS, lambda cell: 100.0, noise=0.2)
    found = judge(plan, trials, is_finished=False)
    assert found is not None
    assert say_look(plan, found, trials)[1].startswith("  tps < 0.97x  other: not known yet, undecided")
