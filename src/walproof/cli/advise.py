"""``walproof advise``: what a running server, or one that was recorded, should set, and why."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.advising import (
    AdviceOrder,
    LookOrder,
    Telling,
    advice_from,
    is_folder,
    keep_window,
    look_sentence,
    observe_server,
    recorded_window,
    with_standbys,
)
from walproof.cli.streams import reader_may_leave, say
from walproof.errors import SettingError
from walproof.units import parse_duration_s

if TYPE_CHECKING:
    from walproof.cli.advised import Asked
    from walproof.report.advice.fleet import FleetView
    from walproof.report.advice.since import Earlier
    from walproof.report.advice.view import AdviceView

_SHORTEST_S = 1.0
_LOOK_S = 600.0
_DEMO_S = 60.0
"""Long enough for two timed checkpoints of the demo, and many by size."""
_WAL_MOST = "4GB"


def advise(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DSN|FOLDER...]",
            help='Servers ("service=shop", "host=db1 user=me"), or recordings of servers. Several are looked '
            "at together. With --config: names.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="File of servers and limits: watch.toml.")
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
    may_lose: options.MayLose = "nothing",
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
            help=f"Platform to write lines for: {options.PLATFORM_NAMES}. Default: the one that is "
            "recognised, else alter-system.",
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
        typer.Option(
            "--save",
            metavar="DIR",
            help="Keep what was seen in a new folder, for later advice; of "
            "several servers, in folders of it.",
        ),
    ] = None,
    wal_most: Annotated[
        str, typer.Option("--wal-most", metavar="SIZE", help="Most WAL to record, of all servers together.")
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
    _check_pages(html, markdown)
    words = targets or []
    if (not words and config is None) is not demo:
        raise SettingError(
            "name a server or a folder, or say --demo",
            hint='Such as: walproof advise "service=shop" --for 10min',
        )
    if pg is not None and not demo:
        raise SettingError("--pg is for --demo", hint="A running server has its own PostgreSQL.")
    is_one = config is None and len(words) <= 1
    if standby and (not is_one or demo or is_folder(words[0])):
        raise SettingError(
            "--standby is for one running server",
            hint="Name the primary as well." if is_one else "A standby is recognised: name it as one more.",
        )
    looking = {"--for": for_ is not None, "--save": save is not None, "--wal-most": wal_most != _WAL_MOST}
    typed_for_look = [name for name, is_typed in looking.items() if is_typed]
    if words and config is None and typed_for_look and all(map(is_folder, words)):
        raise SettingError(
            f"{typed_for_look[0]} is for a running server",
            detail="A folder holds a look that is over.",
            hint=f"Leave out {typed_for_look[0]}, or name the server for a new look.",
        )
    most, seconds = options.positive_bytes("--wal-most", wal_most), _seconds(for_, demo=demo)
    from walproof.report.advice.since import earlier_of_one, earlier_of_several

    if is_one:
        earlier = None if since is None else earlier_of_one(since)
        place = words[0] if words else None
        view = _one(place, pg, seconds, most, save, standby or (), order, earlier)
        _show(view, html, markdown, json=json)
        return
    from walproof.cli.advise_many import check_all_seen
    from walproof.cli.advised import asked_servers
    from walproof.cli.watch_order import Typed

    typed = Typed(recovery_target=recovery_target, wal_disk=wal_disk, calibration=calibration)
    servers = asked_servers(words, config, typed)
    fleet = _several(
        servers, seconds, most, save, order, None if since is None else earlier_of_several(since)
    )
    _show(fleet, html, markdown, json=json)
    check_all_seen(fleet)


def _one(
    place: str | None, pg: str | None, seconds: float, most: int, save: Path | None, standbys: Sequence[str],
    order: AdviceOrder, earlier: Earlier | None,
) -> AdviceView:  # fmt: skip
    """Advice on one server, or on the demo's for no place."""
    from walproof.cli.files import check_new_folder
    from walproof.cli.status_line import StatusLine

    if save is not None and (place is None or not is_folder(place)):
        check_new_folder("--save", save)
    if place is not None and not is_folder(place):
        from walproof.cli.advised import require_readable

        require_readable([place], [place])
    with ExitStack() as stack:
        if place is None:
            place = stack.enter_context(_demo(pg))
        if is_folder(place):
            folder, window = Path(place), recorded_window(Path(place))
        else:
            folder = save if save is not None else _temporary(stack)
            line = StatusLine(in_logs=False)

            def passed(passed_s: float, so_far: int) -> None:
                line.show(look_sentence(passed_s, seconds, so_far))

            look = LookOrder(place, seconds, most, folder, calibration=order.calibration, standbys=standbys)
            window = observe_server(look, Telling(passed, line.say))
            line.clear()
            window = with_standbys(window, standbys)
            if save is not None:
                keep_window(window, folder)
        advice, view = advice_from(window, folder, order)
    if earlier is None:
        return view
    from walproof.report.advice.since import with_since

    return with_since(view, advice, earlier, order.mute)


def _several(
    servers: Sequence[Asked], seconds: float, most: int, save: Path | None, order: AdviceOrder,
    earlier: Mapping[str, Earlier] | None,
) -> FleetView:  # fmt: skip
    """Advice on several servers."""
    from walproof.cli.advise_many import advise_many, look_at_many
    from walproof.cli.advised import FleetLook
    from walproof.cli.status_line import StatusLine

    line = StatusLine(in_logs=False)
    with ExitStack() as stack:
        folder = save if save is not None else _temporary(stack)
        look = FleetLook(servers, seconds, most, folder)
        looked = look_at_many(look, seconds, line, keeps=save is not None)
        return advise_many(looked, order, earlier, line)


def _check_pages(html: Path | None, markdown: Path | None) -> None:
    """Refuse pages that could not be written, before anything is looked at. Raises StoreError."""
    from walproof.cli.files import check_file

    for option, page in (("--html", html), ("--markdown", markdown)):
        if page is not None:
            check_file(option, page)


def _show(view: AdviceView | FleetView, html: Path | None, markdown: Path | None, *, json: bool) -> None:
    """Print, and then write the pages that were asked for: what cannot be written takes no answer along.
    Raises StoreError."""
    with reader_may_leave():
        if json:
            from walproof.report.advice.json import to_json

            sys.stdout.write(to_json(view))
        else:
            from walproof.report.advice.terminal import print_advice

            print_advice(view, options.result_console())
    if html is not None or markdown is not None:
        from walproof.cli.files import write_file
        from walproof.report.advice.page import to_html, to_markdown

        if html is not None:
            write_file(html, to_html(view), "--html")
        if markdown is not None:
            write_file(markdown, to_markdown(view), "--markdown")


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
    from walproof.postgres.install import find

    with demo_server(find(pg), options.work_folder(None), say) as conninfo:
        yield conninfo


def _temporary(stack: ExitStack) -> Path:
    """A folder for the recording that is gone when the command ends."""
    from walproof.cli.files import large_scratch

    parent = Path(tempfile.mkdtemp(prefix="walproof-advise-", dir=large_scratch()))
    stack.callback(shutil.rmtree, parent, ignore_errors=True)
    return parent / "recording"
