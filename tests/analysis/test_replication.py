"""The split of a lag: adds up, keeps clocks apart, and is not fooled by idle or unflushed ends of WAL."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walproof.analysis.replication import Pace, Stage, split_lag
from walproof.facts.replication import Look, Receiver, ReplicationWindow, Sender, Standby, Upstream

MB = 1_000_000


def look(
    at_s: float,
    inserted: int,
    sent: int,
    written: int,
    flushed: int,
    replayed: int,
    upstream_flushed: int | None = None,
    upstream_clock_s: float = 1000.0,
    standby_clock_s: float = 5000.0,
) -> Look:
    sender = Sender(1, "standby", "streaming", "async", sent, None, None, None, 0.0)
    upstream = Upstream(
        upstream_clock_s + at_s, inserted, inserted if upstream_flushed is None else upstream_flushed, sender
    )
    receiver = Receiver(2, "streaming", written, flushed, 0.1)
    return Look(
        at_s, upstream, Standby(standby_clock_s + at_s, flushed, replayed, None, "not paused", receiver)
    )


def window(first: Look, last: Look, **changes: object) -> ReplicationWindow:
    made = ReplicationWindow(
        first=first,
        last=last,
        waits={"startup": {"running": 10}},
        states={},
        trail=((first.at_s, first.upstream.inserted), (last.at_s, last.upstream.inserted)),
        upstream_settings={},
        standby_settings={},
        segment_bytes=16 * 1024**2,
        is_cascade=False,
        is_local=False,
        clock_skew_s=0.0,
        clock_skew_error_s=0.001,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_each_byte_is_in_the_stage_where_it_waits() -> None:
    split = split_lag(
        window(
            look(0, 10 * MB, 10 * MB, 10 * MB, 10 * MB, 10 * MB),
            look(2, 30 * MB, 24 * MB, 22 * MB, 20 * MB, 14 * MB, upstream_flushed=29 * MB),
        )
    )
    assert {stage.stage: stage.lag_bytes for stage in split.stages} == {
        Stage.GENERATION: 1 * MB, Stage.NETWORK: 5 * MB, Stage.WRITE: 2 * MB, Stage.FLUSH: 2 * MB,
        Stage.REPLAY: 6 * MB, Stage.CONFLICT: 0, Stage.APPLY_DELAY: 0,
    }  # fmt: skip
    # 10 MB/s: the byte at 14 MB was made 0.4 s after the first look, that at 20 MB a second after it.
    assert split.lag_s == pytest.approx(1.6)
    assert split.stage(Stage.REPLAY).lag_s == pytest.approx(0.6)
    assert split.stage(Stage.REPLAY).lag_bytes_per_s == pytest.approx(3 * MB)
    assert split.rates.generated_bytes_per_s == pytest.approx(10 * MB)
    assert split.rates.replayed_bytes_per_s == pytest.approx(2 * MB)
    assert split.pace is Pace.NEVER


@given(st.lists(st.integers(0, 10**12), min_size=12, max_size=12), st.floats(0.1, 100))
def test_stages_add_up_whatever_was_seen(positions: list[int], seconds: float) -> None:
    """Positions are read one after the other, so they may contradict each other."""
    one, two, three, four, five, six = positions[:6]
    first = look(0, one, two, three, four, five, upstream_flushed=six)
    one, two, three, four, five, six = positions[6:]
    last = look(seconds, one, two, three, four, five, upstream_flushed=six)
    split = split_lag(window(first, last))
    assert sum(stage.lag_bytes for stage in split.stages) == split.lag_bytes
    assert all(stage.lag_bytes >= 0 and stage.lag_s >= 0 for stage in split.stages)
    assert split.lag_s >= 0


@pytest.mark.parametrize("skew_s", [-86400.0, 0.0, 86400.0])
def test_clocks_that_differ_change_nothing(skew_s: float) -> None:
    first = look(0, 10 * MB, 10 * MB, 10 * MB, 10 * MB, 10 * MB, standby_clock_s=1000 + skew_s)
    last = look(2, 30 * MB, 30 * MB, 30 * MB, 30 * MB, 20 * MB, standby_clock_s=1000 + skew_s)
    split = split_lag(window(first, last))
    assert split.lag_s == pytest.approx(1.0)
    assert split.catch_up_s is None


def test_an_idle_primary_is_not_lag() -> None:
    """The last commit is an hour old, and a record that no commit waits for is not flushed."""
    idle = look(0, 10 * MB + 200, 10 * MB, 10 * MB, 10 * MB, 10 * MB, upstream_flushed=10 * MB)
    later = replace(idle, at_s=10.0, standby=replace(idle.standby, replayed_commit_s=1000 - 3600.0))
    split = split_lag(window(idle, later))
    assert (split.lag_bytes, split.lag_s, split.lag_s_most, split.pace) == (0, 0.0, None, Pace.CAUGHT_UP)


def test_a_lag_from_before_the_first_look_is_a_least() -> None:
    first = look(0, 50 * MB, 50 * MB, 50 * MB, 50 * MB, 10 * MB)
    last = look(2, 50 * MB, 50 * MB, 50 * MB, 50 * MB, 20 * MB)
    last = replace(last, standby=replace(last.standby, replayed_commit_s=1000.0 - 8))
    split = split_lag(window(first, last))
    assert split.is_least
    assert split.lag_s == pytest.approx(2.0)
    assert split.lag_s_most == pytest.approx(10.0)
    assert split.pace is Pace.CATCHES_UP
    assert split.catch_up_s == pytest.approx(6.0)


def test_half_a_second_does_not_show_that_a_standby_keeps_up() -> None:
    """It was 10 GB behind since before the first look, "at least 0.5 s", and was said to keep up."""
    first = look(0, 10_000 * MB, 10_000 * MB, 10_000 * MB, 10_000 * MB, 10 * MB)
    stands = look(0.5, 10_001 * MB, 10_001 * MB, 10_001 * MB, 10_001 * MB, 10 * MB)
    assert split_lag(window(first, stands)).pace is Pace.NEVER
    comes = look(0.5, 10_001 * MB, 10_001 * MB, 10_001 * MB, 10_001 * MB, 20 * MB)
    assert split_lag(window(first, comes)).pace is Pace.CATCHES_UP
    # So little may be on its way at any time, and of what was made meanwhile the age is known.
    near = look(0.5, 10_001 * MB, 10_001 * MB, 10_001 * MB, 10_001 * MB, 10_000 * MB + 1)
    assert split_lag(window(first, near)).pace is Pace.KEEPS_UP
    idle = look(0.5, 10_000 * MB, 10_000 * MB, 10_000 * MB, 10_000 * MB, 10_000 * MB - 1000)
    assert split_lag(window(first, idle)).pace is Pace.KEEPS_UP


def test_without_a_stream_all_that_is_missing_waits_to_be_sent() -> None:
    first = look(0, 10 * MB, 10 * MB, 10 * MB, 10 * MB, 10 * MB)
    last = look(2, 30 * MB, 10 * MB, 10 * MB, 10 * MB, 10 * MB)
    last = replace(
        last,
        upstream=replace(last.upstream, sender=None),
        standby=replace(last.standby, receiver=None),
    )
    split = split_lag(window(first, last))
    assert split.stage(Stage.NETWORK).lag_bytes == split.lag_bytes == 20 * MB


@pytest.mark.parametrize(
    ("event", "stage"),
    [
        ("IPC/RecoveryConflictSnapshot", Stage.CONFLICT),
        ("Lock/relation", Stage.CONFLICT),
        ("BufferPin/BufferPin", Stage.CONFLICT),
        ("Buffer/BufferCleanup", Stage.CONFLICT),
        ("Buffer/BufferExclusive", Stage.REPLAY),
        ("LWLock/BufferContent", Stage.REPLAY),
        ("Timeout/RecoveryApplyDelay", Stage.APPLY_DELAY),
        ("running", Stage.REPLAY),
        ("IO/DataFileRead", Stage.REPLAY),
    ],
)
def test_what_replay_waits_for_names_its_stage(event: str, stage: Stage) -> None:
    first = look(0, 10 * MB, 10 * MB, 10 * MB, 10 * MB, 10 * MB)
    last = look(2, 30 * MB, 30 * MB, 30 * MB, 30 * MB, 10 * MB)
    split = split_lag(window(first, last, waits={"startup": {event: 9, "running": 1}}))
    assert split.stage(stage).lag_bytes == 20 * MB
