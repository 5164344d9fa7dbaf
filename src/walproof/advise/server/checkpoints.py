"""Rules about checkpoints: how often they begin, how they are spread, and how much is written because of
that."""

from __future__ import annotations

import math
from dataclasses import dataclass

from walproof.advise.server.advice import Advice, AdvisedFigure, Fine, Found, Sure, Unseen, Weight, wal_figure
from walproof.advise.server.case import ServerCase
from walproof.advise.wording import say_percent
from walproof.analysis.whatif import ServerLimits, ServerPrediction, Study
from walproof.sentences import say_list
from walproof.settings.change import Change
from walproof.units import format_bytes, format_duration

REQUESTED_SHARE = 0.1
"""The share of checkpoints that WAL forces above which max_wal_size decides."""
LEAST_CHECKPOINTS = 10
"""With fewer checkpoints since statistics were reset, a share says nothing."""
WORTH = 0.1
"""Share of the WAL that a larger max_wal_size has to save before it is advised."""
_DEFAULT_TIMEOUT_S = 300
ENOUGH = 1.03
"""A size whose WAL is within 3 % of the least is large enough."""


def max_wal_size(case: ServerCase) -> Found | None:
    """Checkpoints that WAL forces: from the what-if curve if WAL was recorded, else from their number."""
    if case.window.is_in_recovery:
        return None
    if case.whatif is not None and case.writes:
        return _from_curve(case, case.whatif)
    return _from_counters(case)


def _from_curve(case: ServerCase, study: Study) -> Found:
    present = study.present
    found = choice(study, case.limits)
    if found is None:
        return _none_better(case)
    chosen, size_mb, needed_mb = found.prediction, found.size_mb, found.needed_mb
    changes = found.changes
    evidence = [
        f"In {format_duration(case.window.seconds)} {format_bytes(study.found.wal_bytes)} of WAL were "
        "recorded, "
        f"{say_percent(case.image_share or 0.0)} of it full-page images.",
    ]
    if present.by_size_share > 0:
        evidence.append(
            f"Simulated with the present settings, {say_percent(present.by_size_share)} of the "
            "checkpoints begin "
            "because of max_wal_size."
        )
    if study.hours is not None and abs(present.wal_bytes / study.recorded_bytes - 1) > 0.1:
        evidence.append(
            f"The window itself wrote {format_bytes(study.recorded_bytes)} an hour; in steady operation the "
            f"present settings are expected to write {format_bytes(present.wal_bytes)} an hour."
        )
    if needed_mb is not None:
        evidence.append(
            "The window holds no whole checkpoint cycle of such a server: the size is what this rate of "
            "WAL needs "
            "for checkpoints to begin by time, and the WAL is an upper bound."
        )
    evidence += [
        f"From {cliff.smaller.target.max_wal_size_mb} MB to {cliff.larger.target.max_wal_size_mb} MB "
        "WAL falls by "
        f"{cliff.times:.1f} times."
        for cliff in study.cliffs()[:1]
    ]
    title = say_list([f"{change.name} = {change.value}" for change in changes])
    # A size that was not simulated may be filled completely.
    is_simulated = size_mb == chosen.target.max_wal_size_mb
    room = chosen.pg_wal_most if is_simulated else max(chosen.pg_wal_most, (size_mb or 0) << 20)
    distance = chosen.distance_most if is_simulated else max(chosen.distance_most, (size_mb or 0) << 20)
    figures = [
        wal_figure(study, chosen),
        AdvisedFigure(
            "full-page images", "/h" if study.hours is not None else "", present.images, chosen.images
        ),
        AdvisedFigure("pg_wal at most", "bytes", present.pg_wal_most, room),
        AdvisedFigure("WAL that recovery reads at most", "bytes", present.distance_most, distance),
    ]
    if present.recovery_s is not None and chosen.recovery_s is not None and is_simulated:
        figures.append(AdvisedFigure("longest crash recovery", "s", present.recovery_s, chosen.recovery_s))
    return Advice(
        "max_wal_size",
        Weight.GAIN,
        f"Set {title}",
        tuple(evidence),
        changes,
        figures=tuple(figures),
        costs=(
            f"pg_wal takes up to {format_bytes(room)}, and a crash recovery reads up to "
            f"{format_bytes(distance)} of WAL.",
        ),
        sure={"high": Sure.HIGH, "medium": Sure.MEDIUM, "low": Sure.LOW}[chosen.confidence],
        unknown=tuple(_unknown(case, chosen)),
        benefit=max(0.0, present.wal_bytes - chosen.wal_bytes) / (1.0 if study.hours is not None else 1e3),
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """What a server's checkpoints should be set to."""

    prediction: ServerPrediction
    size_mb: int | None
    """max_wal_size: that of the prediction, or more."""
    needed_mb: int | None
    """What this rate of WAL needs for checkpoints to begin by time; None where cycles tell more."""
    changes: tuple[Change, ...]


def choice(study: Study, limits: ServerLimits) -> Choice | None:
    """Settings that keep within the limits, or save a tenth of the WAL; None where none is better."""
    present = study.present
    chosen = _chosen(limits, study)
    saved = 1 - chosen.wal_bytes / present.wal_bytes if present.wal_bytes else 0.0
    has_limits = limits.recovery_s is not None or limits.wal_disk_bytes is not None
    if chosen.target == study.question.present or (saved < WORTH and not has_limits):
        return None
    size_mb = chosen.target.max_wal_size_mb
    needed_mb = _needed_mb(limits, study, chosen)
    if needed_mb is not None:
        size_mb = max(size_mb or 0, needed_mb)
    changes = _changes(study, chosen, size_mb)
    return Choice(chosen, size_mb, needed_mb, changes) if changes else None


def _none_better(case: ServerCase) -> Fine:
    size, timeout = case.window.value("max_wal_size"), case.window.value("checkpoint_timeout")
    return Fine(
        "max_wal_size",
        f"max_wal_size = {size} and checkpoint_timeout = {timeout}: no other max_wal_size saves "
        f"{say_percent(WORTH)} of the WAL.",
    )


def _chosen(limits: ServerLimits, study: Study) -> ServerPrediction:
    if limits.recovery_s is not None or limits.wal_per_hour_bytes is not None:
        return study.answer(limits).prediction
    timeout_s = study.question.present.checkpoint_timeout_s
    # A timeout below the default may itself be what makes the images.
    timeouts = {timeout_s, max(timeout_s, _DEFAULT_TIMEOUT_S)} if timeout_s is not None else {None}
    curve = [
        point
        for timeout in timeouts
        for point in study.curve(timeout)
        if limits.wal_disk_bytes is None
        or max(point.pg_wal_most, (point.target.max_wal_size_mb or 0) << 20) <= limits.wal_disk_bytes
    ]
    if not curve:
        return study.answer(limits).prediction
    least = min(point.wal_bytes for point in curve)
    return min(
        (point for point in curve if point.wal_bytes <= least * ENOUGH),
        key=lambda point: (point.target.max_wal_size_mb or 0, point.target.checkpoint_timeout_s or 0),
    )


def _needed_mb(limits: ServerLimits, study: Study, chosen: ServerPrediction) -> int | None:
    """A power of two that this rate of WAL does not reach within checkpoint_timeout; None if cycles tell
    more.

    A checkpoint begins at max_wal_size / (1 + checkpoint_completion_target) (CalculateCheckpointSegments).
    """
    timeout_s = study.question.present.checkpoint_timeout_s
    if chosen.has_whole_cycles or study.hours is None or timeout_s is None or limits.recovery_s:
        return None
    spread = 1 + study.question.present.checkpoint_completion_target
    needed = chosen.wal_bytes / 3600 * timeout_s * spread / 2**20
    found = 1 << max(0, math.ceil(math.log2(max(1.0, needed))))
    if limits.wal_disk_bytes is not None:
        found = min(found, limits.wal_disk_bytes >> 20)
    return found


def _changes(study: Study, chosen: ServerPrediction, mb: int | None) -> tuple[Change, ...]:
    present, found = study.question.present, chosen.target
    changes = []
    if mb != present.max_wal_size_mb and mb is not None:
        changes.append(Change("max_wal_size", f"{mb // 1024}GB" if mb % 1024 == 0 else f"{mb}MB"))
    if found.checkpoint_timeout_s != present.checkpoint_timeout_s and found.checkpoint_timeout_s is not None:
        seconds = found.checkpoint_timeout_s
        changes.append(
            Change("checkpoint_timeout", f"{seconds // 60}min" if seconds % 60 == 0 else f"{seconds}s")
        )
    return tuple(changes)


def _unknown(case: ServerCase, chosen: ServerPrediction) -> list[str]:
    unknown = []
    if not chosen.has_whole_cycles:
        unknown.append(
            f"the window of {format_duration(case.window.seconds)} holds no whole checkpoint cycle: "
            "look for longer "
            "(--for 1h)"
        )
    if case.limits.wal_disk_bytes is None:
        unknown.append("how much room pg_wal has: say --wal-disk")
    if case.limits.recovery_s is None:
        unknown.append("how long a crash recovery may take: say --recovery-target")
    return unknown


def _from_counters(case: ServerCase) -> Found | None:
    window = case.window
    timed, requested = window.total("checkpoints_timed"), window.total("checkpoints_requested")
    if timed is None or requested is None:
        return Unseen("max_wal_size", "neither WAL nor pg_stat_checkpointer could be read")
    count = timed + requested
    if count < LEAST_CHECKPOINTS:
        return Unseen(
            "max_wal_size", f"{count:.0f} checkpoints since statistics were reset, too few for a share"
        )
    share = requested / count
    if share <= REQUESTED_SHARE:
        return Fine(
            "max_wal_size",
            f"{say_percent(share)} of {count:.0f} checkpoints were requested: checkpoint_timeout "
            "decides, not "
            "max_wal_size.",
        )
    size = window.base("max_wal_size")
    if size is None:
        return Unseen("max_wal_size", "its setting is not known")
    # Without the WAL nothing says where the curve ends, so double it and look again.
    larger = round(size * 2)
    return Advice(
        "max_wal_size",
        Weight.GAIN,
        f"Double max_wal_size, to {larger} MB, and look again",
        (
            f"{say_percent(share)} of {count:.0f} checkpoints were requested: by max_wal_size = "
            f"{window.value('max_wal_size')}, or by CHECKPOINT and base backups. "
            "Each begins a new round of full-page images.",
        ),
        (Change("max_wal_size", f"{larger}MB"),),
        costs=(
            f"pg_wal takes up to {format_bytes(larger << 20)} and more, and a crash recovery reads more WAL.",
        ),
        sure=Sure.LOW,
        unknown=(
            "how many of them max_wal_size requested: the log says it (log_checkpoints)",
            "what the WAL would be: with REPLICATION it is recorded and simulated",
        ),
    )


def completion_target(case: ServerCase) -> Found | None:
    """checkpoint_completion_target is below 0.9, so the checkpoint's writes come in a burst."""
    target = case.window.base("checkpoint_completion_target")
    if target is None:
        return Unseen("checkpoint_completion_target", "its setting is not known")
    if target >= 0.9:
        return Fine("checkpoint_completion_target", f"checkpoint_completion_target is {target:g}.")
    writes = case.window.total("checkpoint_write_ms")
    evidence = [
        f"checkpoint_completion_target is {target:g}: a checkpoint writes its pages in "
        f"{say_percent(target)} of the "
        "time that it has, and the disk idles for the rest."
    ]
    if writes:
        evidence.append(
            f"Checkpoints have spent {format_duration(writes / 1000)} writing since the last reset."
        )
    return Advice(
        "checkpoint_completion_target",
        Weight.GAIN,
        "Set checkpoint_completion_target = 0.9",
        tuple(evidence),
        (Change("checkpoint_completion_target", "0.9"),),
        costs=(
            "Checkpoints begin a little earlier at the same max_wal_size, and recovery reads a little "
            "more WAL.",
        ),
    )
