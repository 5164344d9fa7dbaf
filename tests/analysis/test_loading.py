"""Who limits a load, and where a curve stops to rise, on made figures."""

from __future__ import annotations

import pytest

from walproof.analysis.loading import Busy, Knee, find_knee, who_was_busy


@pytest.mark.parametrize(
    ("metrics", "busy"),
    [
        ({"client_busy": 0.97, "server_busy": 0.4}, Busy.CLIENT),
        ({"client_busy": 0.97, "server_busy": 0.99}, Busy.SERVER),
        ({"client_busy": 0.1, "server_busy": 0.9, "wait_share.IO:WalSync": 0.5}, Busy.SERVER),
        ({"client_busy": 0.1, "server_busy": 0.2, "wait_share.IO:WalSync": 0.5}, Busy.DISK),
        ({"client_busy": 0.1, "server_busy": 0.2, "wait_share.Lock:extend": 0.5}, Busy.LOCKS),
        ({"client_busy": 0.1, "server_busy": 0.2, "wait_share.LWLock:BufferContent": 0.5}, Busy.LOCKS),
        ({"client_busy": 0.1, "server_busy": 0.2, "wait_share.Buffer:BufferExclusive": 0.5}, Busy.LOCKS),
        ({"client_busy": 0.45, "server_busy": 0.5, "wait_share.Client:ClientRead": 0.5}, Busy.IN_TURN),
        ({"client_busy": 0.1, "server_busy": 0.2}, Busy.WAITING),
        ({"client_busy": 0.9}, None),
    ],
)
def test_who_was_busy(metrics: dict[str, float], busy: Busy | None) -> None:
    assert who_was_busy(metrics) is busy


def test_the_knee_is_the_smallest_that_is_nearly_the_best() -> None:
    rising = [(1, 10.0), (10, 50.0), (100, 96.0), (1000, 100.0), (10_000, 90.0)]
    assert find_knee(rising) == Knee(100, 96.0, is_past=True)
    assert find_knee(list(reversed(rising))) == find_knee(rising)
    assert find_knee(rising[:2]) == Knee(10, 50.0, is_past=False)
    assert find_knee([]) is None
