"""The limit on a second metric: its direction, and that nothing beyond it is advised."""

from __future__ import annotations

import math

import pytest

from tests.analysis.tuning.synthetic import FACTORS, plan_of
from walproof.analysis.tuning import race
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
