"""Settings within limits: one that rules nothing out changes nothing, a tighter one never asks for more."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.analysis.test_whatif import GB, PRESENT, make, outcome
from walproof.advise.server.sizing import choice
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import Question, Study, study
from walproof.analysis.whatif_answer import answer, fits
from walproof.errors import AnalysisError
from walproof.wal.whatif import Cycles, SimulatedRun, Target

NONE = ServerLimits()
SLACK = {
    "disk": ServerLimits(wal_disk_bytes=1 << 60),
    "rate": ServerLimits(wal_per_hour_bytes=1 << 60),
    "recovery": ServerLimits(recovery_s=1e9),
    "all": ServerLimits(1 << 60, 1 << 60, 1e9),
}
TIGHTER = {
    "disk": [ServerLimits(wal_disk_bytes=1 << bits) for bits in range(44, 24, -1)],
    "disk, recovery": [ServerLimits(1 << bits, recovery_s=5.0) for bits in range(44, 24, -1)],
    "recovery": [ServerLimits(recovery_s=2.0**power) for power in range(12, -6, -1)],
    "recovery, disk": [ServerLimits(10 * GB, recovery_s=2.0**power) for power in range(12, -6, -1)],
}
MB = 1 << 20


def _short(target: Target) -> SimulatedRun:
    """30 MB of WAL in a minute: checkpoints by size up to 64 MB, and nobody knows what a larger size does."""
    size_mb = target.max_wal_size_mb or 1024
    begins = size_mb * MB / 1.9 < 40 * MB
    wal = (32 if begins else 30) + (10 if (target.checkpoint_timeout_s or 0) < 300 else 0)
    known = Cycles(1, wal * MB, 1000, 2 * MB, 60.0, 0)
    return replace(
        outcome(target), wal_bytes=wal * MB, base_bytes=2 * MB, first_image_bytes=20 * MB,
        by_size=1 if begins else 0, cycles=known if begins else Cycles(0, 0, 0, 0, None, 0),
        distance_most=22 * MB, pg_wal_most=48 * MB,
    )  # fmt: skip


def _timed(made: Study, runs: list[SimulatedRun] | None = None) -> Study:
    found = made.found if runs is None else replace(made.found, outcomes=tuple(runs))
    return study(found, made.question, lambda point: 0.1 + point.distance_most / 2e8)


def _brief(size_mb: int, timeout_s: int = 300, *, is_known: bool = True) -> Study:
    present = Target(max_wal_size_mb=size_mb, checkpoint_timeout_s=timeout_s)
    made = make(Question(present, is_present_known=is_known))
    recorded = replace(made.found.recorded, last_time_us=60_000_000)
    made = replace(made, found=replace(made.found, recorded=recorded))
    return _timed(made, [_short(target) for target in made.found.targets])


STUDIES = {
    "many cycles": _timed(make()),
    "many cycles, too large": _timed(make(Question(Target(max_wal_size_mb=50_000), is_present_known=True))),
    "completion 0.5": _timed(make(Question(replace(PRESENT, checkpoint_completion_target=0.5), True))),
    "short, the default": _brief(1024),
    "short, small": _brief(32, 30),
    "short, not known": _brief(1024, is_known=False),
    "short timeout, too large": _brief(200 << 10, 30),
}


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("slack", SLACK)
def test_a_limit_that_rules_nothing_out_changes_nothing(name: str, slack: str) -> None:
    """``--recovery-target 1h`` made 1 GB 256 MB, and gave 15 minutes."""
    made = STUDIES[name]
    assert answer(made, SLACK[slack]) == answer(made, NONE)
    assert choice(made, SLACK[slack]) == choice(made, NONE)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("tighter", TIGHTER)
def test_a_tighter_limit_never_makes_the_size_larger(name: str, tighter: str) -> None:
    made = STUDIES[name]
    answers = [answer(made, limits) for limits in (NONE, *TIGHTER[tighter])]
    sizes = [found.prediction.target.max_wal_size_mb or 0 for found in answers]
    assert all(looser >= tight for looser, tight in pairwise(sizes)), sizes
    for limits, found in zip(TIGHTER[tighter], answers[1:], strict=True):
        assert found.is_within is fits(found.prediction, limits)
    if made.question.is_present_known:
        present_mb = made.question.present.max_wal_size_mb or 0
        chosen = [choice(made, limits) for limits in (NONE, *TIGHTER[tighter])]
        advised = [present_mb if found is None else found.size_mb for found in chosen]
        assert all(looser >= tight for looser, tight in pairwise(advised)), advised


def test_a_size_that_keeps_the_limits_is_not_made_smaller() -> None:
    limits = ServerLimits(200 * GB, recovery_s=60.0)
    assert choice(_brief(1024), limits) is None
    assert answer(_brief(1024), limits).prediction.target == Target()


def test_the_size_holds_a_cycle_as_far_as_the_limits_leave_room_for_it() -> None:
    """64 MB began a checkpoint after 34 MB, where 5 minutes write 150 MB."""
    made = _brief(32, 30)
    free = answer(made, ServerLimits(recovery_s=60.0))
    assert (free.prediction.target.max_wal_size_mb, free.needed_mb) == (512, 512)
    tight = answer(made, ServerLimits(wal_disk_bytes=400 * MB))
    assert (tight.prediction.target.max_wal_size_mb, tight.needed_mb) == (266, 512)
    quick = answer(made, ServerLimits(recovery_s=1.0))
    assert quick.is_within
    assert (quick.prediction.target.max_wal_size_mb, quick.needed_mb) == (128, 512)


def test_less_than_two_cycles_do_not_show_how_much_wal_is_kept() -> None:
    """The longest recovery was that of the recording, not of a cycle and the checkpoint after it."""
    made = _brief(64)
    assert made.present.cycles == 1
    # Two segments to a checkpoint, and the next one is complete 0.9 of that later.
    assert made.present.pg_wal_most == pytest.approx(1.9 * 32 * MB, rel=0.01)
    assert made.present.distance_most == pytest.approx(1.9 * 32 * MB, rel=0.01)


def test_a_rate_of_wal_is_kept_with_the_least() -> None:
    found = make()
    kept = answer(found, ServerLimits(wal_disk_bytes=100 * GB, wal_per_hour_bytes=4 * GB))
    assert kept.is_within
    assert kept == answer(found, ServerLimits(wal_disk_bytes=100 * GB))
    impossible = answer(found, ServerLimits(wal_disk_bytes=GB, wal_per_hour_bytes=2 * GB))
    assert not impossible.is_within
    assert impossible.prediction.target.max_wal_size_mb is not None
    assert impossible.prediction.target.max_wal_size_mb <= 1024
    assert answer(found, ServerLimits(wal_disk_bytes=1)).is_within is False


def test_a_rate_is_not_asked_of_a_recording_without_times() -> None:
    """Its WAL as a whole is not that of an hour."""
    made = make()
    recorded = replace(made.found.recorded, first_time_us=None, last_time_us=None)
    timeless = study(replace(made.found, recorded=recorded), made.question)
    assert timeless.hours is None
    with pytest.raises(AnalysisError, match="how much WAL an hour this is, is not known"):
        answer(timeless, ServerLimits(wal_per_hour_bytes=1 << 60))
    assert answer(timeless, ServerLimits(wal_disk_bytes=1 << 60)).is_within
