"""``walproof replica watch``: ``walproof watch`` of one pair, in full detail. Reads only."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from walproof.cli import Interrupted, options
from walproof.cli.status import ExitStatus
from walproof.cli.streams import say

app = typer.Typer(help="Watch a running standby.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Watch a running standby."""


@app.command("watch")
def watch(
    primary: Annotated[
        str,
        typer.Option(
            "--primary",
            metavar="DSN",
            help="The server that the standby follows: a connection string or URI.",
        ),
    ],
    standby: Annotated[str, typer.Option("--standby", metavar="DSN", help="The standby.")],
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Length of a window.")] = "2s",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after this time. Default: at Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one window, then end.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 1 when the last window shows a cause that nobody intends, or one of the two "
            "servers has a concern.",
        ),
    ] = False,
    application_name: Annotated[
        str | None,
        typer.Option(
            "--application-name",
            metavar="NAME",
            help="application_name of the standby's walsender, if it is unclear.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Watch a running pair, without writing to it.

    Where the lag is, what limits replication, and how long the lag will last.

    This is `walproof watch` of two servers; that command also finds pairs among more servers. Membership in
    pg_monitor is enough. With --json each window is one line.
    """
    from walproof.cli.watch_loop import Showing, watch_live
    from walproof.cli.watch_order import PairOrder, ServerOrder, WatchOrder, duration
    from walproof.cli.watched import Fleet
    from walproof.observe.pair_watcher import check_watchable

    every_s, for_s = duration("--every", every), None if for_ is None else duration("--for", for_)
    check_watchable(primary, standby, application_name)
    servers = tuple(
        ServerOrder(conninfo, name, streams=False)
        for conninfo, name in ((primary, "primary"), (standby, "standby"))
    )
    order = WatchOrder(servers, every_s, pair=PairOrder(application_name))
    try:
        with Fleet(order) as fleet:
            views = watch_live(fleet, order, Showing(json=json, once=once, for_s=for_s))
    except Interrupted as signalled:
        # Ctrl-C is how an endless watch ends.
        if for_s is not None or once or signalled.number != signal.SIGINT:
            raise
        return
    diagnoses = [diagnosis for view in views for diagnosis in view.pairs.values()]
    has_cause = any(not cause.is_intended for diagnosis in diagnoses for cause in diagnosis.causes)
    concerns = [f"{view.name}: {concern.sentence}" for view in views for concern in view.concerns]
    if check and (has_cause or concerns):
        if json:
            # The lines are of windows alone, which hold causes.
            for concern in concerns:
                say(concern)
        raise typer.Exit(ExitStatus.CHECK_FAILED)
