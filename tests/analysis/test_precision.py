"""Rounds still needed."""

from __future__ import annotations

import math

from tests.analysis.facts import DEFAULT, FSYNC_OFF, make_plan, make_trials
from walproof.analysis.effect import Effect, effects
from walproof.analysis.interval import t_quantile
from walproof.analysis.precision import rounds_for, rounds_table
from walproof.facts import Cell

PLAN = make_plan((DEFAULT, FSYNC_OFF))


def truth(cell: Cell) -> float:
    return 2000.0 if cell[2] == "fsync=off" else 500.0


def effect_of(rounds: int, noise: float = 0.05, seed: int = 1) -> Effect:
    return effects(PLAN, make_trials(PLAN, rounds, truth, noise=noise, seed=seed))[0]


def test_rounds_for_is_the_smallest_number_that_does() -> None:
    """With the spread seen, n rounds reach exp(t s / sqrt n) - 1: the answer does, one less does not."""
    effect = effect_of(5)
    logs = [math.log(pair.ratio) for pair in effect.ratios]
    mean = sum(logs) / 5
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / 4)

    def reach(count: int) -> float:
        return math.expm1(t_quantile(0.95, count - 1) * spread / math.sqrt(count))

    for half_width in (0.01, 0.02, 0.05):
        more = rounds_for(effect, half_width)
        assert more is not None
        assert more > 0
        assert reach(5 + more) <= half_width < reach(5 + more - 1)


def test_table_falls_with_the_half_width_and_ends_at_zero() -> None:
    table = rounds_table(effect_of(6))
    counts = [row.more for row in table]
    assert [row.half_width for row in table] == [0.01, 0.02, 0.05, 0.10]
    assert None not in counts
    assert counts == sorted(counts, key=lambda count: -(count or 0))
    assert rounds_for(effect_of(6), 10.0) == 0
    reached = effect_of(6)
    assert reached.half_width is not None
    assert rounds_for(reached, reached.half_width) == 0


def test_one_round_says_nothing() -> None:
    assert rounds_for(effect_of(1), 0.05) is None
