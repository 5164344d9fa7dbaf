"""Watched servers as a page of a terminal: a block per server, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import Concern, Severity
from walproof.facts.replication import ReplicationWindow
from walproof.facts.watch import NoAnswer
from walproof.report.plaintext import one_line
from walproof.report.replica import cause_lines, processes, stage_table, summary
from walproof.report.watch.panels import Panel, clock_time, panels
from walproof.report.watch.plain import notes
from walproof.report.watch.view import ServerView, about, further_causes
from walproof.sentences import say_count

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.text import Text

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
    return _whole_page(views, console) or _low_page(views, console)


def lasting_page(views: Sequence[ServerView], console: Console) -> Group:
    """The same for a page that may be scrolled: no figure is left out."""
    return _whole_page(views, console) or watch_page(views, console.width, Detail.SENTENCES)


def _whole_page(views: Sequence[ServerView], console: Console) -> Group | None:
    for detail in reversed(Detail):
        page = watch_page(views, console.width, detail)
        if _height([page], console) < console.height:
            return page
    return None


def _low_page(views: Sequence[ServerView], console: Console) -> Group:
    """What fits of servers that do not fit: the worst first, a line each, then what is wrong with them, then
    their figures. The last line says what is left out."""
    from rich.console import Group
    from rich.text import Text

    room = max(1, console.height - 2)
    ordered = sorted(views, key=lambda view: -view.severity)
    shown, left = ordered[:room], ordered[room:]
    blocks: list[list[RenderableType]] = [[_line(view)] for view in shown]
    free = room - len(shown)
    for fuller in (_wrong_alone, _with_figures):
        for place, view in enumerate(shown):
            for block in fuller(view, console.width):
                more = _height(block, console) - _height(blocks[place], console)
                if more > free:
                    break
                blocks[place], free = block, free - more
    parts = [part for block in blocks for part in block]
    return Group(*parts, Text(_left_out(left), "dim", no_wrap=True, overflow="ellipsis"))


def _height(parts: Sequence[RenderableType], console: Console) -> int:
    from rich.console import Group

    return len(console.render_lines(Group(*parts), pad=False))


def _left_out(left: Sequence[ServerView]) -> str:
    wrong = sum(view.severity > 0 for view in left)
    also = f", {wrong} of them with concerns" if wrong else ""
    return f"{say_count(len(left), 'more server')}{also}: --plain has all" if left else "--plain has all"


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


def _line(view: ServerView) -> Text:
    """A server and what is worst with it, cut off at the end of the line."""
    from rich.text import Text

    said = about(view)
    if view.seen.no_answer is not None:
        said = _no_answer(view.seen.no_answer)
    elif view.concerns:
        several = f"{say_count(len(view.concerns), 'concern')}: " if len(view.concerns) > 1 else ""
        said = several + max(view.concerns, key=lambda concern: concern.severity).sentence
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{_MARKS[view.severity]} ", _STYLES[view.severity])
    line.append(one_line(view.name), "bold")
    return line.append(f"  {one_line(said)}")


def _wrong_alone(view: ServerView, _width: int) -> Iterator[list[RenderableType]]:
    yield [_head(view), *_wrong(view, Detail.SENTENCES)]


def _with_figures(view: ServerView, width: int) -> Iterator[list[RenderableType]]:
    """The same with one more figure each time."""
    found = () if view.seen.no_answer is not None else panels(view)
    for count in range(1, len(found) + 1):
        yield [_head(view), *_wrong(view, Detail.SENTENCES), _figures(found[:count], width)]


def _head(view: ServerView) -> Text:
    from rich.text import Text

    head = Text.assemble(
        (f"{_MARKS[view.severity]} ", _STYLES[view.severity]),
        (one_line(view.name), "bold"),
        (f"  {one_line(about(view))}", "dim"),
    )
    if view.seen.look is not None:
        head.append(f"  {clock_time(view.seen.look.at)}", "dim")
    return head


def _wrong(view: ServerView, detail: Detail) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    if view.seen.no_answer is not None:
        text = Text(one_line(_no_answer(view.seen.no_answer)), style="bold red")
        return [Padding(text, (0, 0, 0, 2))]
    return [part for concern in view.concerns for part in _concern(concern, detail)]


def _no_answer(gone: NoAnswer) -> str:
    return f"does not answer since {clock_time(gone.since)}: {gone.reason}"


def _server(view: ServerView, width: int, detail: Detail) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    parts: list[RenderableType] = [_head(view)]
    if view.seen.no_answer is None:
        parts.append(_figures(panels(view), width))
    parts += _wrong(view, detail)
    if view.seen.no_answer is None:
        told = view.pairs.items() if detail is Detail.PAIRS else ()
        for (name, diagnosis), window in zip(told, view.windows, strict=False):
            parts += [Padding(part, (0, 0, 0, 2)) for part in _pair(name, diagnosis, window, view)]
    for event in view.seen.events[-1:]:
        said = Text(f"{clock_time(event.at)} {one_line(event.text)}", "yellow")
        parts.append(Padding(said, (0, 0, 0, 2)))
    parts += [Padding(Text(one_line(line), "dim"), (0, 0, 0, 2)) for line in notes(view)]
    return parts


def _figures(lines: Sequence[Panel], width: int) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    is_narrow = width < _NARROW
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=not is_narrow)
    table.add_column(no_wrap=not is_narrow)
    if not is_narrow:
        table.add_column(ratio=1)
    mark = f"{_MARKS[int(Severity.WARNING)]} "
    # So that labels begin in one column.
    unmarked = " " * len(mark) if any(line.is_bad for line in lines) else ""
    for line in lines:
        # As Text: in what is plain, rich looks for markup, and names of a server may have brackets.
        label = Text.assemble((mark, "yellow") if line.is_bad else unmarked, one_line(line.label))
        figure = Text(one_line(line.figure), "bold yellow" if line.is_bad else "bold")
        if is_narrow:
            if line.remark:
                figure.append(f"\n{one_line(line.remark)}", "not bold")
            table.add_row(label, figure)
        else:
            table.add_row(label, figure, Text(one_line(line.remark)))
    return Padding(table, (0, 0, 0, 2))


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
