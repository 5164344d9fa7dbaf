"""What a segment cost, from two clocks of which neither is right alone."""

from __future__ import annotations

import threading

import pytest

from walproof.probe import replay
from walproof.probe.replay import ReplayCourse, ReplayWatch, SegmentStart


def course(*starts: SegmentStart) -> ReplayCourse:
    return ReplayCourse(starts, cpu_s=0.0, waited_s=0.0, read_bytes=None)


@pytest.mark.parametrize(
    ("cpu_s", "ran_s", "expected"),
    [
        # Between two ticks of the kernel the wall's clock tells.
        (0.020, 0.0235, 0.0235),
        (0.024, 0.0205, 0.0205),
        # Who waits for a disk does not use the processor.
        (0.020, 1.0, 0.030),
        (0.200, 0.001, 0.190),
    ],
)
def test_a_segment_costs_the_time_that_passed_as_far_as_it_was_cpu(
    cpu_s: float, ran_s: float, expected: float
) -> None:
    found = course(
        SegmentStart("A", 1.0, 50.0), SegmentStart("B", 1.0 + cpu_s, 50.0 + ran_s)
    ).segments_cpu_s()
    assert found == {"A": pytest.approx(expected)}


def test_the_last_segment_has_no_end() -> None:
    assert course(SegmentStart("A", 1.0, 2.0)).segments_cpu_s() == {}
    assert course().segments_cpu_s() == {}


def test_a_startup_process_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is kept; /proc/PID/io may not be read at all."""
    schedules = [(2_000_000_000, 500_000_000), None]
    gone = threading.Event()

    def read_schedule(_: int) -> tuple[int, int] | None:
        schedule = schedules.pop(0)
        if schedule is None:
            gone.set()
        return schedule

    monkeypatch.setattr(replay, "startup_pid", lambda _: 3)
    monkeypatch.setattr(
        replay, "read_title", lambda _: "postgres: startup recovering 000000010000000000000003"
    )
    monkeypatch.setattr(replay, "read_schedule", read_schedule)
    monkeypatch.setattr(replay, "read_io", lambda _: {})
    watch = ReplayWatch()
    watch.start(1)
    assert gone.wait(10)
    found = watch.stop()
    assert [start.segment for start in found.starts] == ["000000010000000000000003"]
    assert (found.cpu_s, found.waited_s, found.read_bytes) == (2.0, 0.5, None)
