"""The loop of ``walproof watch``: look after look, live or from a history, for whoever shows them."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from walproof.advise.watch.suspicion import LONGEST_S
from walproof.cli.streams import reader_may_leave
from walproof.cli.watch_order import SHORTEST_S, HistoryOrder, WatchOrder
from walproof.errors import ProbeError, StoreError
from walproof.report.plaintext import one_line
from walproof.report.watch.check import Checked, check
from walproof.sentences import say_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from walproof.advise.watch.concern import Thresholds
    from walproof.cli.watch_show import Show
    from walproof.cli.watched import Fleet
    from walproof.report.watch.view import ServerView

_ONCE_S = 20.0
"""The longest time a single look waits for the stream to reach the end of WAL."""


@dataclass(frozen=True, slots=True)
class Showing:
    """How looks are shown, and for how long."""

    plain: bool = False
    json: bool = False
    once: bool = False
    for_s: float | None = None


def check_once(fleet: Fleet, order: WatchOrder) -> None:
    """One line, and the status of a plugin. The look is kept where a history is asked for."""
    _settle(fleet, order.every_s)
    views = fleet.views()
    if order.history is not None:
        keep_one(views, order.history, order.every_s)
    answer(check(views, order.thresholds))


def keep_one(views: Sequence[ServerView], history: HistoryOrder, every_s: float) -> None:
    """Keep a single look. A warning on stderr says why it cannot be kept: a check answers all the same."""
    from walproof.cli.watch_keep import Keeper

    try:
        with Keeper(history, every_s, says=True) as keeper:
            keeper.keep(views)
    except StoreError as error:
        sys.stderr.write(f"warning: {error.message}\n")


def answer(checked: Checked) -> None:
    """Print it and exit."""
    with reader_may_leave():
        sys.stdout.write(checked.text + "\n")
    raise typer.Exit(int(checked.status))


def watch_live(fleet: Fleet, order: WatchOrder, showing: Showing) -> list[ServerView]:
    """Show look after look until the time is over. Returns what was shown last.

    Raises ProbeError where one pair was asked for and gave no window, or none at the end, and where a
    single look saw nothing of a server.
    """
    from walproof.cli.watch_show import pair_shower, shower

    with ExitStack() as stack:
        tell = list(_listeners(stack, order))
        keep = None
        if order.history is not None:
            from walproof.cli.watch_keep import Keeper

            says = showing.plain or showing.json or not sys.stdout.isatty()
            keep = stack.enter_context(Keeper(order.history, order.every_s, says=says)).keep
        if showing.once and order.pair is None:
            _settle(fleet, order.every_s)
        made = shower(plain=showing.plain, json=showing.json)
        show = stack.enter_context(made if order.pair is None else pair_shower(json=showing.json))
        begun_s = time.monotonic()
        is_first, told = True, None
        if showing.once:
            fleet.wait_for_pair()
        elif order.pair is not None:
            fleet.pause(order.every_s)
        while True:
            views = fleet.views(patience_s=order.every_s if is_first else 0.0)
            is_first = False
            if keep is not None:
                views = keep(views)
            for teller in tell:
                teller(views)
            is_single = showing.once and order.pair is None
            if not is_single or showing.json or any(view.seen.look is not None for view in views):
                with reader_may_leave() if showing.once else nullcontext():
                    show(views)
            if is_single:
                check_seen(views)
            passed_s = time.monotonic() - begun_s
            if showing.once or (showing.for_s is not None and passed_s >= showing.for_s - SHORTEST_S / 2):
                fleet.check_pair()
                return views
            told = _tell_pair_error(fleet, told)
            left_s = order.every_s if showing.for_s is None else min(order.every_s, showing.for_s - passed_s)
            fleet.pause(max(0.0, left_s))


def _tell_pair_error(fleet: Fleet, told: str | None) -> str | None:
    """Say why one pair gives no window now, once for each reason; what has been said."""
    error = fleet.pair_error
    if error is None:
        return None
    said = one_line(". ".join(part.rstrip(".") for part in (error.message, error.detail) if part))
    if said != told:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} not watched: {said}. Trying again.\n")
        sys.stderr.flush()
    return said


def check_seen(views: Sequence[ServerView]) -> None:
    """Raise ProbeError if nothing was seen of a server."""
    gone = {
        view.name: view.seen.no_answer
        for view in views
        if view.seen.look is None and view.seen.no_answer is not None
    }
    if not gone:
        return
    said = [f"{name}: {answer.reason}" for name, answer in gone.items()]
    hints = dict.fromkeys(answer.hint for answer in gone.values() if answer.hint)
    raise ProbeError(
        f"nothing was seen of {say_list(list(gone))}",
        detail="; ".join(said),
        hint=" ".join(hints) or None,
    )


def watch_replayed(
    path: Path,
    names: tuple[str, ...],
    thresholds: Callable[[str], Thresholds],
    speed: float,
    since: float | None,
    showing: Showing,
) -> None:
    """Show a history. Raises StoreError, SettingError."""
    from walproof.cli.watch_replay import PAUSE_S_MOST, frames
    from walproof.cli.watch_show import shower
    from walproof.facts.watch_history import open_history

    begun_s = time.monotonic()
    with ExitStack() as stack:
        history = stack.enter_context(open_history(path))
        found = frames(history, thresholds, names, since)
        show = None
        shown_at, due_s, frame = None, time.monotonic(), None
        for frame in found:
            if show is None:
                show = stack.enter_context(shower(plain=showing.plain, json=showing.json))
            if showing.once:
                continue
            if shown_at is not None:
                due_s += min(PAUSE_S_MOST, max(0.0, frame.at - shown_at) / speed)
            left_s = due_s - time.monotonic()
            if left_s > 0:
                time.sleep(left_s)
            else:
                due_s -= left_s
            shown_at = frame.at
            show(frame.views)
            if showing.for_s is not None and time.monotonic() - begun_s >= showing.for_s:
                return
        if frame is None or show is None:
            raise StoreError(f'history "{path}" has no record of that')
        if showing.once:
            show(frame.views)


def _listeners(stack: ExitStack, order: WatchOrder) -> Iterator[Show]:
    """Who else is told about each look, until the stack is left. Raises SettingError when a listener cannot
    listen."""
    if order.listen is not None:
        from walproof.cli.watch_listen import Listener

        yield stack.enter_context(Listener(order.listen)).tell
    if order.web is not None:
        from walproof.cli.web_serve import WatchedSite

        kept = None if order.history is None else order.history.path
        yield stack.enter_context(WatchedSite(order.web, order.web_names, order.every_s, kept)).tell


def _settle(fleet: Fleet, every_s: float) -> None:
    """Rates need two looks, more where there is a hint of a concern; a clock needs the WAL since the redo
    point."""
    end_s = time.monotonic() + LONGEST_S
    fleet.views(patience_s=_ONCE_S)
    until_s = min(end_s, time.monotonic() + _ONCE_S)
    time.sleep(every_s)
    views = fleet.views()
    while not fleet.is_settled and time.monotonic() < until_s:
        time.sleep(min(every_s, 0.2))
        views = fleet.views()
    while any(view.is_suspected for view in views) and time.monotonic() < end_s:
        time.sleep(min(every_s, 0.5))
        views = fleet.views()
