"""Watched servers as a page of a terminal: a block per server, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import Concern, Severity
from walproof.facts.replication import ReplicationWindow
from walproof.report.plaintext import one_line
from walproof.report.replica import cause_lines, processes, stage_table, summary
from walproof.report.watch.panels import Panel, clock_time, panels
from walproof.report.watch.plain import notes
from walproof.report.watch.view import ServerView, about, further_causes

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType

_NARROW = 90
"""Below this many columns a remark stands under its figure."""
_STYLES = {0: "green", int(Severity.WARNING): "yellow", int(Severity.CRITICAL): "bold red"}
_MARKS = {0: "●", int(Severity.WARNING): "▲", int(Severity.CRITICAL): "✖"}
"""Marks beside the colour, for terminals and eyes without it."""


class Detail(IntEnum):
    """How much detail about problems a page shows."""

    SENTENCES = 0
    EVIDENCE = 1
    """Concerns with what to do."""
    PAIRS = 2
    """Also everything known about pairs."""


def fitting_page(views: Sequence[ServerView], console: Console) -> Group:
    """The page with as much detail as the terminal has lines for."""
    for detail in (Detail.PAIRS, Detail.EVIDENCE):
        page = watch_page(views, console.width, detail)
        if len(console.render_lines(page, pad=False)) < console.height:
            return page
    return watch_page(views, console.width, Detail.SENTENCES)


def watch_page(views: Sequence[ServerView], width: int, detail: Detail = Detail.PAIRS) -> Group:
    """All servers, one below the other; concerns follow the panels of their server."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for place, view in enumerate(views):
        if place:
            parts.append(Text())
        parts += _server(view, width, detail)
    return Group(*parts)


def _server(view: ServerView, width: int, detail: Detail) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    style = _STYLES[view.severity]
    head = Text.assemble(
        (f"{_MARKS[view.severity]} ", style),
        (one_line(view.name), "bold"),
        (f"  {one_line(about(view))}", "dim"),
    )
    if view.seen.look is not None:
        head.append(f"  {clock_time(view.seen.look.at)}", "dim")
    parts: list[RenderableType] = [head]
    if view.seen.no_answer is not None:
        gone = view.seen.no_answer
        text = f"does not answer since {clock_time(gone.since)}: {gone.reason}"
        parts.append(Padding(Text(one_line(text), style="bold red"), (0, 0, 0, 2)))
    else:
        parts.append(Padding(_table(panels(view), width), (0, 0, 0, 2)))
        for concern in view.concerns:
            parts += _concern(concern, detail)
        told = view.pairs.items() if detail is Detail.PAIRS else ()
        for (name, diagnosis), window in zip(told, view.windows, strict=False):
            parts += [Padding(part, (0, 0, 0, 2)) for part in _pair(name, diagnosis, window, view)]
    for event in view.seen.events[-1:]:
        said = Text(f"{clock_time(event.at)} {one_line(event.text)}", "yellow")
        parts.append(Padding(said, (0, 0, 0, 2)))
    parts += [Padding(Text(one_line(line), "dim"), (0, 0, 0, 2)) for line in notes(view)]
    return parts


def _table(lines: Sequence[Panel], width: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    is_narrow = width < _NARROW
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=not is_narrow)
    table.add_column(no_wrap=not is_narrow)
    if not is_narrow:
        table.add_column(ratio=1)
    for line in lines:
        # As Text: in what is plain, rich looks for markup, and names of a server may have brackets.
        label = Text(one_line(line.label))
        figure = Text(one_line(line.figure), "bold yellow" if line.is_bad else "bold")
        if is_narrow:
            if line.remark:
                figure.append(f"\n{one_line(line.remark)}", "not bold")
            table.add_row(label, figure)
        else:
            table.add_row(label, figure, Text(one_line(line.remark)))
    return table


def _pair(
    name: str, diagnosis: Diagnosis, window: ReplicationWindow, view: ServerView
) -> Iterator[RenderableType]:
    """Everything known about a pair that has a cause; the first cause stands above if it is a concern."""
    from rich.text import Text

    if not diagnosis.causes:
        return
    yield Text(one_line(f"standby {name}: {summary(diagnosis)}"))
    yield stage_table(diagnosis)
    yield from (Text(one_line(line), "dim") for line in processes(window, diagnosis))
    for cause in further_causes(name, diagnosis, view):
        yield from cause_lines(cause, "bold")
    yield from (Text(one_line(f"note: {line}"), "dim") for line in window.notes)


def _concern(concern: Concern, detail: Detail) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    style = _STYLES[int(concern.severity)]
    since = "" if concern.since is None else f" (since {clock_time(concern.since)})"
    head = Text.assemble(
        (f"{_MARKS[int(concern.severity)]} {one_line(concern.sentence)}", style), (since, "dim")
    )
    parts: list[RenderableType] = [Padding(head, (0, 0, 0, 2))]
    if detail is Detail.SENTENCES:
        return parts
    parts += [Padding(Text(f"- {one_line(line)}"), (0, 0, 0, 4)) for line in concern.evidence]
    parts += [Padding(Text(f"-> {one_line(line)}", "green"), (0, 0, 0, 4)) for line in concern.advice]
    return parts
