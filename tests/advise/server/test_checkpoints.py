"""Sizes and timeouts that are advised: with a curve, without one, and with a room that is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found as asked
from tests.advise.server.windows import healthy, with_counters, with_settings
from tests.analysis.test_whatif import make, outcome
from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.checkpoints import max_wal_size
from walproof.advise.server.sizing import choice
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import Question, Study, study
from walproof.analysis.whatif_answer import enough_mb
from walproof.facts.server import ServerWindow
from walproof.units import parse_bytes
from walproof.wal.whatif import Cycles, SimulatedRun, Target

TIMES = 1.4
"""How much more WAL there is with checkpoints that begin after less than five minutes."""


def _outcome(target: Target) -> SimulatedRun:
    # A size that decides nothing: all of the difference is the timeout's.
    found = outcome(replace(target, max_wal_size_mb=4096))
    is_short = (target.checkpoint_timeout_s or 300) < 300
    return replace(found, wal_bytes=int(found.wal_bytes * (TIMES if is_short else 1)))


@pytest.mark.parametrize("timeout_s", [30, 300])
def test_a_short_timeout_is_made_longer_where_that_saves_wal(timeout_s: int) -> None:
    question = Question(Target(max_wal_size_mb=4096, checkpoint_timeout_s=timeout_s), is_present_known=True)
    made = make(question)
    simulated = replace(made.found, outcomes=tuple(_outcome(target) for target in made.found.targets))
    found = choice(study(simulated, question), ServerLimits())
    if timeout_s == 300:
        assert found is None
    else:
        assert found is not None
        assert ("checkpoint_timeout", "5min") in {(change.name, change.value) for change in found.changes}


def _study(present: Target, *, has_cycles: bool) -> Study:
    """As ``_outcome`` has it, from an hour or from so short a window that nothing has a whole cycle."""
    question = Question(present, is_present_known=True)
    made = make(question)
    outcomes = [_outcome(target) for target in made.found.targets]
    if not has_cycles:
        none = Cycles(0, 0, 0, 0, None, 0)
        outcomes = [replace(outcome, cycles=none, by_size=0) for outcome in outcomes]
    return study(replace(made.found, outcomes=tuple(outcomes)), question)


@pytest.mark.parametrize("has_cycles", [False, True])
@pytest.mark.parametrize("room", [None, "300GB"])
def test_a_size_that_has_its_room_is_never_made_smaller(has_cycles: bool, room: str | None) -> None:
    present = Target(max_wal_size_mb=200 << 10, checkpoint_timeout_s=30)
    limits = ServerLimits(wal_disk_bytes=None if room is None else parse_bytes(room))
    found = choice(_study(present, has_cycles=has_cycles), limits)
    assert found is not None
    assert [(change.name, change.value) for change in found.changes] == [("checkpoint_timeout", "5min")]
    tight = choice(_study(present, has_cycles=has_cycles), ServerLimits(wal_disk_bytes=10 << 30))
    assert tight is not None
    assert tight.size_mb is not None
    assert tight.size_mb <= 10 << 10


@pytest.mark.parametrize("completion", [0.5, 0.9])
def test_a_size_holds_a_cycle_of_the_advised_settings(completion: float) -> None:
    present = Target(max_wal_size_mb=64, checkpoint_timeout_s=30, checkpoint_completion_target=completion)
    found = choice(_study(present, has_cycles=False), ServerLimits())
    assert found is not None
    assert found.prediction.target.checkpoint_timeout_s == 300
    assert found.size_mb == found.needed_mb == found.prediction.target.max_wal_size_mb
    assert found.size_mb is not None
    cycle = found.prediction.wal_bytes / 3600 * 300
    assert (found.size_mb << 20) / 1.9 > cycle


@pytest.mark.parametrize("cycle_mb", [1, 16, 33, 100, 500, 3000])
@pytest.mark.parametrize("segment_mb", [1, 16, 64])
def test_enough_is_enough_in_whole_segments(cycle_mb: int, segment_mb: int) -> None:
    size_mb = enough_mb(cycle_mb << 20, 0.5, segment_mb << 20)
    for completion in (0.5, 0.9):
        target = Target(max_wal_size_mb=size_mb, checkpoint_completion_target=completion)
        segments = target.checkpoint_segments(segment_mb << 20)
        assert segments is not None
        assert segments * segment_mb >= cycle_mb


def _without_wal(window: ServerWindow, room: str | None = None, recovery_s: float | None = None) -> Found:
    limits = ServerLimits(None if room is None else parse_bytes(room), recovery_s=recovery_s)
    answer = asked("max_wal_size", window, limits=limits)
    assert answer is not None
    return answer


def _set_to(answer: Found) -> dict[str, str]:
    assert isinstance(answer, Advice), answer
    return {change.name: change.value for change in answer.changes}


SHORT = with_settings(healthy(), checkpoint_timeout="30s", max_wal_size="200GB")


def test_a_short_timeout_is_seen_without_the_wal() -> None:
    assert _set_to(_without_wal(SHORT)) == {"checkpoint_timeout": "5min"}
    few = with_counters(SHORT, {"checkpoints_timed": 3.0, "checkpoints_requested": 1.0})
    assert _set_to(_without_wal(few)) == {"checkpoint_timeout": "5min"}
    bare = replace(SHORT, looks=())
    blind = _without_wal(bare)
    assert _set_to(blind) == {"checkpoint_timeout": "5min"}
    assert isinstance(blind, Advice)
    assert any("whether max_wal_size holds the WAL of 5 min" in words for words in blind.unknown)
    # 200 MB in ten minutes: what five of them write begins no checkpoint.
    small = _set_to(_without_wal(with_settings(SHORT, max_wal_size="64MB")))
    assert parse_bytes(small["max_wal_size"]) / 1.9 > 100_000_000
    assert isinstance(_without_wal(SHORT, recovery_s=10.0), Unseen)


def test_a_size_that_does_not_fit_is_a_danger_from_settings_alone() -> None:
    roomy = with_settings(replace(healthy(), slots=()), max_wal_size="200GB")
    answer = _without_wal(roomy, "10GB")
    assert isinstance(answer, Advice)
    assert (answer.weight, answer.sure) == (Weight.DANGER, Sure.HIGH)
    assert _set_to(answer) == {"max_wal_size": "6GB"}
    assert "max_wal_size = 200GB is more than 6.67 GB of --wal-disk 10.0 GB" in answer.evidence[0]
    assert any("begins sooner" in cost for cost in answer.costs)
    assert not isinstance(_without_wal(roomy, "300GB"), Advice)
    both = _without_wal(SHORT, "10GB")
    assert isinstance(both, Advice)
    assert both.weight is Weight.DANGER
    assert set(_set_to(both)) == {"max_wal_size", "checkpoint_timeout"}


@pytest.mark.parametrize(
    ("settings", "slots", "fits"),
    [
        ({}, False, 8),
        ({"archive_mode": "on"}, False, 6),
        ({"max_slot_wal_keep_size": "4GB"}, True, 6),
        ({"max_slot_wal_keep_size": "-1"}, True, 4),
        ({"max_slot_wal_keep_size": "12GB"}, True, 4),
        ({"wal_keep_size": "7GB"}, False, 5),
    ],
)
def test_room_is_left_for_who_keeps_wal(settings: dict[str, str], slots: bool, fits: int) -> None:
    """Of 12 GB; a size that took all of it was advised, and was no danger."""
    for size in (fits, fits + 1):
        window = with_settings(healthy(), max_wal_size=f"{size}GB", **settings)
        answer = _without_wal(window if slots else replace(window, slots=()), "12GB")
        if size == fits:
            assert not isinstance(answer, Advice)
        else:
            assert _set_to(answer) == {"max_wal_size": f"{fits}GB"}


@pytest.mark.parametrize(
    ("kept", "size", "slots", "advised"),
    [
        ("16GB", "4GB", False, {"wal_keep_size": "4GB"}),
        ("9GB", "4GB", False, {"wal_keep_size": "4GB"}),
        ("9728MB", "1GB", False, {"wal_keep_size": "8GB"}),
        ("16GB", "12GB", False, {"wal_keep_size": "3GB", "max_wal_size": "6GB"}),
        ("16GB", "12GB", True, {"wal_keep_size": "3GB", "max_wal_size": "5GB"}),
        ("6GB", "8GB", False, {"max_wal_size": "4GB"}),
    ],
)
def test_wal_keep_size_gives_way_before_checkpoints_never_end(
    kept: str, size: str, slots: bool, advised: dict[str, str]
) -> None:
    """Of 10 GB; max_wal_size = 32MB was advised, and pg_wal would have been full all the same."""
    window = with_settings(healthy(), wal_keep_size=kept, max_wal_size=size, max_slot_wal_keep_size="4GB")
    window = window if slots else replace(window, slots=())
    answer = _without_wal(window, "10GB")
    assert _set_to(answer) == advised
    assert isinstance(answer, Advice)
    assert answer.weight is Weight.DANGER
    assert "wal_keep_size" in answer.evidence[0]
    # What is advised fits.
    after = _without_wal(with_settings(window, **advised), "10GB")
    assert not isinstance(after, Advice), after


def test_a_curve_does_not_hide_a_wal_keep_size_that_fills_the_room() -> None:
    window = with_settings(healthy(), wal_keep_size="16GB", max_wal_size="4GB")
    made = _study(Target(max_wal_size_mb=4096, checkpoint_timeout_s=300), has_cycles=True)
    answer = max_wal_size(ServerCase(window, whatif=made, limits=ServerLimits(wal_disk_bytes=10 << 30)))
    assert answer is not None
    assert "wal_keep_size" in _set_to(answer)


def test_checkpoints_that_an_idle_server_skipped_hide_no_requested_ones() -> None:
    """Of a night's load 20 were requested, and the idle day skipped 264: that was fine before 18."""
    counted = {"checkpoints_timed": 264.0, "checkpoints_requested": 20.0}
    night = with_counters(with_settings(healthy(), max_wal_size="64MB"), counted)
    answer = _without_wal(night)
    assert isinstance(answer, Unseen)
    assert "at least 7.0 % of 284 checkpoints were requested; before 18" in answer.reason
    # The window's own WAL says that the timeout decides.
    answer = _without_wal(with_settings(night, max_wal_size="4GB"))
    assert isinstance(answer, Fine)
    assert "at the window's rate of WAL" in answer.sentence
    assert isinstance(_without_wal(replace(night, version_num=180003)), Fine)


def _written(window: ServerWindow, written: int) -> ServerWindow:
    """The window with that much WAL."""
    first, last = window.looks
    return replace(window, looks=(first, replace(last, lsn=(first.lsn or 0) + written)))


def test_what_is_doubled_keeps_within_its_room() -> None:
    window = with_settings(replace(healthy(), slots=()), max_wal_size="4GB")
    crowded = _written(with_counters(window, {"checkpoints_requested": 4000.0}), 6 << 30)
    assert _set_to(_without_wal(crowded, "9GB")) == {"max_wal_size": "6GB"}
    assert not isinstance(_without_wal(crowded, "6GB"), Advice)


@pytest.mark.parametrize(("version", "view"), [("16.14", "bgwriter"), ("18.6", "checkpointer")])
def test_checkpoints_of_years_ago_double_nothing_for_ever(version: str, view: str) -> None:
    """60 % were requested under another size, and each look doubled it again."""
    counts = {"checkpoints_timed": 4e4, "checkpoints_requested": 6e4}
    looks = tuple(replace(look, counters={**look.counters, **counts}) for look in healthy().looks)
    window = with_settings(replace(healthy(version), slots=(), looks=looks), max_wal_size="4GB")
    quiet = _without_wal(window)
    assert isinstance(quiet, Fine), quiet
    assert "at the window's rate of WAL checkpoint_timeout = 15min decides" in quiet.sentence
    busy = _without_wal(_written(window, 6 << 30))
    assert isinstance(busy, Advice)
    assert "requested since statistics were reset: by max_wal_size (now 4GB; it may have" in busy.evidence[0]
    assert f"pg_stat_reset_shared('{view}')" in busy.steps[0]
    # The window's own checkpoints count before those of all time.
    timed = with_counters(_written(window, 6 << 30), {"checkpoints_timed": 4e4 + 20})
    assert not isinstance(_without_wal(timed), Advice)


def test_a_curve_says_that_the_size_does_not_fit() -> None:
    present = Target(max_wal_size_mb=200 << 10, checkpoint_timeout_s=30)
    settings = {"max_wal_size": "200GB", "checkpoint_timeout": "30s", "max_slot_wal_keep_size": "4GB"}
    window = with_settings(healthy(), **settings)
    made = _study(present, has_cycles=True)
    tight = max_wal_size(ServerCase(window, whatif=made, limits=ServerLimits(wal_disk_bytes=10 << 30)))
    assert isinstance(tight, Advice)
    assert tight.weight is Weight.DANGER
    assert "is more than 5.00 GB of --wal-disk 10.0 GB" in tight.evidence[0]
    free = max_wal_size(ServerCase(window, whatif=made))
    assert isinstance(free, Advice)
    assert free.weight is Weight.GAIN


@pytest.mark.parametrize("completion", [0.5, 0.9])
def test_a_simulated_size_leaves_room_for_the_advised_completion_target(completion: float) -> None:
    question = Question(Target(checkpoint_completion_target=completion), is_present_known=True)
    made = make(question)
    outcomes = []
    for target in made.found.targets:
        # Above 2 GB nothing changes; ``outcome`` spaces checkpoints for a completion target of 0.9.
        run = outcome(replace(target, max_wal_size_mb=min(2048, target.max_wal_size_mb or 2048)))
        wider = {
            name: int(getattr(run.cycles, name) * 1.9 / (1 + completion))
            for name in ("wal_bytes", "base_bytes")
        }
        outcomes.append(replace(run, cycles=replace(run.cycles, **wider)))
    found = study(replace(made.found, outcomes=tuple(outcomes)), question)
    free = choice(found, ServerLimits())
    assert free is not None
    assert free.size_mb == free.prediction.target.max_wal_size_mb
    tight = choice(found, ServerLimits(wal_disk_bytes=4 << 30))
    assert tight is not None
    assert tight.size_mb == 2048
    if completion == 0.5:
        assert free.needed_mb == free.size_mb == 4096
        # More than was simulated to fit is not advised.
        assert tight.needed_mb is None
    else:
        assert (free.size_mb, free.needed_mb) == (2048, None)


@pytest.mark.parametrize(("size_mb", "room", "advised_mb"), [(32, "64MB", None), (64, "150MB", 50)])
def test_a_simulated_room_that_nothing_fits_into_changes_no_timeout(
    size_mb: int, room: str, advised_mb: int | None
) -> None:
    """A longer checkpoint_timeout was advised as the way out, and a recording as if there was none."""
    made = _study(Target(max_wal_size_mb=size_mb, checkpoint_timeout_s=30), has_cycles=True)
    window = with_settings(
        healthy(), max_wal_size=f"{size_mb}MB", checkpoint_timeout="30s", max_slot_wal_keep_size="-1"
    )
    answer = max_wal_size(
        ServerCase(window, whatif=made, limits=ServerLimits(wal_disk_bytes=parse_bytes(room)))
    )
    assert isinstance(answer, Advice)
    assert answer.weight is Weight.DANGER
    assert any("No setting tried keeps within the limits" in sentence for sentence in answer.evidence)
    wanted = [] if advised_mb is None else [("max_wal_size", f"{advised_mb}MB")]
    assert [(change.name, change.value) for change in answer.changes] == wanted
    assert not answer.unknown


@pytest.mark.parametrize("timeout", ["30s", "5min"])
def test_a_room_too_small_for_any_server_is_said_without_a_curve(timeout: str) -> None:
    """Two segments are the least; a longer checkpoint_timeout was advised, or all was well."""
    window = with_settings(healthy(), max_wal_size="32MB", checkpoint_timeout=timeout)
    answer = _without_wal(window, "40MB")
    assert isinstance(answer, Advice)
    assert (answer.weight, answer.changes) == (Weight.DANGER, ())
    assert answer.title == "Allow more than 40.0 MB for pg_wal"


@pytest.mark.parametrize("size_mb", [64, 4096])
def test_limits_that_nothing_keeps_are_said(size_mb: int) -> None:
    """The nearest settings were advised as if they kept within the target, or the present ones were fine."""
    made = _study(Target(max_wal_size_mb=size_mb, checkpoint_timeout_s=300), has_cycles=True)
    made = study(made.found, made.question, lambda point: 1.0 + point.distance_most / 1e9)
    window = with_settings(healthy(), max_wal_size=f"{size_mb}MB", checkpoint_timeout="5min")
    answer = max_wal_size(ServerCase(window, whatif=made, limits=ServerLimits(recovery_s=0.001)))
    assert isinstance(answer, Advice)
    assert any("No setting tried keeps within the limits" in sentence for sentence in answer.evidence)
    # None comes nearer than the smallest size: it was looked at, and the limit is what has to change.
    assert bool(answer.changes) is (size_mb > 64)
    if size_mb == 64:
        assert answer.title == "Allow more than 1 ms for a crash recovery"
