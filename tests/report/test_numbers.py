"""How numbers read."""

from __future__ import annotations

import math

import pytest

from walproof.analysis.interval import Interval
from walproof.report.numbers import milliseconds, number, p_value, percent, ratio


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (3525.12, "3525"),
        (582.17, "582"),
        (99.96, "100"),
        (85.816, "85.8"),
        (1.0, "1.00"),
        (0.0712, "0.0712"),
        (0.00002, "2e-05"),
        (-12.34, "-12.3"),
        (1_234_567.0, "1234567"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_ratio_and_interval() -> None:
    assert ratio(None) == "-"
    assert ratio(0.987, None) == "0.99x"
    assert ratio(5.9, Interval(5.5, 6.3, 0.95, "t")) == "5.9x (5.5 to 6.3)"
    assert milliseconds(0.00143, Interval(0.00138, 0.00148, 0.95, "t")) == "1.43 ms (1.38 to 1.48)"
    assert milliseconds(0.00143, None) == "1.43 ms"


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.0065, 0.00401, 0.0121, "0.0040x to 0.012x"),
        (0.3, 0.04, 1.2, "0.040x to 1.20x"),
        (0.00523, 0.00501, 0.00546, "0.0052x (0.0050 to 0.0055)"),
        (0.1, 0.0951, 0.105, "0.10x (0.095 to 0.10)"),
        (0.00001234, 0.0000121, 0.0000126, "0.000012x (0.000012 to 0.000013)"),
        (0.5, 0.1, 11.0, "0.10x to 11x"),
        (0.5, 0.0, math.inf, "not known yet"),
    ],
)
def test_a_ratio_near_zero_is_not_rounded_to_zero(value: float, low: float, high: float, text: str) -> None:
    assert ratio(value, Interval(low, high, 0.95, "t")) == text


def test_a_small_ratio_without_an_interval() -> None:
    assert ratio(0.00404) == "0.0040x"
    assert ratio(0.1) == "0.10x"


def test_other_forms() -> None:
    assert percent(None) == "-"
    assert percent(0.83) == "83 %"
    assert p_value(0.0001) == "< 0.001"
    assert p_value(0.034) == "0.034"
    assert p_value(None) == "-"
