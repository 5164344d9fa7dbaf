"""The panels of a watched server: label, figure, remark. The page aligns them, plain mode reads them out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from walproof.advise.replica.cause import NamedCause
from walproof.advise.watch.concern import Severity
from walproof.advise.watch.wal import SETTLED_ARCHIVE_S, holder_words, segments_wait
from walproof.analysis.replication import KEEPING_UP_S, LagSplit, Pace, Stage
from walproof.analysis.watch.archive import ArchiveState
from walproof.analysis.watch.standbys import unpaired
from walproof.facts.watch import CrashClock, Span, StreamPhase
from walproof.report.watch.view import ServerView, calm_s, known_lag_s
from walproof.sentences import say_count, say_percent
from walproof.units import format_bytes, format_duration, format_number

_FAR_S = 30 * 86400.0
"""A disk that fills later than that does not fill, as far as rates of a minute can tell."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One line of a server."""

    label: str
    figure: str
    remark: str = ""
    is_bad: bool = False
    """Whether a concern is about it."""


def panels(view: ServerView) -> tuple[Panel, ...]:
    """The panels in the order of the page."""
    seen = view.seen
    if seen.look is None:
        return ()
    found: list[Panel] = []
    if not seen.look.is_in_recovery:
        found += _crash(view)
    found += [*_pg_wal(view), *_archive(view), *_checkpoint(view), *_causes(view)]
    found += [*_standbys(view), *_logical(view)]
    return tuple(found)


def clock_time(at: float) -> str:
    """``09:12`` of the local day, with the date where it is another day."""
    local = time.localtime(at)
    form = "%H:%M:%S" if time.strftime("%F", local) == time.strftime("%F") else "%Y-%m-%d %H:%M"
    return time.strftime(form, local)


def _crash(view: ServerView) -> Iterator[Panel]:
    target = "" if view.target_s is None else f"; target {format_duration(view.target_s)}"
    clock = view.clock
    if clock is None:
        if view.stream.phase is not StreamPhase.OFF:
            yield Panel("if it crashed now", "not known", _without_clock(view) + target)
        return
    is_bad = any(concern.key == "crash recovery" for concern in view.concerns)
    yield Panel("if it crashed now", _spanned(clock.warm), f"{_parts(clock)}{target}", is_bad)
    cold = f"cold cache: redo {_short(clock.cold_redo_s)}, checkpoint {_short(clock.cold_checkpoint_s)}"
    if clock.sync is not None and clock.sync.method != "off":
        cold += "; plus the sync of the data directory, which is not estimated for a cold cache"
    yield Panel("if the machine were lost", _spanned(clock.cold), cold)


def _without_clock(view: ServerView) -> str:
    stream = view.stream
    match stream.phase:
        case StreamPhase.CATCHING_UP:
            left = 0
            if view.seen.look is not None and stream.received is not None:
                left = max(0, view.seen.look.since(stream.received) or 0)
            limit = f", {stream.reason}" if stream.reason else ""
            return f"reading the WAL since the redo point, {format_bytes(left)} left{limit}"
        case StreamPhase.BROKEN:
            return f"no WAL: {stream.reason}" + (f" ({stream.hint})" if stream.hint else "")
        case _:
            return stream.reason or "waiting for WAL"


def _parts(clock: CrashClock) -> str:
    parts = f"redo {_short(clock.redo_s)}, checkpoint {_short(clock.checkpoint_s)}"
    if clock.sync is not None and clock.sync.method != "off":
        about = "about " if not clock.sync.is_seen else ""
        parts = f"sync of the data directory {about}{_short(clock.sync.span.seconds)}, {parts}"
    return f"{parts}; recomputing" if clock.is_recomputing else parts


def _spanned(span: Span) -> str:
    return f"{_short(span.seconds)} ({_short(span.low)} to {_short(span.high)})"


def _short(seconds: float) -> str:
    """A duration without milliseconds: nobody needs them in a forecast."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    return format_duration(seconds if seconds >= 60 else round(seconds, 1 if seconds < 10 else 0))


def _pg_wal(view: ServerView) -> Iterator[Panel]:
    disk = view.seen.disk
    assert view.seen.look is not None
    if disk is None:
        return
    size = "not known" if disk.pg_wal_bytes is None else format_bytes(disk.pg_wal_bytes)
    figure = size if disk.room_bytes is None else f"{size} of {format_bytes(disk.room_bytes)}"
    words = []
    holder = disk.holder
    if disk.full_s is not None and disk.full_s <= _FAR_S:
        words.append(f"full in {format_duration(disk.full_s)} at this rate")
        holder = disk.filling or holder
    if disk.lost_slot_s is not None:
        words.append(f"the slot's WAL is safe for {format_duration(disk.lost_slot_s)}")
    if disk.wal_bytes_per_s is not None and view.causes is None:
        # Otherwise the panel of the WAL has the rate, of the stream and of a slightly different time.
        words.append(f"{format_bytes(disk.wal_bytes_per_s)}/s of WAL over {_short(view.seen.seen_s)}")
    if holder is not None:
        words.append(f"holder: {holder_words(holder)} ({format_bytes(holder.held_bytes)})")
    if disk.pg_wal_bytes is None:
        words.append("its size needs pg_monitor")
    is_bad = any(concern.key in ("pg_wal full", "max_wal_size") or concern.key.startswith("slot ")
                 for concern in view.concerns)  # fmt: skip
    yield Panel("pg_wal", figure, "; ".join(words), is_bad)


def _archive(view: ServerView) -> Iterator[Panel]:
    state = view.seen.archive
    if state is None:
        return
    concern = next((concern for concern in view.concerns if concern.key == "archiver"), None)
    figure = "not known" if state.waiting is None else segments_wait(state.waiting)
    if state.is_estimated and state.waiting is not None:
        figure = f"about {figure}"
    is_known = state.made_per_s is not None and state.archived_per_s is not None
    words = [_archive_rates(state, view.seen.seen_s)] if is_known else []
    if concern is not None:
        stopped = "failing" if state.is_failing else "stuck"
        verb = stopped if concern.severity is Severity.CRITICAL else "falling behind"
        if state.since is not None:
            before = "since before" if state.is_least and not state.is_failing else "since"
            words.append(f"{verb} {before} {clock_time(state.since)}")
        else:
            words.append(verb)
    elif state.caught_up_s is not None and (state.waiting or 0) > 1 and _is_settled(view.seen.seen_s):
        words.append(f"caught up in {format_duration(state.caught_up_s)}")
    yield Panel("archive", figure, "; ".join(words), concern is not None)


def _archive_rates(state: ArchiveState, seen_s: float) -> str:
    """A rate a minute, or the segments themselves where a rate of so few seconds would say nothing."""
    made, archived = state.made_per_s or 0.0, state.archived_per_s or 0.0
    over = _short(seen_s)
    if made * seen_s < 1 and not archived:
        return f"less than one segment of WAL in {over}"
    if _is_settled(seen_s):
        rates = f"{format_number(made * 60)}/min made, {format_number(archived * 60)}/min archived"
        return f"{rates}, over {over}"
    counts = f"{made * seen_s:.0f} made, {archived * seen_s:.0f} archived"  # segments are whole
    return f"{counts} in {over}, too short for a rate"


def _is_settled(seen_s: float) -> bool:
    return seen_s >= SETTLED_ARCHIVE_S


def _checkpoint(view: ServerView) -> Iterator[Panel]:
    state = view.seen.checkpoint
    if state is None:
        return
    if state.is_needless:
        figure = "none needed: next to nothing written since the last"
    elif state.next_s is None:
        figure = "running or due"
    else:
        figure = f"{'by size' if state.is_by_size else 'by time'} in {format_duration(state.next_s)}"
    yield Panel(
        "next checkpoint", figure, f"{format_bytes(state.distance_bytes)} of WAL since the last redo point"
    )


def _causes(view: ServerView) -> Iterator[Panel]:
    causes = view.causes
    if causes is None:
        return
    # An hour is the unit in which other sizes of max_wal_size are told.
    words = [f"{format_bytes(3600 * causes.bytes_per_s)}/h", f"page images {say_percent(causes.image_share)}"]
    if causes.costliest is not None:
        words.append(f"costliest: {causes.costliest.name} {format_bytes(causes.costliest.bytes_per_s)}/s")
    is_bad = any(concern.key.startswith(("index ", "freezing ", "bulk update ")) for concern in view.concerns)
    figure = f"{format_bytes(causes.bytes_per_s)}/s over {_short(causes.seconds)}"
    yield Panel("WAL", figure, "; ".join(words), is_bad)


def _standbys(view: ServerView) -> Iterator[Panel]:
    for name, diagnosis in view.pairs.items():
        yield _standby(name, diagnosis.split, view, diagnosis.causes)
    for state in unpaired(view.seen.standbys, view.windows, view.pairs):
        yield _standby(state.name, state.split, view)


def _standby(
    name: str, split: LagSplit, view: ServerView, causes: tuple[NamedCause, ...] | None = None
) -> Panel:
    """``causes``: of a pair that is watched on both sides."""
    concern = next((concern for concern in view.concerns if concern.key == f"standby {name}"), None)
    label = f"standby {name}"
    lag_s = known_lag_s(view, name, split)
    if concern is None and not causes and lag_s is not None and _is_calm(split, calm_s(view, name)):
        on_the_way = f"{format_bytes(split.lag_bytes)} on the way" if split.lag_bytes else ""
        return Panel(label, "keeps up", on_the_way)
    worst = max(split.stages, key=lambda stage: (stage.lag_s, stage.lag_bytes))
    if lag_s is None:
        # Whether it catches up is not judged either: one look has no rates.
        behind = format_bytes(split.lag_bytes)
        words = ["for how long is not known yet", caught_up(split.catch_up_s, is_growing=False)]
    else:
        behind = f"{'at least ' if split.is_least else ''}{format_duration(lag_s)}"
        words = [caught_up(split.catch_up_s, split.pace is Pace.NEVER), format_bytes(split.lag_bytes)]
    if causes and causes[0].cause.value != worst.stage.value:
        words.append(f"cause: {causes[0].cause.value}")
    return Panel(
        label,
        f"{behind} behind ({worst.stage.value})",
        "; ".join(word for word in words if word),
        concern is not None,
    )


def _is_calm(split: LagSplit, calm_below_s: float) -> bool:
    arriving_s = sum(stage.lag_s for stage in split.stages if stage.stage is not Stage.REPLAY)
    is_calm = split.lag_s < calm_below_s and arriving_s < KEEPING_UP_S
    return split.pace is Pace.CAUGHT_UP or is_calm


def _logical(view: ServerView) -> Iterator[Panel]:
    for state in view.seen.logical:
        name = state.slot.name
        words = [] if state.held_bytes is None else [f"its slot holds {format_bytes(state.held_bytes)}"]
        if state.consumer is not None and state.consumer != name:
            words.append(f"read by {state.consumer}")
        if state.slot.is_synced:
            words.append("kept in step with the primary, for a failover")
        elif not state.slot.is_active:
            words.append("nobody reads it")
        is_bad = any(concern.key in (f"logical {name}", f"slot {name}") for concern in view.concerns)
        if state.keeps_up:
            figure = "keeps up"
        else:
            least = "at least " if state.is_least else ""
            figure = f"{least}{format_duration(state.behind_s)} behind"
            grows = (state.growth_bytes_per_s or 0.0) > 0
            words.insert(0, f"{format_bytes(state.behind_bytes)} not confirmed")
            words.insert(0, caught_up(state.catch_up_s, grows))
        yield Panel(f"logical slot {name}", figure, "; ".join(word for word in words if word), is_bad)
    for subscription in () if view.seen.look is None else view.seen.look.subscriptions:
        concern = any(found.key == f"subscription {subscription.name}" for found in view.concerns)
        figure = (
            "disabled"
            if not subscription.is_enabled
            else "works"
            if subscription.has_worker
            else "no worker now"
        )
        heard = (
            ""
            if subscription.message_age_s is None
            else f"heard {format_duration(subscription.message_age_s)} ago"
        )
        errors = say_count(subscription.errors, "error") if subscription.errors else ""
        yield Panel(
            f"subscription {subscription.name}",
            figure,
            "; ".join(word for word in (heard, errors) if word),
            concern,
        )


def caught_up(catch_up_s: float | None, is_growing: bool) -> str:
    """When the standby has caught up, at these rates."""
    if catch_up_s is not None:
        return f"caught up in {format_duration(catch_up_s)}"
    return "not catching up" if is_growing else ""
