"""Changes of a row's level: how often one is seen that is not there, what is found, how large it is said."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from walproof.analysis import change_points as module
from walproof.analysis.change_points import LEAST, LEVEL, MOST, change_points


def test_a_row_without_a_change_is_rarely_called_changed() -> None:
    """100 rows of each kind. 1 % of them may be; more than 5 are one time in 1,900."""
    chance = np.random.default_rng(3)
    for draw in (chance.standard_normal, chance.standard_cauchy):
        changed = sum(bool(change_points(list(draw(14)))) for _ in range(100))
        assert changed <= 5, draw


def test_a_step_is_found_where_it_is_and_its_size_is_in_the_interval() -> None:
    chance = np.random.default_rng(4)
    exact = held = 0
    for _ in range(30):
        row = chance.normal(0.0, 0.02, 30)
        row[18:] -= 0.08
        found = change_points(list(row))
        assert found, "four standard deviations in 30 values"
        exact += any(change.place == 18 for change in found)
        held += any(change.interval.contains(-0.08) for change in found)
        assert all(change.p <= LEVEL for change in found)
    assert exact >= 27
    assert held >= 25


def test_a_spike_is_no_change_of_the_level_and_two_steps_are_two() -> None:
    chance = np.random.default_rng(5)
    row = chance.normal(0.0, 0.02, 40)
    row[20] += 0.5
    assert change_points(list(row)) == []
    row = chance.normal(0.0, 0.02, 45)
    row[15:30] += 0.1
    first, second = change_points(list(row))  # a level that came back
    assert (first.place, second.place) == (15, 30)
    assert first.difference == pytest.approx(0.1, abs=0.03)
    assert second.difference == pytest.approx(-0.1, abs=0.03)


def test_no_level_is_a_single_value() -> None:
    """The stretch from the second value on left one before it, of which no variance is known: an error."""
    row = [1.0, *[0.0] * 39, 1.0, 1.0]
    for values in (row, row[::-1]):
        (places,), _ = module._stretches(np.array([values]))
        begin, end = (int(place) for place in places)
        assert begin == 0 or begin >= 2
        assert end == 42 or end <= 40
        for change in change_points(values):
            assert 2 <= change.place <= 40


def test_the_p_value_is_that_of_all_orders() -> None:
    """Seven values have 5,040 orders, which can all be tried; LEAST is set aside for that."""
    row = np.array([0.0, 0.1, 0.05, 0.9, 1.1, 1.0, 0.95])
    orders = np.array(list(itertools.permutations(row)))
    statistic = module._steps(row[None, :])[1][0]
    exact = (module._steps(orders)[1] >= statistic * (1 - 1e-9)).mean()
    # The step at its place, or mirrored: 2 of 35 ways to take 3 of 7.
    assert exact == pytest.approx(2 * 6 * 24 / 5040)


def test_too_few_equal_and_very_many_values_are_no_trouble() -> None:
    assert change_points([]) == []
    assert change_points([0.0] * 4 + [1.0] * (LEAST - 5)) == []
    assert change_points([1.5] * 50) == []
    (found,) = change_points([1.0] * 10 + [2.0] * 10)
    assert (found.place, found.difference, found.interval.low) == (10, 1.0, 1.0)
    chance = np.random.default_rng(6)
    row = [*chance.normal(5, 1, 300), *chance.normal(0, 1, MOST // 2), *chance.normal(3, 1, MOST // 2)]
    places = [point.place for point in change_points(row)]
    assert any(abs(place - (300 + MOST // 2)) <= 2 for place in places)
    assert all(place > 300 for place in places), "the oldest are left out"


def test_the_same_row_has_the_same_changes() -> None:
    row = list(np.random.default_rng(8).normal(0, 1, 60))
    assert change_points(row) == change_points(row)
