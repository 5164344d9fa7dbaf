"""How numbers read."""

from __future__ import annotations

import pytest

from walproof.analysis.interval import Interval
from walproof.report.numbers import counted, number, p_value, percent, ratio, with_interval


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
    assert (
        with_interval(0.00143, Interval(0.00138, 0.00148, 0.95, "t"), 1000, "ms") == "1.43 ms (1.38 to 1.48)"
    )
    assert with_interval(0.00143, None, 1000, "ms") == "1.43 ms"


def test_other_forms() -> None:
    assert percent(None) == "-"
    assert percent(0.83) == "83 %"
    assert p_value(0.0001) == "< 0.001"
    assert p_value(0.034) == "0.034"
    assert p_value(None) == "-"
    assert counted(1, "trial") == "1 trial"
    assert counted(2, "trial") == "2 trials"
