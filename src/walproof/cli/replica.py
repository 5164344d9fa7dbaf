"""``walproof replica watch``: why a standby is behind, on a running pair, reading only."""

from __future__ import annotations

import json as json_module
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import Interrupted, options
from walproof.cli.status import Status
from walproof.errors import SettingError
from walproof.units import parse_duration_s

if TYPE_CHECKING:
    from walproof.probe.pair import PairObserver

app = typer.Typer(help="Standbys: watch one that runs.", no_args_is_help=True, rich_markup_mode=None)

_SHORTEST_S = 0.5


@app.callback()
def _group() -> None:
    """Standbys: watch one that runs."""


@app.command("watch")
def watch(
    primary: Annotated[
        str,
        typer.Option("--primary", metavar="DSN", help="The server that is followed: libpq's words or a URI."),
    ],
    standby: Annotated[str, typer.Option("--standby", metavar="DSN", help="The standby.")],
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Length of a window.")] = "2s",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after that long. Default: Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One window, then end.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 when the last window has a cause that nobody intends."),
    ] = False,
    application_name: Annotated[
        str | None,
        typer.Option(
            "--application-name", metavar="NAME", help="The standby's walsender, where it is unclear."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Watch a running pair, without writing: where the lag is, what limits, until when it lasts.

    Roles with the rights of pg_monitor are enough. With --json each window is a line.
    """
    from walproof.probe.pair import PairObserver

    every_s, for_s = _duration("--every", every), None if for_ is None else _duration("--for", for_)
    if once:
        for_s = every_s
    found = False
    try:
        with PairObserver(primary, standby, application_name) as observer:
            found = _watch(observer, every_s, for_s, json)
    except Interrupted as signalled:
        # Ctrl-C is how an endless watch ends.
        if for_s is not None or signalled.number != signal.SIGINT:
            raise
    if check and found:
        raise typer.Exit(Status.CHECK_FAILED)


def _watch(observer: PairObserver, every_s: float, for_s: float | None, json: bool) -> bool:
    """Show window after window; whether the last one has a cause that nobody intends."""
    from rich.live import Live

    from walproof.advise.replica.diagnosis import diagnose
    from walproof.report.replica import replica_data, replica_panel

    title = (
        f"PostgreSQL {observer.standby_identity.version} standby of {observer.upstream_identity.version}"
        + (" (a standby itself)" if observer.upstream_identity.is_in_recovery else "")
    )
    console = options.result_console()
    begun = time.monotonic()
    with ExitStack() as stack:
        show = None
        if console.is_terminal and not json:
            show = stack.enter_context(Live(console=console, auto_refresh=False))
        while True:
            left = every_s if for_s is None else begun + for_s - time.monotonic()
            window = observer.observe(max(_SHORTEST_S, min(every_s, left)))
            diagnosis = diagnose(window)
            if json:
                sys.stdout.write(json_module.dumps(replica_data(window, diagnosis)) + "\n")
                sys.stdout.flush()
            elif show is not None:
                show.update(replica_panel(title, window, diagnosis), refresh=True)
            else:
                console.print(replica_panel(title, window, diagnosis))
            found = any(not cause.is_intended for cause in diagnosis.causes)
            if for_s is not None and time.monotonic() >= begun + for_s - _SHORTEST_S / 2:
                return found


def _duration(option: str, text: str) -> float:
    seconds = parse_duration_s(text)
    if seconds < _SHORTEST_S:
        raise SettingError(f"{option} is {text}: expected at least {_SHORTEST_S:g} s")
    return seconds
