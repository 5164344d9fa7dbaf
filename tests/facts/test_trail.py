"""Where the end of WAL was: every point of the last minutes, and one a minute of two days."""

from __future__ import annotations

from itertools import pairwise

import pytest

from walproof.facts.trail import RECENT_S, THIN_S, Trail

DAY_S = 86400


def test_old_points_are_thinned_and_forgotten_after_two_days() -> None:
    trail = Trail()
    for second in range(0, 3 * DAY_S, 10):
        trail.add(float(second), 1000 * second)
    points = trail.points
    last_s = points[-1][0]
    recent = [point for point in points if point[0] >= last_s - RECENT_S]
    older = points[: -len(recent)]
    assert len(recent) == RECENT_S / 10 + 1
    assert {later - earlier for (earlier, _), (later, _) in pairwise(older)} == {THIN_S}
    assert list(points) == sorted(points)
    assert last_s - points[0][0] == pytest.approx(2 * DAY_S, abs=THIN_S)
    assert all(position == 1000 * at_s for at_s, position in points)


def test_a_trail_that_is_cleared_begins_anew() -> None:
    trail = Trail()
    assert not trail.points
    trail.add(0.0, 5)
    trail.clear()
    trail.add(1.0, 3)
    assert list(trail.points) == [(1.0, 3)]
