"""The limit on a second metric: its direction, and that nothing beyond it is advised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.tuning.synthetic import FACTORS, plan_of, synthetic
from walproof.analysis.tuning import race
from walproof.analysis.tuning.ablation import shortest
from walproof.analysis.tuning.lines import LineVerdict, outcome
from walproof.analysis.tuning.search import TuneSearch
from walproof.facts.tuning import (
    DEFAULT,
    LARGER_IS_BETTER,
    Candidate,
    Objective,
    Purpose,
    Step,
    TrialAnswer,
    TuningFacts,
)

DELAYED = Candidate.of({"commit_delay": "100"})


def second_of(limit: tuple[str, float], ratio: float) -> TuningFacts:
    """One round, in which the second metric of DELAYED is ``ratio`` times that of the default."""
    plan = plan_of(FACTORS, trials=50, seed=1, objective=Objective("wal_bytes_per_txn", False, limit))
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.SEARCH, (DEFAULT, DELAYED), 1, 1))
    measured = (
        TrialAnswer(2, 1, DEFAULT, 1000.0, limit_value=10.0),
        TrialAnswer(2, 1, DELAYED, 1000.0, limit_value=10.0 * ratio),
    )
    return TuningFacts(plan, steps, measured)


@pytest.mark.parametrize(
    ("limit", "within", "outside", "words"),
    [
        (("tps", 1.0), 1.05, 0.95, "at least 1 of the defaults'"),
        (("tps", 0.95), 0.97, 0.93, "at least 0.95 of the defaults'"),
        (("tps", 1.1), 1.2, 1.05, "at least 1.1 of the defaults'"),
        (("latency_ms_p99", 1.1), 1.05, 1.2, "at most 1.1 of the defaults'"),
        (("latency_ms_p99", 0.9), 0.8, 0.95, "at most 0.9 of the defaults'"),
    ],
)
def test_the_metric_says_which_side_of_the_limit_is_allowed(
    limit: tuple[str, float], within: float, outside: float, words: str
) -> None:
    beyond = {ratio: race.second_limit(second_of(limit, ratio))(DELAYED) for ratio in (within, outside)}
    for ratio, far in ((within, -1.0), (outside, 1.0)):
        assert beyond[ratio] == pytest.approx(math.copysign(math.log(ratio / limit[1]), far))
    assert Objective("wal_bytes_per_txn", False, limit).limit_words == words


def test_every_metric_of_a_limit_has_a_direction() -> None:
    assert {metric for metric, larger in LARGER_IS_BETTER.items() if larger} == {"tps"}
    assert Objective("tps", True).limit_words == ""
    assert Objective("tps", True).beyond(9.0) == -math.inf


LIMIT = ("latency_ms_p99", 1.1)


def throughput(values: Mapping[str, str]) -> float:
    return 0.18 * (values["commit_delay"] == "100") + 0.05 * (values["max_wal_size"] == "16GB")


TABLE = synthetic(FACTORS, throughput, noise=0.03)


def latency(candidate: Candidate) -> float:
    """Log ratio to the default: what commit_delay adds is too much without what compression takes."""
    conf = candidate.conf
    return 0.25 * (conf.get("commit_delay") == "100") - 0.2 * (conf.get("wal_compression") == "lz4")


def carried_out(facts: TuningFacts, step: Step) -> TuningFacts:
    """The facts after a step, with latencies that vary by 3 %."""
    after = TABLE.carry_out(facts, step)
    chance = np.random.default_rng([facts.plan.seed, step.number])
    return replace(
        after,
        measured=tuple(
            trial
            if trial.step != step.number
            else replace(
                trial, limit_value=10 * math.exp(latency(trial.candidate) + 0.03 * chance.standard_normal())
            )
            for trial in after.measured
        ),
    )


@pytest.fixture(scope="module")
def tunings() -> list[TuningFacts]:
    found = []
    for seed in range(8):
        plan = plan_of(FACTORS, trials=90, seed=seed, objective=Objective("tps", True, LIMIT))
        facts, search = TuningFacts(plan, trial_s=TABLE.trial_s), TuneSearch(TABLE.judge)
        while (step := search.ask(facts)) is not None:
            facts = carried_out(facts, step)
        found.append(facts)
    return found


def test_a_line_that_only_the_second_metric_needs_is_not_dropped(tunings: list[TuningFacts]) -> None:
    """Compression gives no throughput, but without it latency is beyond its limit."""
    advised = [outcome(facts, TABLE.judge).advised for facts in tunings]
    assert all(latency(candidate) <= math.log(LIMIT[1]) for candidate in advised)
    assert sum("wal_compression" in candidate.conf for candidate in advised) >= 6


def test_the_report_says_that_a_line_is_kept_for_the_second_metric(tunings: list[TuningFacts]) -> None:
    found = [outcome(facts, TABLE.judge) for facts in tunings]
    lines = [line for answer in found for line in answer.lines if line.setting == "wal_compression"]
    kept = [line for line in lines if line.in_conf]
    assert kept
    assert all(line.is_limited == line.in_conf for line in lines)
    # Its gain may be proven as well.
    assert {line.verdict for line in kept} <= {LineVerdict.SAFETY, LineVerdict.KEPT}
    assert sum(line.verdict is LineVerdict.SAFETY for line in kept) > len(kept) / 2


def test_what_the_final_step_measures_beyond_the_limit_is_not_advised(tunings: list[TuningFacts]) -> None:
    facts = next(facts for facts in tunings if not outcome(facts, TABLE.judge).defaults_are_best)
    found = outcome(facts, TABLE.judge)
    final = race.latest(facts, Purpose.FINAL)
    assert final is not None
    slow = replace(
        facts,
        measured=tuple(
            replace(trial, limit_value=(trial.limit_value or 0.0) * 1.2)
            if trial.step == final.number and trial.candidate == found.advised
            else trial
            for trial in facts.measured
        ),
    )
    refused = outcome(slow, TABLE.judge)
    assert (refused.advised, refused.defaults_are_best, refused.expected) == (DEFAULT, True, None)
    assert refused.gain == found.gain, "it was better, and the report says by how much"
    assert refused.second is not None
    assert refused.second > LIMIT[1]
    # What the final step measured chooses no other configuration.
    assert TuneSearch(TABLE.judge).short(slow) == found.advised
    # And what is not advised is neither crashed nor run on emulated disks.
    at = slow.steps.index(final)
    measured = tuple(trial for trial in slow.measured if trial.step <= final.number)
    spent_s = sum(trial.seconds for trial in measured)
    ended = replace(slow, steps=slow.steps[: at + 1], measured=measured, spent_s=spent_s)
    following = TuneSearch(TABLE.judge).ask(ended)
    assert following is not None
    assert (following.purpose, following.candidates) == (Purpose.FLUSH, (DEFAULT,))


def test_shorter_confs_beyond_the_limit_are_passed_over() -> None:
    """Of a chain whose confs are all as fast the last one within the limit is left."""
    chain = tuple(
        Candidate.of(conf)
        for conf in (
            {"commit_delay": "100", "wal_buffers": "64MB", "wal_compression": "lz4"},
            {"commit_delay": "100", "wal_compression": "lz4"},
            {"commit_delay": "100"},
        )
    )
    step = Step(2, Purpose.LINES, chain, 4, 1)
    measured = tuple(
        TrialAnswer(2, number, candidate, 1000.0 + number) for number in range(1, 5) for candidate in chain
    )
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), step)
    facts = TuningFacts(plan_of(FACTORS, trials=100, seed=1), steps, measured)
    guessed = dict.fromkeys(chain[1:], 0.0)
    assert shortest(facts, step, guessed) == chain[2]
    assert shortest(facts, step, guessed, lambda conf: "wal_compression" in conf.conf) == chain[1]
