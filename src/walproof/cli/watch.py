"""``walproof watch``: what a crash would cost now, what fills the disk, who lags behind. Reads only."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import Interrupted, options
from walproof.errors import SettingError, WalproofError

if TYPE_CHECKING:
    from walproof.cli.watch_loop import Showing
    from walproof.cli.watch_order import Typed


def watch(
    dsns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DSN...]",
            help='Servers: "service=db1" "host=db2 user=me". Standbys, too. With --config and --replay: '
                'names.',
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="File of servers and options: watch.toml.")
    ] = None,
    recovery_target: Annotated[
        str | None, typer.Option("--recovery-target", metavar="TIME", help="Longest acceptable crash "
            "recovery, such as 60s. Default: none.")
    ] = None,
    wal_disk: Annotated[
        str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal, such as 200GB. "
            "Default: none.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Time between two looks. Default: 2s.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after this time. Default: at Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one result, then end.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print lines of text, each complete by itself, instead of a page.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Print one line and exit like a Nagios plugin: 0 to 3."),
    ] = False,
    full_warning: Annotated[
        str | None,
        typer.Option("--full-warning", metavar="TIME", help="Warn when pg_wal will be full within this "
            "time. Default: 4h."),
    ] = None,
    full_critical: Annotated[
        str | None, typer.Option("--full-critical", metavar="TIME", help="The same, but critical. Default: "
            "1h.")
    ] = None,
    lag_warning: Annotated[
        str | None,
        typer.Option("--lag-warning", metavar="TIME", help="Warn when a standby lags by this time. Default: "
            "15s."),
    ] = None,
    lag_critical: Annotated[
        str | None, typer.Option("--lag-critical", metavar="TIME", help="The same, but critical. Default: "
            "5min.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT",
            help="Serve metrics for Prometheus at this address, such as 127.0.0.1:8433.",
        ),
    ] = None,
    web: Annotated[
        str | None,
        typer.Option(
            "--web", metavar="HOST:PORT",
            help="Serve a page for browsers at this address, such as 127.0.0.1:8432.",
        ),
    ] = None,
    name: options.HostNames = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream", show_default=False,
            help="Stream WAL, for the crash clock and causes of WAL. Default: stream.",
        ),
    ] = None,
    max_retained: Annotated[
        str | None,
        typer.Option(
            "--max-retained", metavar="SIZE",
            help="Give up the stream when a server keeps more WAL for it. Default: 1GB.",
        ),
    ] = None,
    max_rate: Annotated[
        str | None,
        typer.Option(
            "--max-rate", metavar="SIZE",
            help="Most of a stream to read per second, such as 20MB. Default: no limit.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", metavar="FILE", help="Recovery costs of the servers' machine. Default: this "
                "machine's for servers here, else the shipped ones.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Keep what is seen in a file, to look at it later "
            "with --replay."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="TIME", help="Oldest age kept in the history. Default: 30d."),
    ] = None,
    history_max: Annotated[
        str | None,
        typer.Option("--history-max", metavar="SIZE", help="Largest size of the history. Default: 1GB."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="FILE", help="Show a history as if it happened now; ask no server."),
    ] = None,
    speed: Annotated[
        str | None, typer.Option("--speed", metavar="60x", help="Speed of a replay. Default: 1x.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help='Where a replay begins: "2026-11-24 03:00", or 2h (for '
                '2 hours ago).'),
    ] = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Watch servers, without writing to them.

    What a crash would cost now, what fills pg_wal, who holds it, and who is behind.

    pg_monitor is enough for all but the crash clock and causes, for which WAL is streamed: that needs
    REPLICATION. With --json each look at each server is one line.
    """
    from walproof.cli.watch_loop import Showing, answer
    from walproof.cli.watch_order import Typed, duration

    typed = Typed(
        servers=tuple(dsns or ()), recovery_target=recovery_target, wal_disk=wal_disk, every=every,
        full_warning=full_warning, full_critical=full_critical, lag_warning=lag_warning,
        lag_critical=lag_critical, listen=listen, web=web, web_names=tuple(name or ()), stream=stream,
        max_retained=max_retained, max_rate=max_rate, calibration=calibration, history=history, keep=keep,
        history_max=history_max,
    )  # fmt: skip
    try:
        showing = Showing(plain, json, once, None if for_ is None else duration("--for", for_))
        if replay is not None:
            _replay(typed, config, replay, speed, from_, showing, check=check)
        elif speed is not None or from_ is not None:
            raise SettingError("--speed and --from are for a replay", hint="--replay FILE names the history.")
        else:
            _watch(typed, config, showing, check=check)
    except WalproofError as error:
        if not check:
            raise
        from walproof.report.watch.check import failed

        answer(failed(error.message if error.detail is None else f"{error.message}: {error.detail}"))
    except Interrupted as signalled:
        # Ctrl-C is how an endless watch ends.
        if for_ is not None or once or signalled.number != signal.SIGINT:
            raise


def _watch(typed: Typed, config: Path | None, showing: Showing, *, check: bool) -> None:
    from walproof.cli.watch_file import read_watch_file
    from walproof.cli.watch_loop import check_once, watch_live
    from walproof.cli.watch_order import watch_order
    from walproof.cli.watched import Fleet
    from walproof.probe.connection import require_service

    if check:
        _refuse_beside_check(typed, showing)
    order = watch_order(typed, None if config is None else read_watch_file(config))
    for server in order.servers:
        require_service(server.conninfo)
    if check:
        with Fleet(order) as fleet:
            check_once(fleet, order)
    with Fleet(order) as fleet:
        watch_live(fleet, order, showing)


def _refuse_beside_check(typed: Typed, showing: Showing) -> None:
    """Raise SettingError for what was typed and says nothing of a single look that prints one line."""
    given = {
        "--listen": typed.listen,
        "--web": typed.web,
        "--name": typed.web_names,
        "--for": showing.for_s,
        "--json": showing.json,
    }
    if beside := [option for option, value in given.items() if value]:
        raise SettingError(
            f"not for a check: {', '.join(beside)}",
            detail="A check looks once, prints one line and exits; it serves nothing.",
            hint="--once --json prints a look as JSON.",
        )


def _replay(
    typed: Typed, config: Path | None, path: Path, speed: str | None, from_: str | None, showing: Showing, *,
    check: bool,
) -> None:  # fmt: skip
    from walproof.cli.watch_file import read_watch_file
    from walproof.cli.watch_loop import watch_replayed
    from walproof.cli.watch_order import replay_thresholds
    from walproof.cli.watch_replay import parse_speed
    from walproof.units import parse_moment

    if of_live := [*typed.of_live_servers(), *(["--check"] if check else [])]:
        raise SettingError(
            f"not for a replay: {', '.join(of_live)}",
            detail="A replay shows what was seen. It asks no server, and is not served, checked or kept.",
            hint="--json makes lines of it.",
        )
    watch_replayed(
        path,
        typed.servers,
        replay_thresholds(typed, None if config is None else read_watch_file(config)),
        1.0 if speed is None else parse_speed(speed),
        None if from_ is None else parse_moment(from_, time.time()),
        showing,
    )
