"""Causes from stored facts: windows recorded while tests/live provoked them, and what must not be named.

``WALPROOF_UPDATE=1 pytest tests/live/test_replica_causes.py`` records them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from walproof.advise.replica.cause import Cause
from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.replica.holding import conflict
from walproof.analysis.replication import split_lag
from walproof.facts.codec import from_json
from walproof.facts.replication import ReplicationWindow
from walproof.report.replica import replica_data, summary

RECORDED = Path(__file__).parent / "replication"
QUIET = {"idle", "keeps-up"}
NAMES = sorted(path.stem for path in RECORDED.glob("*.json"))


def recorded(name: str) -> ReplicationWindow:
    return from_json(ReplicationWindow, (RECORDED / f"{name}.json").read_text())


def with_startup(
    window: ReplicationWindow,
    waits: Mapping[str, int],
    *,
    cpu_share: float | None = None,
    run_queue_share: float = 0.0,
) -> ReplicationWindow:
    """The same with another account of the startup process; none at all without ``cpu_share``."""
    first, last = window.first.standby.startup, window.last.standby.startup
    assert first is not None
    assert last is not None
    if cpu_share is None:
        first = last = None
    else:
        last = replace(
            first,
            cpu_s=first.cpu_s + cpu_share * window.window_s,
            run_queue_s=first.run_queue_s + run_queue_share * window.window_s,
        )
    return replace(
        window,
        first=replace(window.first, standby=replace(window.first.standby, startup=first)),
        last=replace(window.last, standby=replace(window.last.standby, startup=last)),
        waits={**window.waits, "startup": waits},
        states={},
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in QUIET])
def test_a_recorded_window_leads_to_its_cause(name: str) -> None:
    window = recorded(name)
    causes = diagnose(window).causes
    assert causes, name
    assert causes[0].cause.value.replace(" ", "-").replace("/", "-") == name
    assert causes[0].evidence
    assert causes[0].advice


@pytest.mark.parametrize("name", sorted(QUIET))
def test_a_quiet_window_has_none(name: str) -> None:
    assert diagnose(recorded(name)).causes == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_diagnosis_can_be_shown(name: str) -> None:
    window = recorded(name)
    diagnosis = diagnose(window)
    data = replica_data(window, diagnosis)
    assert data["lag_bytes"] == diagnosis.split.lag_bytes
    assert [cause["cause"] for cause in data["causes"]] == [cause.cause.value for cause in diagnosis.causes]
    assert summary(diagnosis)


def test_recordings_hold_no_connection_string() -> None:
    assert NAMES
    for name in NAMES:
        text = (RECORDED / f"{name}.json").read_text()
        assert "host=" not in text
        assert "password" not in text


@pytest.mark.parametrize(
    ("waits", "cpu_share", "run_queue_share", "cause"),
    [
        ({"running": 12}, 0.95, 0.02, Cause.REPLAY_CPU),
        ({"running": 12}, 0.72, 0.25, Cause.REPLAY_CPU),
        ({"running": 12}, 0.55, 0.40, Cause.REPLAY_CPU),
        ({"running": 12}, 0.30, 0.65, Cause.REPLAY_STARVED),
        ({"running": 12}, None, 0.0, Cause.REPLAY_CPU),  # on another machine
        ({"IO/DataFileRead": 9, "running": 3}, 0.2, 0.0, Cause.REPLAY_IO),
        ({"IO/DataFileRead": 9, "running": 3}, None, 0.0, Cause.REPLAY_IO),
        ({"LWLock/BufferMapping": 9, "running": 3}, 0.2, 0.0, Cause.REPLAY),
        ({"Buffer/BufferExclusive": 9, "running": 3}, 0.2, 0.0, Cause.REPLAY),  # 19: no conflict
    ],
)
def test_late_replay_is_told_apart_by_its_startup_process(
    waits: Mapping[str, int], cpu_share: float | None, run_queue_share: float, cause: Cause
) -> None:
    window = with_startup(
        recorded("replay-starved"), waits, cpu_share=cpu_share, run_queue_share=run_queue_share
    )
    assert [diagnosed.cause for diagnosed in diagnose(window).causes] == [cause]


def test_a_full_core_that_keeps_up_is_no_cause() -> None:
    window = with_startup(recorded("keeps-up"), {"running": 12}, cpu_share=0.95)
    assert diagnose(window).causes == ()


def test_a_reader_that_was_waited_for_holds_nothing_up_where_replay_keeps_up() -> None:
    window = with_startup(recorded("keeps-up"), {"Lock/relation": 8, "running": 12}, cpu_share=0.1)
    assert diagnose(window).causes == ()


def test_a_pause_by_small_settings_says_which() -> None:
    window = recorded("replay-paused")
    settings = {**window.standby_settings, "max_connections": "50"}
    (cause,) = diagnose(replace(window, standby_settings=settings)).causes
    assert "max_connections 50 (upstream 100)" in " ".join(cause.advice)


def test_a_pause_at_a_recovery_target_is_not_to_be_resumed_lightly() -> None:
    window = recorded("replay-paused")
    for set_, words in (("true", "PROMOTES"), ("false", "SELECT pg_wal_replay_resume(); on the standby.")):
        settings = {**window.standby_settings, "recovery_target_time": set_}
        (cause,) = diagnose(replace(window, standby_settings=settings)).causes
        assert words in cause.advice[0]


def test_a_conflict_names_the_delay_that_counts() -> None:
    window = recorded("conflict")
    settings = {**window.standby_settings, "max_standby_archive_delay": "7000"}
    from_archive = replace(window.last, standby=replace(window.last.standby, receiver=None))
    for last, name in ((window.last, "streaming"), (from_archive, "archive")):
        found = replace(window, last=last, standby_settings=settings)
        cause = conflict(found, split_lag(found))
        assert cause is not None
        assert f"max_standby_{name}_delay lets queries hold up replay" in cause.evidence[-1]
        assert f"max_standby_{name}_delay" in cause.advice[1]


def test_an_unflushed_primary_is_named() -> None:
    window = recorded("keeps-up")
    last = window.last
    upstream = replace(last.upstream, inserted=last.upstream.inserted + 50_000_000)
    begun = window.first.at_s
    trail = ((begun, window.first.upstream.flushed), (begun + 0.01, upstream.inserted))
    late = replace(window, last=replace(last, upstream=upstream), trail=trail)
    assert Cause.GENERATION in [cause.cause for cause in diagnose(late).causes]


def test_a_standby_that_has_its_segments_from_the_archive_misses_none() -> None:
    window = recorded("missing-segment")
    restoring = replace(window, standby_settings={**window.standby_settings, "restore_command": "(set)"})
    moved = replace(
        restoring,
        last=replace(
            restoring.last,
            standby=replace(restoring.last.standby, replayed=restoring.first.standby.replayed + 1000),
        ),
    )
    assert [cause.cause for cause in diagnose(moved).causes] == [Cause.ARCHIVE_RECOVERY]


def test_a_walreceiver_whose_own_upstream_is_silent_is_not_to_be_ended() -> None:
    """A cascade that is compared with the primary while the standby in between is cut off."""
    window = recorded("walreceiver-silent")
    first, last = window.first, window.last
    cascade = replace(
        window,
        first=replace(first, upstream=replace(first.upstream, sender=None)),
        last=replace(last, upstream=replace(last.upstream, sender=None)),
        states={},
    )
    (cause,) = diagnose(cascade).causes
    assert cause.cause is Cause.WALRECEIVER_SILENT
    assert "has no walsender for it" in cause.sentence
    assert "SIGTERM" not in said(cascade)
    assert "wal_receiver_timeout (1 min" in said(cascade)
    assert "SIGTERM" in said(window)


def restarted(
    waits: Mapping[str, int],
    *,
    replayed_bytes: int = 0,
    states: Mapping[str, int] | None = None,
    **standby: str,
) -> ReplicationWindow:
    """A standby that was started a moment ago: nothing has ever streamed to it. ``standby``: its settings."""
    window = recorded("walreceiver-absent")
    seen = replace(window.last.standby, received=None, receiver=None)
    first = replace(seen, replayed=seen.replayed - replayed_bytes)
    return replace(
        window,
        first=replace(window.first, standby=first),
        last=replace(window.last, standby=seen),
        waits={"startup": waits, "walreceiver": {}, "walsender": {}},
        states={"startup": states or {}},
        standby_settings={**window.standby_settings, **standby},
    )


def said(window: ReplicationWindow) -> str:
    return "\n".join(
        line for cause in diagnose(window).causes for line in (cause.sentence, *cause.evidence, *cause.advice)
    )


@pytest.mark.parametrize(
    "waits", [{"running": 8, "IO/DataFileRead": 3}, {"IO/WALRead": 6, "running": 5}, {}], ids=str
)
def test_a_standby_that_replays_its_own_wal_has_no_fault(waits: Mapping[str, int]) -> None:
    window = restarted(waits, replayed_bytes=5_000_000)
    causes = diagnose(window).causes
    assert [(cause.cause, cause.is_intended) for cause in causes] == [(Cause.LOCAL_REPLAY, True)]
    assert "no walreceiver runs yet" in said(window)
    assert "has replayed up to" in said(window)
    assert "how much of that the standby has is not known" in said(window)
    assert "received up to" not in said(window)
    assert "FATAL" not in said(window)


@pytest.mark.parametrize(
    "waits",
    [
        {"Timeout/RecoveryRetrieveRetryInterval": 11},
        {"Activity/RecoveryWalStream": 8, "running": 3},
        {},
    ],
    ids=str,
)
def test_a_restarted_standby_that_waits_for_wal_has_the_fault(waits: Mapping[str, int]) -> None:
    causes = diagnose(restarted(waits)).causes
    assert [(cause.cause, cause.is_intended) for cause in causes] == [(Cause.WALRECEIVER_ABSENT, False)]


def test_an_apply_delay_after_a_restart_is_intended() -> None:
    window = restarted({"Timeout/RecoveryApplyDelay": 11}, recovery_min_apply_delay="600000")
    causes = diagnose(window).causes
    assert [cause.cause for cause in causes] == [Cause.APPLY_DELAY, Cause.LOCAL_REPLAY]
    assert all(cause.is_intended for cause in causes)
    assert "0 B" not in said(window)
    assert "nothing was replayed in the window" in said(window)


def test_a_pause_after_a_restart_is_the_first_cause() -> None:
    window = restarted({"IPC/RecoveryPause": 11})
    standby = replace(window.last.standby, pause_state="paused")
    paused = replace(window, last=replace(window.last, standby=standby))
    causes = diagnose(paused).causes
    assert [cause.cause for cause in causes] == [Cause.REPLAY_PAUSED, Cause.LOCAL_REPLAY]
    assert "received" not in said(paused)


def test_a_restarted_standby_may_have_what_its_upstream_has_removed() -> None:
    window = restarted({"running": 11}, replayed_bytes=5_000_000)
    removed = replace(window.last.upstream, oldest_segment="00000001000000AA")
    window = replace(window, last=replace(window.last, upstream=removed))
    assert [cause.cause for cause in diagnose(window).causes] == [Cause.LOCAL_REPLAY]
    lost = replace(window, last=replace(window.last, upstream=replace(removed, slot_status="lost")))
    assert [cause.cause for cause in diagnose(lost).causes] == [Cause.MISSING_SEGMENT]
    assert "needs WAL from" not in said(lost)
    waiting = replace(window, waits={"startup": {"Timeout/RecoveryRetrieveRetryInterval": 11}})
    assert [cause.cause for cause in diagnose(waiting).causes] == [Cause.MISSING_SEGMENT]


def test_a_lost_slot_is_not_answered_with_a_slot() -> None:
    window = recorded("missing-segment")
    assert "primary_slot_name" in said(window)
    lost = replace(
        window,
        last=replace(window.last, upstream=replace(window.last.upstream, slot_status="lost")),
        upstream_settings={**window.upstream_settings, "max_slot_wal_keep_size": "64"},
    )
    assert "primary_slot_name" not in said(lost)
    assert "wal_keep_size is 64.0 MB on the upstream" in said(lost)
    assert "a larger max_slot_wal_keep_size, or none (-1)" in said(lost)
    assert "idle_replication_slot_timeout" not in said(lost)
    unbounded = replace(lost, upstream_settings=window.upstream_settings)
    assert "a larger max_slot_wal_keep_size" not in said(unbounded)
    assert "from 18 on idle_replication_slot_timeout" in said(unbounded)
    idle = {**lost.upstream_settings, "idle_replication_slot_timeout": "3600"}
    both = said(replace(lost, upstream_settings=idle))
    assert "a larger max_slot_wal_keep_size" in both
    assert "idle_replication_slot_timeout is 1 h" in both


def test_a_stopped_replay_of_own_wal_is_a_fault() -> None:
    (cause,) = diagnose(restarted({"running": 11}, states={"T": 11})).causes
    assert (cause.cause, cause.is_intended) == (Cause.LOCAL_REPLAY, False)
    assert any("kill -CONT" in line for line in cause.advice)


def test_an_archive_beside_a_stream_is_no_fault_while_own_wal_is_replayed() -> None:
    window = restarted({"running": 11}, replayed_bytes=5_000_000, restore_command="(set)")
    assert [cause.cause for cause in diagnose(window).causes] == [Cause.LOCAL_REPLAY]
    waiting = restarted({"IPC/RestoreCommand": 8, "running": 3}, restore_command="(set)")
    assert [cause.cause for cause in diagnose(waiting).causes] == [Cause.ARCHIVE_RECOVERY]
    only = restarted({"running": 11}, restore_command="(set)", primary_conninfo="")
    assert [cause.cause for cause in diagnose(only).causes] == [Cause.ARCHIVE_RECOVERY]
    assert diagnose(only).causes[0].is_intended
