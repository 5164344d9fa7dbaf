"""Outlier flags on the median absolute deviation."""

from __future__ import annotations

import random

import pytest

from walproof.analysis.outlier import COUNT_MIN, flag_outliers, modified_z_scores


def test_scores_by_hand() -> None:
    """Median 3, absolute deviations 2 1 0 1 97: their median is 1, so a score is 0.6745 x distance."""
    scores = modified_z_scores([1.0, 2.0, 3.0, 4.0, 100.0])
    assert scores == pytest.approx((-1.349, -0.6745, 0.0, 0.6745, 65.4265))


def test_one_far_value_is_flagged_and_no_other() -> None:
    assert flag_outliers([0.01, -0.02, 0.0, 0.02, -0.9]) == (False, False, False, False, True)


def test_two_outliers_do_not_hide_one_another() -> None:
    """A plain z-score of two equal outliers among seven is below 2; the median does not move."""
    flags = flag_outliers([0.0, 0.01, -0.01, 0.02, -0.02, 5.0, 5.0])
    assert flags == (False,) * 5 + (True, True)


def test_mostly_equal_values() -> None:
    assert flag_outliers([1.0] * 12 + [9.0]) == (False,) * 12 + (True,)
    assert flag_outliers([1.0] * 6) == (False,) * 6
    assert modified_z_scores([]) == ()


def test_too_few_values_have_no_outliers() -> None:
    assert flag_outliers([0.0, 0.001, 0.5, 0.0]) == (False,) * 4
    assert COUNT_MIN == 5


@pytest.mark.parametrize(("count", "share"), [(5, 0.20), (7, 0.165), (10, 0.125), (20, 0.09)])
def test_how_often_normal_noise_is_flagged(count: int, share: float) -> None:
    """The module's warning, measured: share of groups of normal values with any flag."""
    chance = random.Random(count)
    groups = [any(flag_outliers([chance.gauss(0, 1) for _ in range(count)])) for _ in range(1500)]
    assert sum(groups) / 1500 == pytest.approx(share, abs=0.045)
