"""A stream that is read no faster than was said."""

from __future__ import annotations

from walproof.observe.pace import RateBucket


def test_over_a_minute_the_rate_is_kept() -> None:
    pace, now_s, read = RateBucket(1000), 0.0, 0
    while now_s < 60.0:
        wait_s = pace.wait_s(now_s)
        if wait_s > 0:
            now_s += max(1e-6, min(wait_s, 0.2))
            continue
        pace.took(300)
        read += 300
        now_s += 0.001
    assert 59_000 <= read <= 61_500


def test_what_was_not_read_for_long_is_not_caught_up_at_once() -> None:
    pace = RateBucket(1000)
    assert pace.wait_s(0.0) == 0.0
    assert pace.wait_s(3600.0) == 0.0
    pace.took(1500)
    assert pace.wait_s(3600.0) == 0.5
