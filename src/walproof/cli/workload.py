"""``walproof workload``: a load that is like what a database's own application does to it."""

from __future__ import annotations

import json as json_text
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave
from walproof.errors import ConninfoError, SettingError, StudyError
from walproof.units import format_duration, parse_duration_s

if TYPE_CHECKING:
    from walproof.advise.workload.draft import DraftOrder
    from walproof.facts.drafted import DraftedLoad

_SHORTEST_S = 1.0
_FOR, _SIZE, _STATEMENTS = "1min", "1GB", 20
_LOAD = ".toml"


def workload(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DSN|FILE",
            help='The database: "service=shop", "host=db1 dbname=shop". Or a drafted load, to try it again.',
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="New folder for the load's files.")
    ] = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to count what the application does.")
    ] = _FOR,
    since_reset: Annotated[
        bool,
        typer.Option("--since-reset", help="Take what was counted since the last reset instead."),
    ] = False,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Size of all tables, at most.")] = _SIZE,
    statements: Annotated[
        int, typer.Option("--statements", min=1, metavar="N", help="Statements of the load, at most.")
    ] = _STATEMENTS,
    try_: Annotated[
        bool | None,
        typer.Option(
            "--try/--no-try",
            help="Run each script on a throw-away server here, beside what the application did. Default: "
            "unless the database is on this machine.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Draft a load like that of a database's own application.

    Reads pg_stat_statements and the catalogs, and no row of any table.

    What comes out runs with run, compare and tune: invented rows of the same shape, a script for each
    transaction, weights as the calls were, the server's settings. What it does not have is listed.
    """
    from walproof.cli.workload_kept import keep
    from walproof.cli.workload_said import say

    if _is_load(source):
        typed = [
            name for name, given in (
                ("--to", to is not None), ("--for", for_ != _FOR), ("--since-reset", since_reset),
                ("--size", size != _SIZE), ("--statements", statements != _STATEMENTS),
                ("--try or --no-try", try_ is not None),
            ) if given
        ]  # fmt: skip
        if typed:
            raise StudyError(
                f'"{source}" is a load, which is tried as it is; {typed[0]} is for a draft of a database',
                hint=f'Leave out {typed[0]}, or name the database: "service=shop".',
            )
        from walproof.cli.workload_try import try_again

        load = try_again(Path(source))
    else:
        _require_database(source)
        load = _draft(source, *_asked(to, for_, since_reset, size, statements), try_)
    with reader_may_leave():
        if json:
            from walproof.facts.codec import to_data

            sys.stdout.write(json_text.dumps(to_data(load), indent=2) + "\n")
        else:
            say(load)
    keep(load)
    if any(script.error is not None for script in load.scripts):
        raise typer.Exit(ExitStatus.CHECK_FAILED)


def _is_load(source: str) -> bool:
    """Whether it is a load's file rather than a connection string. Raises StudyError for a folder."""
    path = Path(source)
    # A connection string may be longer than a path.
    with suppress(OSError, ValueError):
        if path.is_dir():
            found = sorted(path.glob("*.toml"))
            raise StudyError(
                f'"{source}" is a folder, expected a database or the file of a load',
                hint=f'Is "{found[0]}" meant?' if len(found) == 1 else None,
            )
        return path.is_file() or (source.endswith(_LOAD) and "=" not in source)
    return False


def _require_database(source: str) -> None:
    """Raise ConninfoError for what is no connection string; a word may be meant as a file."""
    from walproof.settings.conninfo import parse

    try:
        parse(source)
    except ConninfoError as error:
        detail = "No file has that name." if "=" not in source and "://" not in source else error.detail
        raise ConninfoError(error.message, detail=detail, hint=error.hint) from None


def _asked(
    to: Path | None, for_: str, since_reset: bool, size: str, statements: int
) -> tuple[Path, float | None, DraftOrder]:
    """The folder, how long to look (None: take all that was counted), and what the draft is to be.

    Raises StudyError, SettingError, StoreError or UnitError.
    """
    from walproof.advise.workload.draft import DraftOrder
    from walproof.cli.files import check_new_folder
    from walproof.lab.load_file import slug

    if to is None:
        raise StudyError("there is no folder for the load", hint="Name a new one: --to shop.")
    if since_reset and for_ != _FOR:
        raise StudyError(
            "--since-reset and --for exclude each other",
            detail="What was counted since the reset is not waited for.",
            hint="Leave out one of them.",
        )
    most = options.positive_bytes("--size", size)
    seconds = None if since_reset else parse_duration_s(for_)
    if seconds is not None and seconds < _SHORTEST_S:
        raise SettingError(f"--for is {for_}: expected at least {_SHORTEST_S:g} s")
    check_new_folder("--to", to)
    return to, seconds, DraftOrder(slug(to.absolute().name), most, statements)


def _draft(
    conninfo: str, to: Path, seconds: float | None, order: DraftOrder, try_: bool | None
) -> DraftedLoad:
    """Look at the database, write the files, and try them."""
    from dataclasses import replace

    from walproof.advise.workload.draft import draft
    from walproof.cli.workload_kept import INTERRUPTED, keep, write
    from walproof.cli.workload_said import drafted, short
    from walproof.cli.workload_try import draft_that_runs
    from walproof.observe.application import read_application

    if seconds is not None:
        sys.stderr.write(f"counting for {format_duration(seconds)}\n")
    found = read_application(conninfo, seconds)
    made = draft(found, order)
    if not made.scripts:
        reasons = "; ".join(f"{each.why}: {short(each.statement.query)}" for each in made.left_out[:3])
        raise StudyError(
            f'no statement of database "{found.database}" can be part of a load',
            detail=reasons or "pg_stat_statements has counted none.",
            hint="Was the application busy meanwhile? --for 10min waits longer, --since-reset takes all."
            if seconds is not None
            else None,
        )
    write(made, to)
    keep(replace(drafted(found, made, to), not_tried=INTERRUPTED))
    if try_ if try_ is not None else not found.is_here:
        return draft_that_runs(found, order, made, to)
    return replace(drafted(found, made, to), not_tried=_why_not(try_))


def _why_not(try_: bool | None) -> str:
    if try_ is None:
        return (
            "the database is on this machine, and making the tables and running the scripts would be in its "
            "way; --try does it all the same."
        )
    return "--no-try."
