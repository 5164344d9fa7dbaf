"""Rules about the crash clock."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.facts.watch import CrashClock
from walproof.units import format_bytes, format_duration


def recovery(clock: CrashClock, limits: Thresholds) -> Iterator[Concern]:
    """Crash recovery would take longer than it may."""
    target = limits.recovery_s
    if target is None or clock.warm.high <= target:
        return
    is_over = clock.warm.seconds > target
    span = f"{format_duration(clock.warm.low)} and {format_duration(clock.warm.high)}"
    yield Concern(
        "crash recovery",
        Severity.CRITICAL if is_over else Severity.WARNING,
        f"A crash now would take {format_duration(clock.warm.seconds)} to recover from, and the target is "
        f"{format_duration(target)}."
        if is_over
        else f"A crash now may take longer to recover from than the target, {format_duration(target)}.",
        (
            f"expected between {span} ({clock.costs} costs)",
            f"{format_bytes(clock.distance_bytes)} of WAL since the redo point; most of the time goes into "
            f"{clock.dominating}",
        ),
        ("Lower max_wal_size or checkpoint_timeout; walproof wal whatif tells what that costs.",),
    )
