"""How long another round takes: the longest so far, without the first, which may prepare something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.facts import plans
from walproof.facts.run import next_round_s


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [((), 0.0), ((80.0,), 80.0), ((80.0, 45.0), 45.0), ((80.0, 45.0, 50.0), 50.0), ((40.0, 45.0), 45.0)],
)
def test_a_round_is_as_long_as_the_longest_after_the_first(
    lengths: tuple[float, ...], expected: float
) -> None:
    # Two trials a round, of a quarter and three quarters of it.
    trials = [
        replace(plans.trial(2 * number + at, round_number=number), started_at=0.0, ended_at=share * length)
        for number, length in enumerate(lengths, 1)
        for at, share in enumerate((0.25, 0.75))
    ]
    assert next_round_s(trials) == pytest.approx(expected)
