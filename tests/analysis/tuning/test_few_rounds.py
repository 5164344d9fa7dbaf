"""A comparison whose own few rounds contradict the others': one rule for all that is said of a step."""

from __future__ import annotations

import math

from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, plan_of
from walproof.analysis.inference.spread import Pooling
from walproof.analysis.tuning.ablation import final_candidates, line_tests
from walproof.analysis.tuning.proof import against_default
from walproof.analysis.tuning.search import FINAL_ROUNDS
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import compare, compared_in, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TrialAnswer, TuningFacts

BOTH = Candidate.of({"commit_delay": "100", "wal_compression": "lz4"})
DELAYED = Candidate.of({"commit_delay": "100"})
PLAN = plan_of((COMPRESSION, DELAY), trials=100, seed=1)
FINAL = Step(3, Purpose.FINAL, (DEFAULT, BOTH, DELAYED), 3, 3)


def _facts() -> TuningFacts:
    """Six rounds that vary by 3 %, then three of which one configuration's vary by a half."""
    steps = (
        Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),
        Step(2, Purpose.CONFIRM, (DEFAULT, BOTH), 6, 2),
        FINAL,
    )
    measured = [TrialAnswer(1, 1, DEFAULT, 1000.0)]
    for number in range(1, 7):
        measured.append(TrialAnswer(2, number, DEFAULT, 1000.0))
        measured.append(TrialAnswer(2, number, BOTH, 1100.0 * math.exp(0.03 * (-1) ** number)))
    for number, log in enumerate((0.5, -0.4, 0.05), 1):
        measured.append(TrialAnswer(3, number, DEFAULT, 1000.0))
        measured.append(TrialAnswer(3, number, BOTH, 1000.0 * math.exp(log)))
        measured.append(TrialAnswer(3, number, DELAYED, 1000.0 * math.exp(0.001 * number)))
    return TuningFacts(PLAN, steps, tuple(measured), 600.0, 20.0)


def test_the_sentence_and_the_table_take_noise_from_the_same_trials() -> None:
    facts = _facts()
    pairs = [(BOTH, DEFAULT), (DELAYED, DEFAULT)]
    alone, _ = compare(objective_values(facts, [3]), pairs)
    assert alone.spread is not None
    assert (alone.spread.pooling, alone.spread.degrees) == (Pooling.OWN, 2)
    found, _ = compared_in(facts, FINAL, pairs)
    told = against_default(facts, FINAL)[BOTH]
    assert told == found
    assert told.spread is not None
    assert told.spread.pooling is Pooling.ALL
    assert told.spread.degrees >= 5
    tests = {test.setting: test for test in line_tests(facts, Space(PLAN), FINAL, BOTH, lambda _: True)}
    line = tests["wal_compression"].left_out
    assert line is not None
    assert line.spread == told.spread


def test_a_final_step_has_three_rounds_or_fewer_configurations() -> None:
    assert FINAL_ROUNDS[0] == 3
    plans = final_candidates(Space(PLAN), BOTH, DELAYED, None, lambda _: True)
    assert plans[-1] == (DEFAULT, DELAYED)
