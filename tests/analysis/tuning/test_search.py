"""The search, replayed on synthetic tables whose best configuration is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bench.tune.rivals import random_search
from bench.tune.table import Table, tuned
from tests.analysis.tuning import synthetic
from tests.analysis.tuning.synthetic import FACTORS, flat, limited, peaked, plan_of
from walproof.analysis.tuning import race
from walproof.analysis.tuning.budget import ENDS
from walproof.analysis.tuning.lines import LineVerdict, outcome
from walproof.analysis.tuning.search import TuneSearch
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Factor,
    Limit,
    Objective,
    Purpose,
    RuledOut,
    Scale,
    Step,
    TrialAnswer,
    TuningFacts,
)
from walproof.lab.tune.steps import run_speed, speed_of

TRIALS = 110


@dataclass(frozen=True, slots=True)
class Replay:
    facts: TuningFacts
    good_from: float
    """Trials after which the incumbent was within 3 % of the best, to the end of the race."""


@pytest.fixture(scope="module")
def table() -> Table:
    return synthetic.synthetic(FACTORS, peaked, noise=0.03, breaks=limited)


@pytest.fixture(scope="module")
def replays(table: Table) -> list[Replay]:
    found = []
    for seed in range(16):
        good_from, facts = float("inf"), None
        for facts in tuned(table, plan_of(FACTORS, trials=TRIALS, seed=seed), TuneSearch(table.judge)):
            is_good = table.is_good(race.replay(facts).incumbent)
            good_from = min(good_from, len(facts.measured)) if is_good else float("inf")
            # Some go on to the end; of the others the race is enough.
            if seed >= 3 and facts.steps[-1].purpose is Purpose.CONFIRM:
                break
        assert facts is not None
        found.append(Replay(facts, good_from))
    return found


def random_good_from(table: Table, seed: int, trials: int) -> float:
    good_from = float("inf")
    answers = random_search(table, plan_of(FACTORS, trials=1, seed=seed), trials)
    for number, answer in enumerate(answers, start=1):
        good_from = min(good_from, number) if table.is_good(answer) else float("inf")
    return good_from


def test_a_good_configuration_is_found_sooner_than_at_random(table: Table, replays: list[Replay]) -> None:
    """2 of 72 points are within 3 %, and noise is as large: luck has to be told from gain."""
    assert table.good_points(0.03) < 0.05 * len(table.truth)
    sooner = sum(replay.good_from < random_good_from(table, seed, 300) for seed, replay in enumerate(replays))
    assert sooner >= 0.75 * len(replays)
    assert sum(replay.good_from <= 0.5 * TRIALS for replay in replays) >= 0.8 * len(replays)


def test_what_is_ruled_out_is_never_run(table: Table, replays: list[Replay]) -> None:
    assert table.ruled_out
    for replay in replays:
        for step in replay.facts.steps:
            assert table.ruled_out.isdisjoint(step.candidates)


def test_budgets_hold(replays: list[Replay]) -> None:
    for replay in replays:
        assert replay.facts.spent_s <= replay.facts.plan.budget_s


def test_a_replay_goes_through_all_phases(replays: list[Replay]) -> None:
    for replay in replays[:3]:
        purposes = list(dict.fromkeys(step.purpose for step in replay.facts.steps))
        assert purposes == list(Purpose)
        seeds = [step.seed for step in replay.facts.steps]
        assert len(set(seeds)) == len(seeds), "the final step's seed is its own"
        (final,) = [step for step in replay.facts.steps if step.purpose is Purpose.FINAL]
        assert final.why.startswith("what is advised, ")
        assert ("without a line" in final.why) == (len(final.candidates) > 3)
        assert "the user's own" not in final.why


def test_a_resumed_tuning_asks_for_the_same_steps(table: Table, replays: list[Replay]) -> None:
    """Facts up to any step, and a search that has seen nothing before, give the next one."""
    facts = replays[0].facts
    for count in range(len(facts.steps)):
        steps = facts.steps[:count]
        measured = tuple(trial for trial in facts.measured if trial.step <= count)
        spent = table.trial_s * len(measured)
        earlier = replace(facts, steps=steps, measured=measured, spent_s=spent)
        assert TuneSearch(table.judge).ask(earlier) == facts.steps[count]


def test_one_lucky_trial_makes_no_incumbent() -> None:
    """A setting that gave 5 % in the mean of nine rounds leads another that gave 8 % in its only one."""
    steady, lucky = Candidate.of({"commit_delay": "100"}), Candidate.of({"wal_compression": "lz4"})
    # Noise of 6 %: what it gives to one of the two in a round it takes from it in the next.
    measured = tuple(
        TrialAnswer(2, number, candidate, value * (1 + noise))
        for number in range(1, 9)
        for candidate, value, noise in (
            (DEFAULT, 1000.0, 0.06 * (-1) ** number),
            (steady, 1050.0, -0.06 * (-1) ** number),
        )
    )
    measured += tuple(
        TrialAnswer(3, 1, candidate, value)
        for candidate, value in ((DEFAULT, 1000.0), (steady, 1050.0), (lucky, 1080.0))
    )
    steps = (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),
        Step(2, Purpose.SCREEN, (DEFAULT, steady), 8, 2),
        Step(3, Purpose.SEARCH, (steady, DEFAULT, lucky), 1, 3),
    )
    facts = TuningFacts(plan_of(FACTORS, trials=TRIALS, seed=1), steps, measured)
    assert race.replay(facts).incumbent == steady


def test_the_incumbent_is_among_what_was_measured_and_leads_the_next_step(replays: list[Replay]) -> None:
    racing = [(each.facts, step) for each in replays for step in each.facts.steps]
    racing = [(facts, step) for facts, step in racing if step.purpose is Purpose.SEARCH]
    assert len(racing) >= 3 * len(replays)
    for facts, step in racing:
        before = tuple(trial for trial in facts.measured if trial.step < step.number)
        found = race.replay(replace(facts, steps=facts.steps[: step.number - 1], measured=before))
        assert found.incumbent == step.candidates[0]
        assert found.incumbent in {DEFAULT, *(trial.candidate for trial in before)}
        assert found.dropped.isdisjoint(step.candidates)


@pytest.mark.parametrize("trials", [1, 3, 6, 9, 12, 16, 25])
def test_a_small_budget_holds_too(table: Table, trials: int) -> None:
    *_, facts = tuned(table, plan_of(FACTORS, trials=trials, seed=3), TuneSearch(table.judge))
    assert facts.spent_s <= facts.plan.budget_s
    assert facts.steps[0].purpose is Purpose.RECORD


def test_the_judge_is_not_asked_before_the_load_was_recorded() -> None:
    def judge(candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        raise AssertionError(candidate)

    step = TuneSearch(judge).ask(TuningFacts(plan_of(FACTORS, trials=50, seed=1)))
    assert step is not None
    assert (step.purpose, step.candidates) == (Purpose.RECORD, (DEFAULT,))


def test_settings_of_a_running_server_are_screened_by_toggling() -> None:
    factors = tuple(
        replace(factor, design="toggled") if factor.setting in ("wal_compression", "commit_delay") else factor
        for factor in FACTORS
    )
    table = synthetic.synthetic(factors, flat)
    steps = []
    for facts in tuned(table, plan_of(factors, trials=80, seed=1), TuneSearch(table.judge)):
        steps = [step for step in facts.steps if step.purpose is Purpose.SCREEN]
        if facts.steps[-1].purpose is Purpose.SEARCH:
            break
    assert [step.design for step in steps] == ["toggled", "fresh"]
    assert {name for candidate in steps[0].candidates for name, _ in candidate.settings} == {
        "wal_compression",
        "commit_delay",
    }
    assert {name for candidate in steps[1].candidates for name, _ in candidate.settings} == {
        "max_wal_size",
        "wal_buffers",
        "checkpoint_completion_target",
    }


def test_a_small_grid_is_screened_then_raced_in_single_rounds() -> None:
    factors = FACTORS[:2]
    table = synthetic.synthetic(factors, peaked_in_two)
    steps: tuple[Step, ...] = ()
    for facts in tuned(table, plan_of(factors, trials=80, seed=1), TuneSearch(table.judge)):
        steps = facts.steps
    screen, *others = steps[1:]
    assert screen.purpose is Purpose.SCREEN
    racing = [step for step in others if step.purpose is Purpose.SEARCH]
    assert racing
    assert {step.rounds for step in racing} == {1}


def peaked_in_two(values: Mapping[str, str]) -> float:
    return {"1GB": 0.0, "4GB": 0.12, "16GB": 0.18}[values["max_wal_size"]]


def test_starts_are_tried_first_and_their_lines_may_go() -> None:
    start = Candidate.of({"max_wal_size": "4GB", "random_page_cost": "1.1", "commit_delay": "0"})
    table = synthetic.synthetic(FACTORS, flat)
    plan = plan_of(FACTORS, trials=80, seed=1, starts=(start,))
    search = TuneSearch(table.judge)
    facts = table.carry_out(TuningFacts(plan), search.ask(TuningFacts(plan)))  # type: ignore[arg-type]
    step = search.ask(facts)
    assert step is not None
    # The line that only says what is so anyway is not one.
    assert step.candidates[1] == Candidate.of({"max_wal_size": "4GB", "random_page_cost": "1.1"})


def test_what_failed_is_not_run_again(table: Table) -> None:
    facts = TuningFacts(plan_of(FACTORS, trials=TRIALS, seed=2))
    search = TuneSearch(table.judge)
    failing = Candidate.of({"commit_delay": "100", "max_wal_size": "16GB", "wal_compression": "lz4"})
    runs = 0
    while (step := search.ask(facts)) is not None and step.purpose in (
        Purpose.RECORD,
        Purpose.SCREEN,
        Purpose.SEARCH,
    ):
        facts = table.carry_out(facts, step)
        runs += failing in step.candidates
        facts = replace(
            facts,
            measured=tuple(
                TrialAnswer(
                    trial.step,
                    trial.round,
                    trial.candidate,
                    None,
                    None,
                    "server did not start",
                    trial.seconds,
                )
                if trial.candidate == failing
                else trial
                for trial in facts.measured
            ),
        )
    assert runs <= 1
    assert race.replay(facts).incumbent not in (DEFAULT, failing)


def test_a_second_metric_keeps_its_limit(table: Table) -> None:
    """The best for throughput has twice the latency: it is not what is advised."""
    plan = replace(
        plan_of(FACTORS, trials=TRIALS, seed=4), objective=Objective("tps", True, ("latency_ms_p99", 1.2))
    )
    search = TuneSearch(table.judge)
    facts = TuningFacts(plan)
    while (step := search.ask(facts)) is not None and step.purpose is not Purpose.CONFIRM:
        facts = table.carry_out(facts, step)
        facts = replace(
            facts,
            measured=tuple(
                replace(trial, limit_value=20.0 if "commit_delay" in trial.candidate.conf else 10.0)
                for trial in facts.measured
            ),
        )
    incumbent = race.replay(facts).incumbent
    assert incumbent != DEFAULT
    assert "commit_delay" not in incumbent.conf


def test_smaller_is_better_where_the_objective_says_so() -> None:
    table = synthetic.synthetic(FACTORS, lambda values: -peaked(values), noise=0.02)
    plan = replace(plan_of(FACTORS, trials=60, seed=1), objective=Objective("latency_ms_p99", False))
    facts = None
    for facts in tuned(table, plan, TuneSearch(table.judge)):
        if facts.steps[-1].purpose is Purpose.CONFIRM:
            break
    assert facts is not None
    incumbent = race.replay(facts).incumbent
    assert table.truth[incumbent] < 0.8 * table.truth[DEFAULT]


def test_a_large_space_ends_in_few_lines() -> None:
    """Of 14 settings with four values each three do something: 268 million points, 120 trials."""
    factors = tuple(
        Factor(f"walproof.s{at}", ("0", "1", "2", "3"), Scale.LINEAR if at % 3 else None, "0", "fresh")
        for at in range(14)
    )
    effects = {"walproof.s2": (0.0, 0.05, 0.14, 0.1), "walproof.s5": (0.0, 0.12, 0.02, -0.2)}
    effects["walproof.s9"] = (0.0, 0.03, 0.07, 0.1)

    def truth(candidate: Candidate) -> float:
        conf = candidate.conf
        return math.exp(sum(logs[int(conf.get(name, "0"))] for name, logs in effects.items()))

    def judge(candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        broken = candidate.conf.get("walproof.s4", "0") == "3"
        return CandidatePrediction(None, None, None), (
            RuledOut(Limit.MEMORY, "9 GB", "8 GB"),
        ) if broken else ()

    advised = []
    for seed in range(3):
        facts = TuningFacts(plan_of(factors, trials=120, seed=seed))
        search = TuneSearch(judge)
        while (step := search.ask(facts)) is not None:
            assert not any(judge(candidate)[1] for candidate in step.candidates)
            chance = np.random.default_rng(step.seed)
            measured = tuple(
                TrialAnswer(
                    step.number,
                    number,
                    candidate,
                    1000 * truth(candidate) * math.exp(level + 0.03 * chance.standard_normal()),
                    seconds=20.0,
                )
                for number, level in enumerate(0.05 * chance.standard_normal(step.rounds), start=1)
                for candidate in step.candidates
            )
            facts = replace(
                facts,
                steps=(*facts.steps, step),
                measured=(*facts.measured, *measured),
                spent_s=facts.spent_s + 20.0 * len(measured),
            )
        assert facts.spent_s <= facts.plan.budget_s
        advised.append(search.short(facts))
    # The best is 1.43 times the default; what does nothing is hardly among the lines.
    assert all(truth(candidate) >= 1.2 for candidate in advised)
    assert sum(len(candidate.settings) for candidate in advised) <= 12


def test_what_acts_at_checkpoints_is_checked_in_a_long_run_where_there_is_time(
    table: Table, replays: list[Replay]
) -> None:
    """The last steps of a tuning whose winner has a larger max_wal_size, asked for again."""
    facts = next(
        replay.facts for replay in replays if any("max_wal_size" in str(c) for c in _crashed(replay.facts))
    )
    at = next(index for index, step in enumerate(facts.steps) if step.purpose is Purpose.CRASH)
    before = replace(
        facts, steps=facts.steps[:at], measured=tuple(trial for trial in facts.measured if trial.step <= at)
    )

    def crash(recorded_s: float) -> Step | None:
        """Asked with room for three trials before its phase has to end."""
        longer = replace(before.measured[0], seconds=recorded_s)
        used_s = sum(trial.seconds for trial in before.measured[1:])
        budget_s = recorded_s + (used_s + 3.2 * table.trial_s) / ENDS[Purpose.CRASH]
        plan = replace(before.plan, budget_s=budget_s)
        asked = replace(
            before, plan=plan, measured=(longer, *before.measured[1:]), spent_s=recorded_s + used_s
        )
        return TuneSearch(table.judge).ask(asked)

    short, long = crash(20.0), crash(200.0)
    assert short is not None
    assert long is not None
    assert (short.purpose, short.as_recorded, short.rounds) == (Purpose.CRASH, True, 1)
    assert not long.as_recorded
    recorded = TrialAnswer(1, 1, DEFAULT, 1000.0)
    fast = [
        TrialAnswer(2, number, short.candidates[0], value) for number, value in ((1, 1400.0), (2, 1600.0))
    ]
    told = TuningFacts(before.plan, before.steps, (recorded, *fast))
    assert speed_of(short.candidates[0], told) == pytest.approx(1.5)
    assert speed_of(DEFAULT, told) == 1.0
    faster = replace(told, measured=(recorded, replace(fast[0], value=20000.0)))
    speeds = speed_of(short.candidates[0], faster), run_speed(short.candidates[0], faster)
    assert speeds == (20.0, 4.0), "only the length of a run has bounds"


def _crashed(facts: TuningFacts) -> list[Candidate]:
    return [
        candidate for step in facts.steps if step.purpose is Purpose.CRASH for candidate in step.candidates
    ]


def test_candidates_of_a_toggled_screen_that_failed_are_screened_on_fresh_servers() -> None:
    toggled = tuple(
        replace(factor, design="toggled") if factor.setting in ("wal_compression", "commit_delay") else factor
        for factor in FACTORS
    )
    table = synthetic.synthetic(toggled, peaked)
    facts = TuningFacts(plan_of(toggled, trials=120, seed=1), trial_s=table.trial_s)
    search = TuneSearch(table.judge)
    screened = {}
    for fails in (False, True):
        after = facts
        for _ in range(3):
            step = search.ask(after)
            assert step is not None
            done = table.carry_out(after, step)
            if fails and step.design == "toggled":
                done = replace(
                    done,
                    measured=tuple(
                        replace(trial, value=None) if trial.step == step.number else trial
                        for trial in done.measured
                    ),
                )
            after = done
        assert [step.design for step in after.steps[1:]] == ["toggled", "fresh"]
        screened[fails] = {name for candidate in after.steps[2].candidates for name in candidate.conf}
    assert screened[False] == {"max_wal_size", "wal_buffers", "checkpoint_completion_target"}
    assert screened[True] == {factor.setting for factor in FACTORS}
    assert not race.replay(after).dropped, (
        "who failed alone is dropped, and that start was not one candidate's"
    )


@pytest.mark.parametrize("trials", [8, 110])
def test_defaults_that_break_a_promise_are_only_compared_with(trials: int) -> None:
    """Every size that keeps it is slower: the best of these is the answer, and its gain is below 1."""

    def log(values: Mapping[str, str]) -> float:
        slower = {"1GB": 0.0, "4GB": -0.3, "16GB": -0.6}[values["max_wal_size"]]
        return slower + (0.1 if values["wal_compression"] == "lz4" else 0.0)

    made = synthetic.synthetic(FACTORS, log, noise=0.01)
    broken = frozenset(each for each in made.truth if "max_wal_size" not in each.conf)
    table = replace(made, ruled_out=broken)
    plan = plan_of(FACTORS, trials=trials, seed=1)
    *_, facts = tuned(table, plan, TuneSearch(table.judge))
    assert all(broken.isdisjoint({*step.candidates} - {DEFAULT}) for step in facts.steps)
    found = outcome(facts, table.judge)
    assert not found.defaults_are_best
    assert found.advised.conf["max_wal_size"] in ("4GB", "16GB")
    needed = [line.verdict for line in found.lines if line.setting == "max_wal_size"]
    assert needed == [LineVerdict.SAFETY], "also where no step tried it by itself"
    if trials < 100:
        return
    assert found.advised == Candidate.of({"max_wal_size": "4GB", "wal_compression": "lz4"})
    assert [step.purpose for step in facts.steps if step.purpose in (Purpose.FINAL, Purpose.CRASH)]
    assert found.gain is not None
    assert found.gain < 1
    for count in range(len(facts.steps)):
        measured = tuple(trial for trial in facts.measured if trial.step <= count)
        spent = table.trial_s * len(measured)
        earlier = replace(facts, steps=facts.steps[:count], measured=measured, spent_s=spent)
        assert TuneSearch(table.judge).ask(earlier) == facts.steps[count]
