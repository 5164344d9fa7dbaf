"""How looks are shown: as a page of the terminal, as lines, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from walproof.cli import options
from walproof.report.watch.view import ServerView

Show = Callable[[Sequence[ServerView]], None]


@contextmanager
def shower(*, plain: bool, json: bool) -> Iterator[Show]:
    """What shows each look; a page only where stdout is a terminal that can move its cursor."""
    if json:
        yield _show_json
        return
    console = options.result_console()
    if plain or not console.is_terminal or console.is_dumb_terminal:
        yield _plain()
        return
    from rich.live import Live

    from walproof.report.watch.page import watch_page

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda views: live.update(watch_page(views, console.width), refresh=True)


def _show_json(views: Sequence[ServerView]) -> None:
    from walproof.report.watch.json import watch_line

    for view in views:
        sys.stdout.write(watch_line(view))
    sys.stdout.flush()


def _plain() -> Show:
    is_first = True

    def show(views: Sequence[ServerView]) -> None:
        from walproof.report.watch.plain import plain_text

        nonlocal is_first
        sys.stdout.write(plain_text(views, is_first=is_first))
        sys.stdout.flush()
        is_first = False

    return show
