"""Numbers in sentences."""

from __future__ import annotations

import math

import pytest

from walproof.advise.wording import (
    reach_both,
    reach_down,
    reach_up,
    say_none,
    say_ratio,
    say_ratio_in_brackets,
)
from walproof.analysis.interval import Interval


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (3.9, 3.7, 4.1, "3.9x (3.7 to 4.1)"),
        (0.99, 0.97, 1.02, "0.99x (0.97 to 1.02)"),
        (18.4, 16.1, 20.9, "18.4x (16.1 to 20.9)"),
        (6.05, 6.04, 6.06, "6.05x (6.04 to 6.06)"),
        (0.5, 0.3, 0.59, "0.50x (0.30 to 0.59)"),
        (0.5, 0.2, 1.2, "0.20x to 1.20x"),
        (1.11, 0.03, 45.67, "0.030x to 46x"),
        (6.0, 2.5, 14.4, "2.50x to 14x"),
        (1.1, 0.0, math.inf, "not known yet"),
        (1.1, 0.0, 5.0, "not known yet"),
        (1.1, 0.2, math.inf, "not known yet"),
        (1.1, 1e-60, 1e60, "not known yet"),
        (0.004, 0.002, 0.009, "0.0020x to 0.0090x"),
        (4.0, 4.0, 4.0, "4.00x (4.00 to 4.00)"),
    ],
)
def test_ratio_has_the_digits_of_its_interval(ratio: float, low: float, high: float, text: str) -> None:
    assert say_ratio(ratio, Interval(low, high, 0.95, "t")) == text


def test_an_end_next_to_one_never_reads_as_one() -> None:
    """1.003 to 1.02 excludes 1: two decimals would read "1.00 to 1.02"."""
    assert say_ratio(1.012, Interval(1.003, 1.021, 0.95, "t")) == "1.012x (1.003 to 1.021)"
    assert say_ratio(0.98, Interval(0.96, 0.9996, 0.95, "t")) == "0.9800x (0.9600 to 0.9996)"


def test_ratio_without_interval() -> None:
    assert say_ratio(3.9, None) == "3.90x"
    assert say_ratio(18.43, None) == "18.4x"


def test_ratio_in_brackets() -> None:
    assert say_ratio_in_brackets(0.99, Interval(0.97, 1.02, 0.95, "t")) == "0.99x, 0.97 to 1.02"
    assert say_ratio_in_brackets(1.0, Interval(0.0, math.inf, 0.95, "t")) == "not known yet"


def _interval(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "t")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], ""),
        ([("a", None), ("b", None)], "whether one is better is not known from one round"),
        ([("a", _interval(0.9, 1.1)), ("b", _interval(0.97, 1.02))], "none is better"),
        (
            [("a", _interval(0.9, 1.1)), ("b", _interval(0.4, 2.5))],
            "whether one is better is not known yet: 0.40x to 2.50x fits what was measured (b)",
        ),
        ([("a", _interval(0.0, math.inf))], "whether one is better is not known yet"),
        (
            [("a", _interval(0.9, 1.1)), ("b", None), ("c", None)],
            "whether one is better is not known: one round only of b and c",
        ),
    ],
)
def test_none_is_an_answer_only_where_no_interval_reaches_far(
    found: list[tuple[str, Interval | None]], said: str
) -> None:
    assert say_none("none is better", "whether one is better", found, reach_both) == said


def test_an_interval_counts_in_the_direction_that_is_asked_for() -> None:
    lower, higher = [("a", _interval(0.5, 1.1))], [("a", _interval(0.95, 2.0))]
    assert say_none("none", "whether", lower, reach_up) == "none"
    assert say_none("none", "whether", lower, reach_down).startswith("whether is not known yet")
    assert say_none("none", "whether", higher, reach_down) == "none"
    assert say_none("none", "whether", higher, reach_up).startswith("whether is not known yet")
