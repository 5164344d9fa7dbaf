"""``walproof advise``: what a running server, or one that was recorded, should set, and why."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options
from walproof.cli.advising import (
    AdviceOrder,
    advice_from,
    keep_window,
    observe_server,
    recorded_window,
    with_standbys,
)
from walproof.errors import SettingError
from walproof.units import parse_bytes, parse_duration_s

PLATFORM_NAMES = (
    "conf, alter-system, patroni, cnpg, zalando, crunchy, rds, rds-terraform, aurora, azure, cloudsql, values"
)
_SHORTEST_S = 1.0
_LOOK_S = 600.0
_DEMO_S = 60.0
"""Long enough for two timed checkpoints of the demo, and many by size."""
_WAL_MOST = "4GB"


def advise(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DSN|FOLDER",
            help='A server ("service=shop", "host=db1 user=me"), or a recording of a server.',
        ),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Look at a throw-away server that is badly configured and under load."),
    ] = False,
    pg: options.OnePg = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long to look. Default: 10min.")
    ] = None,
    recovery_target: Annotated[
        str | None, typer.Option("--recovery-target", metavar="TIME", help="Longest crash recovery.")
    ] = None,
    startup_budget: Annotated[
        str | None,
        typer.Option(
            "--startup-budget",
            metavar="TIME",
            help="Time after which an orchestrator ends a server that is starting.",
        ),
    ] = None,
    wal_disk: Annotated[
        str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal.")
    ] = None,
    may_lose: Annotated[
        str,
        typer.Option(
            "--may-lose", metavar="WHAT", help="What a crash may cost: nothing, commits, table, cluster."
        ),
    ] = "nothing",
    standby: Annotated[
        list[str] | None,
        typer.Option(
            "--standby", metavar="DSN", help="A standby of the server: does it read indexes? May be repeated."
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="NAME",
            help=f"Platform to write lines for: {PLATFORM_NAMES}. Default: the one that is recognised, else "
            "alter-system.",
            autocompletion=options.complete_platform,
        ),
    ] = None,
    mute: Annotated[
        list[str] | None, typer.Option("--mute", metavar="RULE", help="Leave a rule out. May be repeated.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since", metavar="FILE", help="Earlier advice (--json): list what is new and what is gone."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Keep what was seen in a new folder, for later advice."),
    ] = None,
    wal_most: Annotated[
        str, typer.Option("--wal-most", metavar="SIZE", help="Most WAL to record.")
    ] = _WAL_MOST,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="For --recovery-target. Default: this machine's."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page as well.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown as well.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what a server should change, without writing to it.

    Each piece of advice has its evidence, gain and risk, lines to paste, and lines that undo them.

    Membership in pg_monitor is enough for statistics; with REPLICATION the WAL is recorded, too (contents
    never reach the disk), and settings are simulated on it. Nothing is changed on the server.
    """
    order = AdviceOrder(
        options.duration_s(recovery_target),
        None if wal_disk is None else options.positive_bytes("--wal-disk", wal_disk),
        may_lose,
        platform,
        mute or (),
        calibration,
        options.duration_s(startup_budget),
    )
    order.check()
    if (target is None) is not demo:
        raise SettingError(
            "name a server or a folder, or say --demo",
            hint='Such as: walproof advise "service=shop" --for 10min',
        )
    if pg is not None and not demo:
        raise SettingError("--pg is for --demo", hint="A running server has its own PostgreSQL.")
    if standby and (target is None or Path(target).is_dir()):
        raise SettingError("--standby is for a running server", hint="Name the primary as well.")
    most = parse_bytes(wal_most)
    seconds = _seconds(for_, demo=demo)
    with ExitStack() as stack:
        if target is None:
            target = stack.enter_context(_demo(pg))
        if Path(target).is_dir():
            folder, window = Path(target), recorded_window(Path(target))
        else:
            folder = save if save is not None else _temporary(stack)
            window = observe_server(target, seconds, most, folder, _progress)
            window = with_standbys(window, standby or ())
            if save is not None:
                keep_window(window, folder)
        advice, view = advice_from(window, folder, order)
    if since is not None:
        from dataclasses import replace

        from walproof.report.advice.since import since as compare

        view = replace(view, since=compare(since, advice).sentences)
    if html is not None or markdown is not None:
        from walproof.cli.files import write_file
        from walproof.report.advice.page import to_html, to_markdown

        if html is not None:
            write_file(html, to_html(view))
        if markdown is not None:
            write_file(markdown, to_markdown(view))
    if json:
        from walproof.report.advice.json import to_json

        sys.stdout.write(to_json(view))
        return
    from walproof.report.advice.terminal import print_advice

    print_advice(view, options.result_console())


def _seconds(for_: str | None, *, demo: bool) -> float:
    """How long to look. Raises SettingError, UnitError."""
    if for_ is None:
        return _DEMO_S if demo else _LOOK_S
    seconds = parse_duration_s(for_)
    if seconds < _SHORTEST_S:
        raise SettingError(f"--for is {for_}: expected at least {_SHORTEST_S:g} s")
    return seconds


@contextmanager
def _demo(pg: str | None) -> Iterator[str]:
    """Connection string of a server made for this look alone."""
    from walproof.lab.demo import demo_server
    from walproof.postgres.install import discover, find

    install = find(pg) if pg is not None else discover()[0]
    with demo_server(install, options.work_folder(None), _say) as conninfo:
        yield conninfo


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _temporary(stack: ExitStack) -> Path:
    """A folder for the recording that is gone when the command ends."""
    parent = Path(tempfile.mkdtemp(prefix="walproof-advise-"))
    stack.callback(shutil.rmtree, parent, ignore_errors=True)
    return parent / "recording"


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
