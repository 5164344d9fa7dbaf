"""Rules about checkpoints: how often they begin, how they are spread, and how much is written because of
that."""

from __future__ import annotations

from dataclasses import replace

from walproof.advise.server.advice import Advice, AdvisedFigure, Fine, Found, Sure, Unseen, Weight, wal_figure
from walproof.advise.server.case import ServerCase
from walproof.advise.server.checkpoint_counts import (
    LEAST_CHECKPOINTS,
    REQUESTED_SHARE,
    TELLS_SKIPPED,
    checkpoints,
    count_afresh,
    crowded,
    requested_share,
    say_requested,
    timeout_decides,
)
from walproof.advise.server.room import fitting_keep_mb, over_room, over_room_together
from walproof.advise.server.sizing import WORTH, Choice, choice, say_size, settings
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.analysis.whatif_answer import COMPLETION_TARGET, DEFAULT_TIMEOUT_S, enough_mb, fits
from walproof.sentences import say_list, say_percent
from walproof.settings.change import Change
from walproof.units import format_bytes, format_duration, parse_bytes

_TARGET_MOST = 0.95
"""Above it a checkpoint has next to no time to flush its files (manual, "WAL Configuration")."""
_SMALLER_COSTS = (
    "pg_wal takes up to {} and more, and a checkpoint that it begins sooner makes more full-page images."
)
_LARGER_COSTS = "pg_wal takes up to {} and more, and a crash recovery reads more WAL."
_NONE_NEARER = ", and none comes nearer than the present ones"


def max_wal_size(case: ServerCase) -> Found | None:
    """Checkpoints that WAL forces: from the what-if curve if WAL was recorded, else from their number."""
    if case.window.is_in_recovery:
        return None
    keep_mb = fitting_keep_mb(case)
    if keep_mb is not None:
        return _keep_less(case, keep_mb)
    if case.whatif is None or not case.writes:
        return _from_settings(case)
    found = choice(case.whatif, case.sized_limits)
    if found is not None:
        return _from_curve(case, case.whatif, found)
    return _none_better(case, case.whatif)


def advised_size_mb(case: ServerCase) -> int | None:
    """The max_wal_size that is advised; None where the present one stays."""
    found = max_wal_size(case)
    changes = found.changes if isinstance(found, Advice) else ()
    return next(
        (parse_bytes(change.value) >> 20 for change in changes if change.name == "max_wal_size"), None
    )


def _from_curve(case: ServerCase, study: Study, found: Choice) -> Advice:
    present = study.present
    chosen, changes = found.prediction, found.changes
    over = over_room(case)
    evidence = [
        *((over,) if over is not None else ()),
        *(() if found.is_within else ("No setting tried keeps within the limits; this one comes nearest.",)),
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
    if not chosen.has_whole_cycles:
        evidence.append(
            "The window holds no whole checkpoint cycle of such a server: "
            f"{_sized_words(found)}the WAL is an upper bound."
        )
    elif found.needed_mb is not None:
        evidence.append(
            f"The size holds a cycle also with checkpoint_completion_target = {COMPLETION_TARGET}, which "
            "begins a checkpoint earlier."
        )
    evidence += [
        f"From {cliff.smaller.target.max_wal_size_mb} MB to {cliff.larger.target.max_wal_size_mb} MB "
        "WAL falls by "
        f"{cliff.times:.1f} times."
        for cliff in study.cliffs()[:1]
    ]
    title = say_list([f"{change.name} = {change.value}" for change in changes])
    room, distance = chosen.pg_wal_most, chosen.distance_most
    figures = [
        wal_figure(study, chosen),
        AdvisedFigure(
            "full-page images", "/h" if study.hours is not None else "", present.images, chosen.images
        ),
        AdvisedFigure("pg_wal at most", "bytes", present.pg_wal_most, room),
        AdvisedFigure("WAL that recovery reads at most", "bytes", present.distance_most, distance),
    ]
    if present.recovery_s is not None and chosen.recovery_s is not None:
        figures.append(AdvisedFigure("longest crash recovery", "s", present.recovery_s, chosen.recovery_s))
    return Advice(
        "max_wal_size",
        Weight.GAIN if over is None else Weight.DANGER,
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


def _sized_words(found: Choice) -> str:
    """What the size comes from where no cycle was simulated; ends in "and "."""
    if found.needed_mb is None:
        return ""
    if found.size_mb >= found.needed_mb:
        return "the size is what this rate of WAL needs for checkpoints to begin by time, and "
    return (
        "the size is the largest that keeps within the limits, where this rate of WAL needs "
        f"{say_size(found.needed_mb)} for checkpoints to begin by time, and "
    )


def _none_better(case: ServerCase, study: Study) -> Fine | Advice:
    size, timeout = case.window.value("max_wal_size"), case.window.value("checkpoint_timeout")
    has_limits = case.limits.recovery_s is not None or case.limits.wal_disk_bytes is not None
    if not fits(study.present, case.sized_limits):
        return _nothing_fits(case, study)
    return Fine(
        "max_wal_size",
        f"max_wal_size = {size} and checkpoint_timeout = {timeout}: no other max_wal_size saves "
        f"{say_percent(WORTH)} of the WAL{' within the limits' if has_limits else ''}.",
    )


def _nothing_fits(case: ServerCase, study: Study) -> Advice:
    """No simulated settings keep within the limits, and none come nearer than the present ones."""
    over, limits, present = over_room(case), case.sized_limits, study.present
    present_mb = present.target.max_wal_size_mb or 0
    fitting_mb = present_mb
    if over is not None:
        fitting_mb = _size_mb(case, present_mb, is_crowded=False, timeout_s=None)
    changes = settings(fitting_mb if fitting_mb < present_mb else None, None)
    wanted, evidence = [], [] if over is None else [over]
    if limits.wal_disk_bytes is not None and not fits(present, replace(limits, recovery_s=None)):
        wanted.append(f"more than {format_bytes(limits.wal_disk_bytes)} for pg_wal")
    if limits.recovery_s is not None and not fits(present, replace(limits, wal_disk_bytes=None)):
        wanted.append(f"more than {format_duration(limits.recovery_s)} for a crash recovery")
        if present.recovery_s is not None:
            evidence.append(
                "With the present settings the longest crash recovery takes "
                f"{format_duration(present.recovery_s)}."
            )
    evidence.append(f"No setting tried keeps within the limits{'' if changes else _NONE_NEARER}.")
    return Advice(
        "max_wal_size",
        Weight.GAIN if over is None else Weight.DANGER,
        f"Set max_wal_size = {changes[0].value}, and look again" if changes else f"Allow {say_list(wanted)}",
        tuple(evidence),
        changes,
        costs=(_SMALLER_COSTS.format(format_bytes(fitting_mb << 20)),) if changes else (),
    )


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


def _from_settings(case: ServerCase) -> Found | None:
    """What settings, counters and the rate of WAL say, where nothing was simulated."""
    window = case.window
    size, timeout = window.base("max_wal_size"), window.base("checkpoint_timeout")
    if size is None:
        return Unseen("max_wal_size", "its setting is not known")
    over, many = over_room(case), crowded(case)
    is_short = timeout is not None and timeout < DEFAULT_TIMEOUT_S
    timeout_s = DEFAULT_TIMEOUT_S if is_short and case.limits.recovery_s is None else None
    present_mb = round(size)
    size_mb = _size_mb(case, present_mb, is_crowded=many is not None, timeout_s=timeout_s)
    changes = settings(size_mb if size_mb != present_mb else None, timeout_s)
    if over is not None and size_mb == present_mb:
        # A longer checkpoint_timeout frees no room.
        room = format_bytes(case.limits.wal_disk_bytes or 0)
        return Advice("max_wal_size", Weight.DANGER, f"Allow more than {room} for pg_wal", (over,))
    if not changes:
        return _nothing_to_set(case, is_short=is_short, is_crowded=many is not None)
    evidence = [sentence for sentence in (over, many) if sentence is not None]
    costs = []
    recorded = "with REPLICATION it is recorded and simulated" if case.is_wal_unread else case.why_no_wal
    unknown = [f"what the WAL would be: {recorded}"]
    if size_mb != present_mb:
        costs.append(
            (_SMALLER_COSTS if size_mb < present_mb else _LARGER_COSTS).format(format_bytes(size_mb << 20))
        )
    if many is not None:
        unknown.insert(0, "how many of them max_wal_size requested: the log says it (log_checkpoints)")
    if timeout_s is not None:
        evidence.append(_short_words(case))
        costs.append(
            f"A crash recovery reads the WAL of up to {format_duration(timeout_s)} and of the checkpoint "
            f"after it, not of {format_duration(timeout or 0)}."
        )
        if case.wal_per_hour is None:
            unknown.append(f"whether max_wal_size holds the WAL of {format_duration(timeout_s)}")
    # The share of all time would stay, and ask for twice as much at every look.
    is_counted_afresh = many is not None and not checkpoints(case)[2] and size_mb > present_mb
    is_doubled = timeout_s is None and size_mb == 2 * present_mb
    return Advice(
        "max_wal_size",
        Weight.GAIN if over is None else Weight.DANGER,
        f"Double max_wal_size, to {size_mb} MB, and look again"
        if is_doubled
        else f"Set {say_list([f'{change.name} = {change.value}' for change in changes])}, and look again",
        tuple(evidence),
        changes,
        steps=(count_afresh(case),) if is_counted_afresh else (),
        costs=tuple(costs),
        sure=Sure.HIGH if over is not None else Sure.LOW if many is not None else Sure.MEDIUM,
        unknown=tuple(unknown),
    )


def _size_mb(case: ServerCase, present_mb: int, *, is_crowded: bool, timeout_s: int | None) -> int:
    """max_wal_size without a curve: the present one, unless more is needed or it does not fit."""
    # Without the WAL nothing says where the curve ends, so double it and look again.
    wanted_mb = 2 * present_mb if is_crowded and case.limits.recovery_s is None else present_mb
    segment_bytes = _segment_bytes(case)
    rate = case.wal_per_hour
    if timeout_s is not None and rate is not None:
        # The images of the present checkpoints are in the rate, so it is an upper bound.
        completion = case.window.base("checkpoint_completion_target") or COMPLETION_TARGET
        wanted_mb = max(wanted_mb, enough_mb(rate * timeout_s / 3600, completion, segment_bytes))
    most_mb = _most_mb(case.sized_limits, segment_bytes)
    if most_mb is None:
        return wanted_mb
    if over_room(case) is not None:
        return min(wanted_mb, most_mb)
    return max(present_mb, min(wanted_mb, most_mb))


def _most_mb(limits: ServerLimits, segment_bytes: int) -> int | None:
    """The largest max_wal_size that fits into its room; None where no room was named."""
    if limits.usable_wal_bytes is None:
        return None
    most_mb = limits.usable_wal_bytes >> 20
    if most_mb > 1024:
        most_mb -= most_mb % 1024
    # With less than two segments no server starts (ReadControlFile, xlog.c).
    return max(most_mb, 2 * segment_bytes >> 20)


def _segment_bytes(case: ServerCase) -> int:
    return parse_bytes(case.window.value("wal_segment_size") or "16MB")


def _keep_less(case: ServerCase, keep_mb: int) -> Advice:
    """A smaller wal_keep_size: a max_wal_size that fits beside the present one would begin
    checkpoints all the time."""
    limits = case.sized_limits
    freed = replace(limits, keepers=replace(limits.keepers, kept_bytes=keep_mb << 20))
    present_mb, most_mb = round(case.window.base("max_wal_size") or 0), _most_mb(freed, _segment_bytes(case))
    is_too_large = most_mb is not None and present_mb > most_mb
    changes = (
        Change("wal_keep_size", say_size(keep_mb)),
        *settings(most_mb if is_too_large else None, None),
    )
    return Advice(
        "max_wal_size",
        Weight.DANGER,
        f"Set {say_list([f'{change.name} = {change.value}' for change in changes])}, and look again",
        (over_room_together(case),),
        changes,
        costs=(
            f"A standby without a slot that is behind by more than {say_size(keep_mb)} needs the WAL "
            "archive, or has to be made again.",
        ),
        sure=Sure.HIGH,
    )


def _short_words(case: ServerCase) -> str:
    timeout = case.window.value("checkpoint_timeout")
    words = (
        f"With checkpoint_timeout = {timeout}, below the default of {format_duration(DEFAULT_TIMEOUT_S)}, "
        "each page is written whole into the WAL again when it is first changed after one of many checkpoints"
    )
    share = case.image_share if case.writes else None
    return f"{words}." if share is None else f"{words}: {say_percent(share)} of the WAL is full-page images."


def _nothing_to_set(case: ServerCase, *, is_short: bool, is_crowded: bool) -> Found:
    timeout = case.window.value("checkpoint_timeout")
    if is_crowded and case.limits.recovery_s is not None:
        return Unseen(
            "max_wal_size",
            "whether a larger max_wal_size keeps within --recovery-target is known only from the WAL",
        )
    if is_short:
        return Unseen(
            "max_wal_size",
            f"whether a checkpoint_timeout above {timeout} keeps within --recovery-target is known only from "
            "the WAL",
        )
    share, count = requested_share(case)
    if count is None:
        return Unseen("max_wal_size", "neither WAL nor pg_stat_checkpointer could be read")
    if share is None:
        return Unseen(
            "max_wal_size", f"{count:.0f} checkpoints since statistics were reset, too few for a share"
        )
    words = say_requested(case, share, count)
    _, requested, _ = checkpoints(case)
    may_hide = case.major < TELLS_SKIPPED and (requested or 0.0) >= LEAST_CHECKPOINTS
    if not is_crowded and (may_hide or share > REQUESTED_SHARE):
        if not timeout_decides(case):
            return Unseen(
                "max_wal_size",
                f"{words[0].lower()}{words[1:]}; before 18 those that an idle server skipped are counted as "
                "well, so whether max_wal_size decides under load is known only from the WAL",
            )
        words += "; at the window's rate of WAL"
        return Fine("max_wal_size", f"{words} checkpoint_timeout = {timeout} decides, not max_wal_size.")
    if is_crowded:
        return Fine("max_wal_size", f"{words}, and --wal-disk has no room for a larger max_wal_size.")
    return Fine("max_wal_size", f"{words}: checkpoint_timeout = {timeout} decides, not max_wal_size.")


def completion_target(case: ServerCase) -> Found | None:
    """checkpoint_completion_target is below 0.9, so the checkpoint's writes come in a burst, or so near to 1
    that a checkpoint is not done when the next is due."""
    target = case.window.base("checkpoint_completion_target")
    if target is None:
        return Unseen("checkpoint_completion_target", "its setting is not known")
    if COMPLETION_TARGET <= target <= _TARGET_MOST:
        return Fine("checkpoint_completion_target", f"checkpoint_completion_target is {target:g}.")
    evidence, costs = _burst(case, target) if target < COMPLETION_TARGET else _overrun(target)
    return Advice(
        "checkpoint_completion_target",
        Weight.GAIN,
        "Set checkpoint_completion_target = 0.9",
        evidence,
        (Change("checkpoint_completion_target", "0.9"),),
        costs=costs,
    )


def _burst(case: ServerCase, target: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(evidence, costs)"""
    evidence = [
        f"checkpoint_completion_target is {target:g}: a checkpoint writes its pages in "
        f"{say_percent(target)} of the time that it has, and the disk idles for the rest."
    ]
    writes = case.window.total("checkpoint_write_ms")
    if writes:
        evidence.append(
            f"Checkpoints have spent {format_duration(writes / 1000)} writing since the last reset."
        )
    costs = (
        "Checkpoints begin a little earlier at the same max_wal_size, and recovery reads a little more WAL.",
    )
    return tuple(evidence), costs


def _overrun(target: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(evidence, costs)"""
    evidence = (
        f"checkpoint_completion_target is {target:g}: a checkpoint writes pages until the next is due and "
        "has no time left to flush the files. So it is done late, and pg_wal keeps more WAL.",
    )
    return evidence, ("A checkpoint writes its pages in a tenth less time.",)
