"""What is said about a standby that is behind when no rule knows why: just that, and what was seen. An
admission is better than silence: "no cause" would read as "no lag"."""

from __future__ import annotations

from walproof.advise.replica.cause import Cause, NamedCause, ranked
from walproof.analysis.replication import KEEPING_UP_S, UNFLUSHED_TAIL_BYTES, LagSplit, Pace, StageLag
from walproof.facts.replication import ReplicationWindow
from walproof.units import format_bytes, format_duration


def unexplained(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """A stage that is behind and grows. Ask this rule when no other has a cause."""
    late = [stage for stage in split.stages if _is_late(stage)]
    if not late and not (split.pace is Pace.NEVER and split.lag_bytes >= UNFLUSHED_TAIL_BYTES):
        return None
    worst = max(late or split.stages, key=lambda stage: stage.lag_bytes)
    rates = split.rates
    evidence = [
        f"stage {worst.stage.value}: {format_bytes(worst.lag_bytes)} behind"
        + (f", {format_duration(worst.lag_s)}" if worst.lag_s else "")
        + (f", {format_bytes(worst.lag_bytes_per_s)}/s more" if worst.lag_bytes_per_s > 0 else ""),
        f"WAL is made at {format_bytes(rates.generated_bytes_per_s)}/s, flushed on the standby at "
        f"{format_bytes(rates.flushed_bytes_per_s)}/s and replayed at "
        f"{format_bytes(rates.replayed_bytes_per_s)}/s",
    ]
    evidence += [
        f"the {process} was seen in: {ranked(waits)}" for process, waits in window.waits.items() if waits
    ]
    evidence += [
        f"the kernel's states of the {process}: {ranked(states)}"
        for process, states in window.states.items()
        if states
    ]
    return NamedCause(
        Cause.UNEXPLAINED,
        "The standby falls behind, and what was seen does not say why.",
        tuple(evidence),
        ("Watch for longer (--every 10s), and look at the processes on both machines.",),
    )


def _is_late(stage: StageLag) -> bool:
    is_old = stage.lag_s >= KEEPING_UP_S
    return is_old and stage.lag_bytes_per_s > 0 and stage.lag_bytes >= UNFLUSHED_TAIL_BYTES
