"""What is said of the best configuration while a tuning goes on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.tuning.synthetic import FACTORS, plan_of
from walproof.advise.tune.standing import say_standing, standing
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TrialAnswer, TuningFacts

COMPRESSED, DELAYED = Candidate.of({"wal_compression": "lz4"}), Candidate.of({"commit_delay": "100"})
BOTH = Candidate.of({**COMPRESSED.conf, **DELAYED.conf})
SLOWER = Candidate.of({"max_wal_size": "4GB"})
GAINS = {SLOWER: -0.2, DEFAULT: 0.0, COMPRESSED: 0.1, DELAYED: 0.06, BOTH: 0.16}


def facts_of(*steps: tuple[Purpose, int, tuple[Candidate, ...]]) -> TuningFacts:
    """Of steps with (purpose, rounds, candidates): the recording, and these."""
    chance = np.random.default_rng(5)
    taken = [Step(1, Purpose.RECORD, (DEFAULT,), 1, 1)]
    measured = [TrialAnswer(1, 1, DEFAULT, 1000.0, seconds=20.0)]
    for number, (purpose, rounds, candidates) in enumerate(steps, start=2):
        taken.append(Step(number, purpose, candidates, rounds, number))
        for at in range(1, rounds + 1):
            level = 0.1 * chance.standard_normal()
            for candidate in candidates:
                value = 1000 * math.exp(GAINS[candidate] + level + 0.01 * chance.standard_normal())
                measured.append(TrialAnswer(number, at, candidate, value, seconds=20.0))
    plan = plan_of(FACTORS, trials=100, seed=1)
    return TuningFacts(plan, tuple(taken), tuple(measured), spent_s=20.0 * len(measured))


def test_before_anything_was_compared_the_defaults_are_best() -> None:
    found = standing(facts_of())
    assert (found.candidate, found.ratio, found.left_s) == (DEFAULT, None, 1980.0)
    assert say_standing(found, "tps") == "best so far: the defaults"


def test_defaults_that_break_a_promise_are_not_the_best_so_far() -> None:
    facts = facts_of((Purpose.SCREEN, 1, (DEFAULT, SLOWER)))
    broken = replace(facts, steps=tuple(replace(step, is_default_ruled_out=True) for step in facts.steps))
    assert standing(facts).candidate == DEFAULT
    assert say_standing(standing(broken), "tps").startswith("best so far: max_wal_size=4GB: about 0.")
    recorded = replace(broken, steps=broken.steps[:1], measured=broken.measured[:1])
    assert say_standing(standing(recorded), "tps") == "nothing that keeps the promises was measured yet"


def test_what_never_ran_beside_the_defaults_has_its_ratio_all_the_same() -> None:
    facts = facts_of(
        (Purpose.SCREEN, 3, (DEFAULT, COMPRESSED, DELAYED)), (Purpose.SEARCH, 3, (COMPRESSED, BOTH, DELAYED))
    )
    found = standing(facts)
    assert found.candidate == BOTH
    assert found.ratio == pytest.approx(math.exp(0.16), rel=0.02)
    assert found.interval is not None
    assert found.interval.contains(math.exp(0.16))
    assert say_standing(found, "tps").startswith("best so far: commit_delay=100 wal_compression=lz4: 1.1")


def test_after_the_race_it_is_what_is_confirmed_and_tested() -> None:
    facts = facts_of(
        (Purpose.SCREEN, 2, (DEFAULT, COMPRESSED, BOTH)), (Purpose.CONFIRM, 2, (DEFAULT, COMPRESSED))
    )
    assert standing(facts).candidate == COMPRESSED
