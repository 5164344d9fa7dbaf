"""``walproof workload``: a load that is like what a database's own application does to it."""

from __future__ import annotations

import json as json_text
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walproof.cli import options
from walproof.errors import SettingError, StoreError, StudyError
from walproof.units import format_bytes, format_duration, parse_duration_s

if TYPE_CHECKING:
    from walproof.advise.workload.draft import Draft
    from walproof.advise.workload.spaces import MadeTable
    from walproof.analysis.working_set import Draws
    from walproof.facts.application import Application

_LEFT_OUT_SHOWN = 10
_LAWS = {
    "even": "rows are drawn evenly",
    "exponential": "rows are drawn by an exponential law (parameter {:.3g})",
    "zipf": "rows are drawn by Zipf's law (exponent {:.3g})",
}
_SHARE_SHOWN = 0.001
_TEXT_SHOWN = 64
_WIDTH = 98
_SHORTEST_S = 1.0


def workload(
    conninfo: Annotated[
        str, typer.Argument(metavar="DSN", help='The database: "service=shop", "host=db1 dbname=shop".')
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="New folder for the load's files.")],
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to count what the application does.")
    ] = "1min",
    since_reset: Annotated[
        bool,
        typer.Option("--since-reset", help="Take what was counted since the last reset instead."),
    ] = False,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Size of all tables, at most.")] = "1GB",
    statements: Annotated[
        int, typer.Option("--statements", min=1, metavar="N", help="Statements of the load, at most.")
    ] = 20,
    json: options.Json = False,
) -> None:
    """Draft a load like that of a database's own application.

    Reads pg_stat_statements and the catalogs, and no row of any table.

    What comes out runs with run, compare and tune: invented rows of the same shape, a script for each
    transaction, weights as the calls were, the server's settings. What it does not have is listed.
    """
    from walproof.advise.workload.draft import DraftOrder, draft
    from walproof.observe.application import read_application

    most = options.positive_bytes("--size", size)
    seconds = None if since_reset else parse_duration_s(for_)
    if seconds is not None and seconds < _SHORTEST_S:
        raise SettingError(f"--for is {for_}: expected at least {_SHORTEST_S:g} s")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise StudyError(f'"{to}" exists', hint="Name a new folder with --to.")
    if seconds is not None:
        sys.stderr.write(f"counting for {format_duration(seconds)}\n")
    found = read_application(conninfo, seconds)
    made = draft(found, DraftOrder(_name(to), most, statements))
    if not made.scripts:
        reasons = "; ".join(f"{each.why}: {_short(each.statement.query)}" for each in made.left_out[:3])
        raise StudyError(
            f'no statement of database "{found.database}" can be part of a load',
            detail=reasons or "pg_stat_statements has counted none.",
            hint="Was the application busy meanwhile? --for 10min waits longer, --since-reset takes all.",
        )
    write(made, to)
    if json:
        sys.stdout.write(json_text.dumps(as_data(found, made, to), indent=2) + "\n")
    else:
        say(found, made, to)


def _name(to: Path) -> str:
    """The load's name: that of its folder, in the letters that a study's name has."""
    return re.sub(r"[^a-z0-9]+", "-", to.absolute().name.lower()).strip("-") or "load"


def write(made: Draft, to: Path) -> None:
    """Write the files. Raises StoreError."""
    from walproof.files import private_folder, write_whole

    try:
        private_folder(to)
        for name, text in made.files.items():
            write_whole(to / name, text)
    except OSError as error:
        raise StoreError(
            f'could not write the load to "{to}": {error.strerror}', hint="Name another folder with --to."
        ) from error


def say(found: Application, made: Draft, to: Path) -> None:
    """What the load has, what it does not have, and what to do with it."""
    from walproof.advise.workload.server_conf import FILE
    from walproof.cli.majors import install_like
    from walproof.sentences import say_count

    out = sys.stdout.write
    since = "since the statistics were reset" if found.seconds is None else format_duration(found.seconds)
    pieces = sum(len(each.members) for each in made.scripts.values())
    out(
        f"load {made.name}, from {since} of database {found.database}: "
        f"{say_count(len(made.scripts), 'script')} with {say_count(pieces, 'statement')}\n"
        f"{made.calls_share:.0%} of the calls and {made.wal_share:.0%} of the WAL are in it\n\n"
    )
    total = sum(each.calls for each in made.scripts.values())
    out("share of scripts   WAL of a run   script\n")
    for name, each in made.scripts.items():
        wal = sum(item.statement.wal_bytes / item.statement.calls for item in each.members)
        out(f"{each.calls / total:>15.1%}   {format_bytes(wal):>12}   {name}\n")
        for item in each.members:
            out(f"{'':>34}{_short(item.statement.query)}\n")
    rows = sum(table.rows for table in made.tables)
    out(f"\ntables: {len(made.tables)}, with {rows:,} rows of invented values\n")
    for name, draws in made.laws.items():
        law = _LAWS[draws.law.value].format(draws.parameter)
        out(f"  {name}: {law}{', side by side' * draws.is_adjacent}, as its page images say\n")
    shown = [left for left in made.left_out if max(left.wal_share, left.calls_share) >= _SHARE_SHOWN]
    if shown:
        out("\nnot in the load, those with the most WAL first\n")
        for left in shown[:_LEFT_OUT_SHOWN]:
            out(f"  {left.wal_share:.1%} of the WAL, {left.calls_share:.1%} of the calls: {left.why}\n")
            out(f"      {_short(left.statement.query)}\n")
    more = len(made.left_out) - len(shown[:_LEFT_OUT_SHOWN])
    if more > 0:
        out(f"\n{say_count(more, 'other statement')} not in it (--json has all)\n")
    if made.notes:
        out("\nwhat differs from the application\n")
        for note in made.notes:
            out(textwrap.fill(note, _WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n")
    file, conf = to / f"{made.name}.toml", to / FILE
    keep = "" if made.shared_buffers is None else f" --keep shared_buffers={made.shared_buffers}"
    where = f"--conf {conf}" + ("" if made.device is None else f" --device {made.device}")
    if install_like(found.version_num) is None:
        major = found.version_num // 10000
        out(
            f"\nPostgreSQL {major}, which the server is and {file.name} names, is not on this machine: "
            f'"walproof pg install {major}" fetches it, and --pg runs another.\n'
        )
    on = "with the server's own settings" + (" and a disk like its own" if made.device is not None else "")
    out(f"\nRead {to}/*.sql, then, {on}:\n")
    out(f"  walproof run {file} {where} --quick\n")
    out(f"  walproof compare --load {file} {where} --set NAME=VALUE\n")
    out(f"  walproof tune --load {file} {where}{keep}\n")


def as_data(found: Application, made: Draft, to: Path) -> dict[str, Any]:
    """What ``--json`` prints."""
    from walproof.advise.workload.server_conf import FILE

    return {
        "format": 1,
        "name": made.name,
        "file": str(to / f"{made.name}.toml"),
        "conf": str(to / FILE),
        "shared_buffers": made.shared_buffers,
        "device": made.device,
        "pg": str(found.version_num // 10000),
        "database": found.database,
        "seconds": found.seconds,
        "rate": made.rate,
        "calls_share": made.calls_share,
        "wal_share": made.wal_share,
        "scripts": [
            {
                "file": name,
                "calls": each.calls,
                "statements": [
                    {
                        "query": item.statement.query,
                        "calls": item.statement.calls,
                        "rows": item.statement.rows,
                        "wal_records": item.statement.wal_records,
                        "wal_fpi": item.statement.wal_fpi,
                        "wal_bytes": item.statement.wal_bytes,
                    }
                    for item in each.members
                ],
            }
            for name, each in made.scripts.items()
        ],
        "tables": [_table(table, made.laws.get(table.table.name)) for table in made.tables],
        "left_out": [
            {
                "query": left.statement.query,
                "why": left.why,
                "calls_share": left.calls_share,
                "wal_share": left.wal_share,
            }
            for left in made.left_out
        ],
        "notes": list(made.notes),
    }


def _table(made: MadeTable, draws: Draws | None) -> dict[str, Any]:
    return {
        "name": made.table.name,
        "rows": made.rows,
        "law": None if draws is None else draws.law.value,
        "parameter": None if draws is None else draws.parameter,
        "is_adjacent": None if draws is None else draws.is_adjacent,
    }


def _short(query: str) -> str:
    from walproof.sqltext import visible

    text = visible(" ".join(query.split()))
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 3]}..."
