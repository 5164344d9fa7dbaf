"""``walproof watch``: if it crashed now, what fills the disk, who is behind: live, reading only."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import Interrupted, options
from walproof.errors import SettingError, WalproofError
from walproof.units import parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from walproof.cli.watch_show import Show
    from walproof.cli.watched import Fleet, WatchOrder

_SHORTEST_S = 0.5
_ONCE_S = 20.0
"""The longest that a single look waits for the stream to come to the end of WAL."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who else is told of each look, as typed."""

    listen: str | None
    web: str | None
    names: tuple[str, ...]

    def entered(self, stack: ExitStack, every_s: float) -> Iterator[Show]:
        """What tells each of them, until the stack is left. Raises SettingError when it cannot listen."""
        if self.listen is not None:
            from walproof.cli.watch_listen import Listener

            yield stack.enter_context(Listener(self.listen)).tell
        if self.web is not None:
            from walproof.cli.web_serve import WatchedSite

            yield stack.enter_context(WatchedSite(self.web, self.names, every_s)).tell


def watch(
    dsns: Annotated[
        list[str],
        typer.Argument(metavar="DSN...", help='Servers: "service=db1" "host=db2 user=me". Standbys, too.'),
    ],
    recovery_target: Annotated[
        str | None, typer.Option("--recovery-target", metavar="TIME", help="Longest crash recovery: 60s.")
    ] = None,
    wal_disk: Annotated[
        str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal: 200GB.")
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two looks.")] = "2s",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after that long. Default: Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One result, then end.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines of text, each complete by itself; no page.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="One line and an exit status as of a Nagios plugin: 0 to 3."),
    ] = False,
    full_warning: Annotated[
        str, typer.Option("--full-warning", metavar="TIME", help="Warn when pg_wal is full within.")
    ] = "4h",
    full_critical: Annotated[
        str, typer.Option("--full-critical", metavar="TIME", help="The same, critical.")
    ] = "1h",
    lag_warning: Annotated[
        str, typer.Option("--lag-warning", metavar="TIME", help="Warn when a standby is that late.")
    ] = "15s",
    lag_critical: Annotated[
        str, typer.Option("--lag-critical", metavar="TIME", help="The same, critical.")
    ] = "5min",
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Serve metrics for Prometheus: 127.0.0.1:9187."),
    ] = None,
    web: Annotated[
        str | None,
        typer.Option("--web", metavar="HOST:PORT", help="Serve a page for browsers: 127.0.0.1:8432."),
    ] = None,
    name: options.HostNames = None,
    stream: Annotated[
        bool,
        typer.Option("--stream/--no-stream", help="Stream WAL, for the crash clock and causes of WAL."),
    ] = True,
    max_retained: Annotated[
        str,
        typer.Option("--max-retained", metavar="SIZE", help="Give the stream up when a server keeps more."),
    ] = "1GB",
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", metavar="FILE", help="Costs of recovery of the servers' machine. Default: this "
            "machine's for servers here, else the shipped ones.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Watch servers, without writing: what a crash would cost now, what fills pg_wal, who is behind.

    pg_monitor is enough for all but the crash clock and causes, for which WAL is streamed: that needs
    REPLICATION. With --json each look at each server is a line.
    """
    from walproof.advise.watch.concern import Thresholds
    from walproof.cli.watched import Fleet, WatchOrder, server_name

    try:
        for dsn in dsns:
            server_name(dsn)
        limits = Thresholds(
            options.duration_s(recovery_target),
            parse_duration_s(full_warning),
            parse_duration_s(full_critical),
            parse_duration_s(lag_warning),
            parse_duration_s(lag_critical),
        )
        room = None if wal_disk is None else options.positive_bytes("--wal-disk", wal_disk)
        every_s = _duration("--every", every)
        for_s = None if for_ is None else _duration("--for", for_)
        order = WatchOrder(tuple(dsns), every_s, limits, room, stream, parse_bytes(max_retained), calibration)
        if check:
            with Fleet(order) as fleet:
                _check(fleet, order)
    except WalproofError as error:
        if not check:
            raise
        from walproof.report.watch.check import failed

        _answer(failed(error.message))
    try:
        with Fleet(order) as fleet:
            told = Listeners(listen, web, tuple(name or ()))
            _watch(fleet, order, for_s, told, once=once, plain=plain, json=json)
    except Interrupted as signalled:
        # Ctrl-C is how an endless watch ends.
        if for_s is not None or once or signalled.number != signal.SIGINT:
            raise


def _check(fleet: Fleet, order: WatchOrder) -> None:
    from walproof.report.watch.check import check

    _settle(fleet, order)
    _answer(check(fleet.views(), order.thresholds))


def _answer(checked: object) -> None:
    from walproof.report.watch.check import Checked

    assert isinstance(checked, Checked)
    sys.stdout.write(checked.text + "\n")
    raise typer.Exit(int(checked.status))


def _settle(fleet: Fleet, order: WatchOrder) -> None:
    """Rates need two looks, and a clock the WAL since the redo point."""
    fleet.views(patience_s=_ONCE_S)
    until_s = time.monotonic() + _ONCE_S
    time.sleep(order.every_s)
    fleet.views()
    while not fleet.is_settled and time.monotonic() < until_s:
        time.sleep(min(order.every_s, 0.2))
        fleet.views()


def _watch(
    fleet: Fleet, order: WatchOrder, for_s: float | None, listeners: Listeners, *, once: bool, plain: bool,
    json: bool,
) -> None:  # fmt: skip
    """Show look after look until the time is over."""
    from contextlib import ExitStack

    from walproof.cli.watch_show import shower

    with ExitStack() as stack:
        tell = list(listeners.entered(stack, order.every_s))
        if once:
            _settle(fleet, order)
        show = stack.enter_context(shower(plain=plain, json=json))
        begun_s = time.monotonic()
        is_first = True
        while True:
            views = fleet.views(patience_s=order.every_s if is_first else 0.0)
            is_first = False
            for one in tell:
                one(views)
            show(views)
            passed_s = time.monotonic() - begun_s
            if once or (for_s is not None and passed_s >= for_s - _SHORTEST_S / 2):
                return
            left_s = order.every_s if for_s is None else min(order.every_s, for_s - passed_s)
            time.sleep(max(0.0, left_s))


def _duration(option: str, text: str) -> float:
    seconds = parse_duration_s(text)
    if seconds < _SHORTEST_S:
        raise SettingError(f"{option} is {text}: expected at least {_SHORTEST_S:g} s")
    return seconds
