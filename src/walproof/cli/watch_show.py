"""How looks are shown: as a page of the terminal, as lines, or as JSON."""

from __future__ import annotations

import errno
import json as json_module
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from walproof.cli import Interrupted, options
from walproof.report.watch.view import ServerView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Show = Callable[[Sequence[ServerView]], None]
_Page = Callable[[Sequence[ServerView]], "RenderableType"]


@contextmanager
def shower(*, plain: bool, json: bool) -> Iterator[Show]:
    """What shows each look; a page only if stdout is a terminal that can move its cursor."""
    if json:
        yield _show_json
        return
    console = options.result_console()
    if plain or not console.is_terminal or console.is_dumb_terminal:
        yield _plain()
        return
    from walproof.report.watch.page import fitting_page, lasting_page

    running = partial(fitting_page, console=console)
    with _page(console, running, partial(lasting_page, console=console)) as show:
        yield show


@contextmanager
def pair_shower(*, json: bool) -> Iterator[Show]:
    """What shows each new window of the watched pair, and all else that is wrong with the two servers."""
    console = options.result_console()
    if json:
        yield _of_new_windows(_show_window)
        return
    from walproof.report.replica import pair_page

    if not console.is_terminal or console.is_dumb_terminal:
        yield of_changes(lambda views: console.print(pair_page(views)))
        return
    with _page(console, pair_page, pair_page) as show:
        yield show


@contextmanager
def _page(console: Console, page: _Page, last: _Page) -> Iterator[Show]:
    """A page that replaces the one before; the last one stays, and may be longer than the screen."""
    from rich.live import Live

    newest: Sequence[ServerView] = ()

    def show(views: Sequence[ServerView]) -> None:
        nonlocal newest
        newest = views
        live.update(page(views), refresh=True)

    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            try:
                yield show
            finally:
                if newest:
                    live.update(last(newest))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # The terminal is gone, and what stands on it cannot be put in order.
        raise Interrupted(signal.SIGHUP) from None


def _of_new_windows(show: Show) -> Show:
    last: object = None

    def show_new(views: Sequence[ServerView]) -> None:
        nonlocal last
        window = views[0].windows[0] if views[0].windows else None
        if window is not last and window is not None:
            show(views)
        last = window

    return show_new


def of_changes(show: Show) -> Show:
    """Also when there is no window any more, and when a server ceases to answer: its session may wait for the
    network long before it says so."""
    last: object = None
    were_away: tuple[str, ...] = ()

    def show_changed(views: Sequence[ServerView]) -> None:
        nonlocal last, were_away
        window = views[0].windows[0] if views[0].windows else None
        away = tuple(view.seen.no_answer.reason for view in views if view.seen.no_answer is not None)
        is_new = away != were_away if away else window is not last
        if is_new and (window is not None or any(view.concerns for view in views)):
            show(views)
        were_away = away
        if not away:
            last = window

    return show_changed


def _show_window(views: Sequence[ServerView]) -> None:
    from walproof.report.replica import replica_data

    (window,) = views[0].windows
    (diagnosis,) = views[0].pairs.values()
    sys.stdout.write(json_module.dumps(replica_data(window, diagnosis)) + "\n")
    sys.stdout.flush()


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
