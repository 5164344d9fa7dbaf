"""A diagnosis of a pair as JSON, as what a terminal shows, and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from walproof.advise.replica.cause import Cause, NamedCause, ranked
from walproof.advise.replica.diagnosis import Diagnosis
from walproof.analysis.replication import Pace, Stage, StageLag
from walproof.facts.codec import to_data
from walproof.facts.replication import ReplicationWindow
from walproof.report.plaintext import one_line
from walproof.report.watch.view import ServerView
from walproof.sentences import say_percent
from walproof.units import Lsn, format_bytes, format_duration

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text


_CALM = {
    Pace.CAUGHT_UP: "The standby has caught up.",
    Pace.KEEPS_UP: "It keeps up.",
    Pace.CATCHES_UP: "It catches up.",
    Pace.NEVER: "The lag is too small to have a cause.",
}
"""What is said about a standby without a known cause."""
_NOT_STREAMED = frozenset({Cause.MISSING_SEGMENT, Cause.WALRECEIVER_ABSENT, Cause.ARCHIVE_RECOVERY})
"""Causes that say more than the standby alone can: that it gets no WAL."""


def replica_data(window: ReplicationWindow, diagnosis: Diagnosis) -> dict[str, Any]:
    """One diagnosis, keys named as in the facts. Positions are LSNs; connection strings are left out."""
    split, last = diagnosis.split, window.last
    sender, receiver = last.upstream.sender, last.standby.receiver
    return {
        "window_s": window.window_s,
        "causes": [to_data(cause) for cause in diagnosis.causes],
        "lag_bytes": split.lag_bytes,
        "lag_s": split.lag_s,
        "is_least": split.is_least,
        "lag_s_most": split.lag_s_most,
        "pace": split.pace.value,
        "catch_up_s": split.catch_up_s,
        "stages": [to_data(stage) for stage in split.stages],
        "rates": to_data(split.rates),
        "positions": {
            "inserted": str(Lsn(last.upstream.inserted)),
            "flushed": str(Lsn(last.upstream.flushed)),
            "sent": None if sender is None else str(Lsn(sender.sent)),
            "standby_written": None if receiver is None else str(Lsn(receiver.written)),
            "standby_flushed": None if receiver is None else str(Lsn(receiver.flushed)),
            "replayed": str(Lsn(last.standby.replayed)),
        },
        "pause_state": last.standby.pause_state,
        "sender": None if sender is None else to_data(sender),
        "receiver": None if receiver is None else to_data(receiver),
        "startup": None if split.startup is None else to_data(split.startup),
        "waits": {process: dict(counts) for process, counts in window.waits.items()},
        "prefetch": None if last.standby.prefetch is None else dict(last.standby.prefetch),
        "startup_reads": last.standby.startup_reads,
        "conflicts": dict(last.standby.conflicts),
        "is_cascade": window.is_cascade,
        "is_local": window.is_local,
        "clock_skew_s": window.clock_skew_s,
        "clock_skew_error_s": window.clock_skew_error_s,
        "notes": list(window.notes),
    }


def summary(diagnosis: Diagnosis) -> str:
    """The pair in one line: ``34.2 MB and 3.1 s behind, catches up in 12 s; 2.0 MB/s made, ...``."""
    split = diagnosis.split
    if split.pace is Pace.CAUGHT_UP:
        state = "caught up"
    else:
        least = "at least " if split.is_least else ""
        state = f"{format_bytes(split.lag_bytes)} and {least}{format_duration(split.lag_s)} behind"
        if split.pace is Pace.KEEPS_UP:
            state += ", keeps up"
        elif split.catch_up_s is not None:
            state += f", caught up in {format_duration(split.catch_up_s)} at these rates"
        else:
            state += ", never caught up at these rates"
    return (
        f"{state}; {format_bytes(split.rates.generated_bytes_per_s)}/s made, "
        f"{format_bytes(split.rates.replayed_bytes_per_s)}/s replayed"
    )


def pair_page(views: Sequence[ServerView]) -> Group:
    """The pair that is watched, and what else is of concern at its two servers (upstream, standby).

    While one does not answer, the last window is from before, and left away."""
    from rich.console import Group
    from rich.text import Text

    upstream, standby = views
    parts: list[RenderableType] = []
    is_current = all(view.seen.no_answer is None for view in views)
    pairs = zip(upstream.pairs.items(), upstream.windows, strict=True) if is_current else ()
    for (name, diagnosis), window in pairs:
        told = f"standby {name}"
        parts.append(replica_panel(_title(upstream, standby, window), window, diagnosis))
        upstream = replace(
            upstream, concerns=tuple(concern for concern in upstream.concerns if concern.key != told)
        )
        if any(cause.cause in _NOT_STREAMED for cause in diagnosis.causes):
            standby = replace(
                standby,
                concerns=tuple(concern for concern in standby.concerns if concern.key != "walreceiver"),
            )
    for view in (upstream, standby):
        for concern in view.concerns:
            parts.append(Text(one_line(f"{view.name}: {concern.sentence}"), style="bold red"))
            parts += [Text(f"  - {one_line(line)}") for line in concern.evidence]
            parts += [Text(f"  -> {one_line(line)}", style="green") for line in concern.advice]
    return Group(*parts)


def _title(upstream: ServerView, standby: ServerView, window: ReplicationWindow) -> str:
    versions = [server.seen.look.version for server in (standby, upstream) if server.seen.look is not None]
    words = " standby of ".join(versions)
    return f"PostgreSQL {words}" + (" (a standby itself)" if window.is_cascade else "")


def replica_panel(title: str, window: ReplicationWindow, diagnosis: Diagnosis) -> Group:
    """What a terminal shows: one line, the stages, the processes, the causes."""
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = [Text(one_line(title), style="bold"), Text(summary(diagnosis))]
    lines += [
        stage_table(diagnosis),
        *(Text(one_line(line), style="dim") for line in processes(window, diagnosis)),
    ]
    lines.append(Text())
    if not diagnosis.causes:
        lines.append(Text(_CALM[diagnosis.split.pace], style="green"))
    for cause in diagnosis.causes:
        style = "bold" if cause.is_intended else "bold red"
        lines += cause_lines(cause, style)
    lines += [Text(one_line(f"note: {line}"), style="dim") for line in window.notes]
    return Group(*lines)


def cause_lines(cause: NamedCause, style: str) -> list[Text]:
    """A cause, its evidence, and what to do."""
    from rich.text import Text

    lines = [Text(one_line(f"{cause.cause.value}: {cause.sentence}"), style=style)]
    lines += [Text(f"  - {one_line(line)}") for line in cause.evidence]
    return lines + [Text(f"  -> {one_line(line)}", style="green") for line in cause.advice]


def stage_table(diagnosis: Diagnosis) -> Table:
    """Where the unreplayed WAL is."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage")
    for name in ("behind", "seconds", "change"):
        table.add_column(name, justify="right")
    for stage in diagnosis.split.stages:
        if stage.lag_bytes or stage.stage not in (Stage.CONFLICT, Stage.APPLY_DELAY):
            table.add_row(*_stage_row(stage))
    return table


def stage_words(diagnosis: Diagnosis) -> list[str]:
    """The same as sentences, for the stages that hold WAL."""
    rows = (_stage_row(stage) for stage in diagnosis.split.stages if stage.lag_bytes)
    return [f"stage {stage}: {behind} behind, {seconds}, {change}" for stage, behind, seconds, change in rows]


def _stage_row(stage: StageLag) -> tuple[str, str, str, str]:
    least = ">= " if stage.is_least else ""
    seconds = f"{least}{format_duration(stage.lag_s)}" if stage.lag_bytes else "-"
    if stage.is_least and stage.lag_bytes and not stage.lag_s:
        seconds = "not known"  # both of its ends are from before anybody looked
    change = f"{stage.lag_bytes_per_s:+.0f}"
    if abs(stage.lag_bytes_per_s) >= 1:
        sign = "+" if stage.lag_bytes_per_s > 0 else "-"
        change = f"{sign}{format_bytes(abs(stage.lag_bytes_per_s))}/s"
    return (
        stage.stage.value,
        format_bytes(stage.lag_bytes),
        seconds,
        change if change not in ("+0", "-0") else "-",
    )


def processes(window: ReplicationWindow, diagnosis: Diagnosis) -> list[str]:
    """What the processes of the pair did in the window."""
    lines = []
    load = diagnosis.split.startup
    if load is not None:
        text = (
            f"startup: {say_percent(load.cpu_share)} of a core, "
            f"{say_percent(load.run_queue_share)} without one"
        )
        if load.read_bytes_per_s is not None:
            text += f", reads {format_bytes(load.read_bytes_per_s)}/s"
        lines.append(text)
    for process, counts in window.waits.items():
        if any(counts.values()):
            lines.append(f"{process}: {ranked(counts)}")
    prefetch = window.last.standby.prefetch
    before = window.first.standby.prefetch
    if prefetch is not None and before is not None:
        grown = {name: prefetch[name] - before.get(name, 0) for name in ("prefetch", "hit", "skip_fpw")}
        if any(grown.values()):
            lines.append(
                f"prefetch: {grown['prefetch']:,} blocks, {grown['hit']:,} were there, {grown['skip_fpw']:,} "
                f"have full-page images; {prefetch['io_depth']} in flight"
            )
    return lines
