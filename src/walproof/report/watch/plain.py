"""Watched servers as sentences, one per line, for screen readers, logs and terminals without a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.analysis.watch.clock import NOT_INCLUDED
from walproof.facts.replication import ReplicationWindow
from walproof.report.plaintext import printable
from walproof.report.replica import processes, stage_words, summary
from walproof.report.watch.panels import clock_time, panels
from walproof.report.watch.view import ServerView, about, further_causes
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration


def plain_text(views: Sequence[ServerView], *, is_first: bool) -> str:
    """All servers, each line complete by itself; notes with the first look only."""
    return "".join(f"{_whole(line)}\n" for view in views for line in _lines(view, is_first))


def _whole(line: str) -> str:
    """The line, whatever names and reasons of a server hold: line ends, or what a terminal obeys."""
    return " ".join(printable(line).splitlines())


def _lines(view: ServerView, is_first: bool) -> Iterator[str]:
    at = "" if view.seen.look is None else f", {clock_time(view.seen.look.at)}"
    gone = view.seen.no_answer
    if gone is None or view.seen.look is not None:
        yield f"{view.name}: {about(view)}{at}"
    if gone is not None:
        yield f"{view.name}: does not answer since {clock_time(gone.since)}: {gone.reason}"
        if gone.hint:
            yield f"{view.name}:   {gone.hint}"
        return
    for panel in panels(view):
        mark = "attention, " if panel.is_bad else ""
        remark = f"; {panel.remark}" if panel.remark else ""
        yield f"{view.name}: {mark}{panel.label}: {panel.figure}{remark}"
    for concern in view.concerns:
        since = "" if concern.since is None else f" Since {clock_time(concern.since)}."
        yield f"{view.name}: {concern.severity.name.lower()}: {concern.sentence}{since}"
        for line in (*concern.evidence, *concern.advice):
            yield f"{view.name}:   {line}"
    for (name, diagnosis), window in zip(view.pairs.items(), view.windows, strict=True):
        if diagnosis.causes:
            yield from (
                f"{view.name}: standby {name}: {line}" for line in _pair(name, diagnosis, window, view)
            )
    yield from (f"{view.name}: {clock_time(event.at)}: {event.text}" for event in view.seen.events[-1:])
    if is_first:
        yield from (f"{view.name}: note: {line}" for line in notes(view))


def _pair(name: str, diagnosis: Diagnosis, window: ReplicationWindow, view: ServerView) -> Iterator[str]:
    yield summary(diagnosis)
    yield from (*stage_words(diagnosis), *processes(window, diagnosis))
    for cause in further_causes(name, diagnosis, view):
        yield f"{cause.cause.value}: {cause.sentence}"
        yield from (*cause.evidence, *cause.advice)
    yield from window.notes


def notes(view: ServerView) -> Iterator[str]:
    """What could not be read, and what figures leave out."""
    yield from (f"not readable: {lack}" for lack in view.seen.lacks)
    yield from view.notes
    sync = None if view.clock is None else view.clock.sync
    if view.clock is not None and sync is None:
        yield f"{NOT_INCLUDED[0].upper()}{NOT_INCLUDED[1:]}."
    if sync is not None and sync.method != "off":
        files = say_count(sync.files, "file")
        seen = files if sync.is_seen else f"about {files}, of pg_class"
        dirty = "" if sync.dirty_bytes is None else f", {format_bytes(sync.dirty_bytes)} dirty on the machine"
        yield (
            f"The sync of the data directory ({sync.method}): {seen}{dirty}; "
            f"{format_duration(sync.span.low)} to {format_duration(sync.span.high)}. "
            "It is not included for a lost machine."
        )
