"""Rules about the crash clock."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.facts.watch import CrashClock, SyncForecast
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration


def recovery(clock: CrashClock, limits: Thresholds) -> Iterator[Concern]:
    """Crash recovery would take longer than it may."""
    target = limits.recovery_s
    if target is None or clock.warm.high <= target:
        return
    is_over = clock.warm.seconds > target
    span = f"{format_duration(clock.warm.low)} and {format_duration(clock.warm.high)}"
    sync = _longest(clock, is_over=is_over)
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
            f"{clock.dominating if sync is None else _sync_words(sync)}",
        ),
        ("Lower max_wal_size or checkpoint_timeout; walproof wal whatif tells what that costs.",)
        if sync is None
        else tuple(_sync_advice(sync, clock)),
    )


def _longest(clock: CrashClock, *, is_over: bool) -> SyncForecast | None:
    """The sync of the data directory where it takes longer than redo and checkpoint, which alone depend on
    WAL; a warning is about the upper ends."""
    sync = clock.sync
    if sync is None:
        return None
    of_sync, of_all = (
        (sync.span.seconds, clock.warm.seconds) if is_over else (sync.span.high, clock.warm.high)
    )
    return sync if of_sync > of_all - of_sync else None


def _sync_words(sync: SyncForecast) -> str:
    files = ("" if sync.is_seen else "about ") + say_count(sync.files, "file")
    dirty = f", {format_bytes(sync.dirty_bytes)} dirty on the machine" if sync.dirty_bytes else ""
    return f"the sync of the data directory before redo: {files}{dirty}"


def _sync_advice(sync: SyncForecast, clock: CrashClock) -> Iterator[str]:
    if sync.method == "fsync":
        yield "recovery_init_sync_method = syncfs (14 and newer) syncs the file system, not each file."
    if clock.costs != "calibrated":
        yield "What a file costs is a guess: walproof recovery calibrate measures it on the server's machine."
    yield "A smaller max_wal_size does not shorten the sync."
