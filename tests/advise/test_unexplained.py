"""A standby that falls behind always has a cause, if only that it is unexplained.

The windows are one in which replay was paused (WAL arrived, none was replayed), told as if it were not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.advise.test_replica import recorded
from walproof.advise.replica.cause import Cause
from walproof.advise.replica.diagnosis import Diagnosis, diagnose
from walproof.advise.replica.unexplained import unexplained
from walproof.analysis.replication import Stage, split_lag
from walproof.facts.replication import ReplicationWindow, StartupProcess
from walproof.report.replica import replica_panel

SECONDS = 12
WAITS = {"Activity/RecoveryWalStream": 12}
STILL = StartupProcess(1.0, 0.0, 0, None, None)


def stopped(states: Mapping[str, int], startup: StartupProcess | None) -> ReplicationWindow:
    """28 MB and 12 s behind, +1 MB/s, nothing replayed; the startup process was stopped while it waited."""
    window = recorded("replay-paused")
    replayed = window.first.standby.replayed
    ends = []
    for look, second in ((window.first, 0), (window.last, 2)):
        inserted = replayed + (28 << 20) + second * 1_120_000
        assert look.standby.receiver is not None
        assert look.upstream.sender is not None
        receiver = replace(look.standby.receiver, written=inserted, flushed=inserted, status="streaming")
        upstream = replace(
            look.upstream, inserted=inserted, flushed=inserted,
            sender=replace(look.upstream.sender, sent=inserted),
        )  # fmt: skip
        ends.append(
            replace(
                look,
                at_s=100.0 + second,
                upstream=upstream,
                standby=replace(
                    look.standby, replayed=replayed, received=inserted, receiver=receiver,
                    pause_state="not paused", startup=startup,
                ),
            )
        )  # fmt: skip
    trail = tuple((88.0 + step, replayed + step * (28 << 20) // SECONDS) for step in range(SECONDS + 1))
    return replace(
        window, first=ends[0], last=ends[1], trail=trail, states={"startup": states} if states else {},
        waits={**window.waits, "startup": WAITS}, blockers=(),
    )  # fmt: skip


CALM = ("The standby has caught up.", "It keeps up.", "It catches up.", "too little")


def shown(window: ReplicationWindow, diagnosis: Diagnosis) -> str:
    text = StringIO()
    Console(file=text, width=120).print(replica_panel("pair", window, diagnosis))
    return text.getvalue()


def test_a_stopped_startup_process_on_another_machine_is_admitted_with_what_was_seen() -> None:
    window = stopped({}, None)
    diagnosis = diagnose(window)
    (cause,) = diagnosis.causes
    assert cause.cause is Cause.UNEXPLAINED
    assert "shown as waiting for WAL that the standby has" in cause.sentence
    assert any("RecoveryWalStream 100 %" in line for line in cause.evidence)
    assert not any(calm in shown(window, diagnosis) for calm in CALM)


def test_a_stopped_startup_process_on_this_machine_is_named() -> None:
    (cause,) = diagnose(stopped({"T": 12}, STILL)).causes
    assert cause.cause is Cause.REPLAY_STARVED
    assert cause.sentence.startswith("A signal has stopped the startup process")


def test_a_stage_that_grows_and_that_no_rule_explains_is_unexplained() -> None:
    """As if it were in a conflict, and its wait events said nothing of one."""
    window = stopped({}, None)
    split = split_lag(window)
    held = replace(split.stage(Stage.CONFLICT), lag_bytes=30 << 20, lag_s=12.0, lag_bytes_per_s=1e6)
    stages = tuple(
        held if stage.stage is Stage.CONFLICT else replace(stage, lag_bytes=0, lag_s=0.0, lag_bytes_per_s=0.0)
        for stage in split.stages
    )
    found = unexplained(window, replace(split, stages=stages))
    assert found is not None
    assert found.cause is Cause.UNEXPLAINED
    assert any(line.startswith("stage conflict: 30.0 MB behind, 12 s") for line in found.evidence)


def test_what_is_behind_and_keeps_up_is_not_called_free_of_concern() -> None:
    window = recorded("keeps-up")
    upstream = window.last.upstream
    end = upstream.inserted + 200_000
    trail = (*window.trail, (window.last.at_s - 0.1, upstream.inserted), (window.last.at_s, end))
    window = replace(
        window, last=replace(window.last, upstream=replace(upstream, inserted=end, flushed=end)), trail=trail
    )
    diagnosis = diagnose(window)
    assert diagnosis.split.lag_bytes == 200_000
    assert diagnosis.causes == ()
    assert "It keeps up." in shown(window, diagnosis)
    idle = recorded("idle")
    assert "The standby has caught up." in shown(idle, diagnose(idle))
