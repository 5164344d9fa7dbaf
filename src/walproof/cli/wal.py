"""``walproof wal stats|records|map|capture|strip|whatif``: what is in the WAL, and what it would be."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from walproof.cli import options
from walproof.cli.capture import capture
from walproof.cli.strip import strip
from walproof.cli.whatif import whatif
from walproof.errors import WalError
from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.wal import RelationMap

app = typer.Typer(
    help="WAL of PostgreSQL 13 to 19: totals, records, names of relations.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders and segments; plain or compressed (gzip, lz4, zstd, xz, bzip2).",
    ),
]
Start = Annotated[str | None, typer.Option("--start", "-s", metavar="LSN", help="First record at or behind.")]
End = Annotated[
    str | None, typer.Option("--end", "-e", metavar="LSN", help="Records that end here or before.")
]
Timeline = Annotated[int | None, typer.Option("--timeline", "-t", min=1, help="Newest timeline to read.")]
AllowGaps = Annotated[
    bool, typer.Option("--allow-gaps", help="Go on behind missing segments; they are named.")
]


@app.command("stats")
def stats(
    paths: Paths,
    by: Annotated[str, typer.Option("--by", help="rmgr, record, relation, fork, index or minute.")] = "rmgr",
    start: Start = None,
    end: End = None,
    timeline: Timeline = None,
    resolve: Annotated[
        str | None, typer.Option("--resolve", metavar="DSN", help="Server to ask for names of relations.")
    ] = None,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE", help='Names that "walproof wal map" saved. A recording has its own.'
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows of the table.")] = 40,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="The rows as CSV, all of them.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures as well.")
    ] = None,
    allow_gaps: AllowGaps = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="On damage, print what was read before; the exit status stays 2."),
    ] = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Cores to use. Default: all.")
    ] = None,
) -> None:
    """Total the WAL: by resource manager, relation, index or minute, every byte accounted for."""
    from walproof.report.wal.rows import By, csv_text, json_text, rows
    from walproof.wal import stats as read_stats

    choices = [one.value for one in By]
    if by not in choices:
        raise WalError(f'cannot total by "{by}"', hint=f"Choose one of {', '.join(choices)}.")
    if json and csv:
        raise WalError("--json and --csv exclude each other")
    criterion = By(by)
    names = _names(resolve, map_, paths)
    wal = read_stats(
        *paths,
        start=_lsn(start),
        end=_lsn(end),
        timeline=timeline,
        allow_gaps=allow_gaps,
        partial=partial,
        threads=threads,
    )
    if names is not None and names.system_identifier != wal.system_identifier:
        raise WalError(
            "the names are those of another cluster",
            detail=f"System identifier {names.system_identifier}, the WAL has {wal.system_identifier}.",
        )
    found = rows(wal, criterion, names)
    if html is not None:
        from walproof.cli.files import write_file
        from walproof.report.wal.page import to_html
        from walproof.report.wal.view import wal_view

        write_file(html, to_html(wal_view(wal, criterion, names)))
    if json:
        sys.stdout.write(json_text(wal, criterion, found))
    elif csv:
        sys.stdout.write(csv_text(found))
    else:
        from walproof.report.terminal import print_sections
        from walproof.report.wal.view import wal_view

        console = options.result_console()
        view = wal_view(wal, criterion, names, limit)
        console.print(view.question, style="bold")
        console.print(view.dateline, style="dim")
        console.print()
        print_sections(view.sections, console)
        if html is not None:
            console.print(str(html))
    if wal.error is not None:
        sys.stdout.flush()
        raise wal.error


@app.command("records")
def records(
    paths: Paths,
    start: Start = None,
    end: End = None,
    timeline: Timeline = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Records to print.")] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", "-b", help="Block references with details of their images.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    allow_gaps: AllowGaps = False,
) -> None:
    """Print records, one a line, in pg_waldump's format or as JSON."""
    from walproof.wal import lines

    if blocks and json:
        raise WalError("--blocks and --json exclude each other", hint="--json has the block references.")
    style: Literal["line", "blocks", "json"] = "json" if json else "blocks" if blocks else "line"
    texts: Iterator[str] = lines(
        *paths, style=style, start=_lsn(start), end=_lsn(end), timeline=timeline, allow_gaps=allow_gaps,
        limit=limit,
    )  # fmt: skip
    for text in texts:
        sys.stdout.write(text)
    sys.stdout.flush()


app.command("capture")(capture)
app.command("whatif")(whatif)
app.command("strip")(strip)


@app.command("map")
def map_(
    dsn: Annotated[str, typer.Argument(metavar="DSN", help='Such as "host=db1 dbname=shop user=me".')],
) -> None:
    """Save the names of a server's relations, for WAL that is read elsewhere: wal map DSN > map.json."""
    sys.stdout.write(_ask(dsn).to_json())


def _names(dsn: str | None, file: Path | None, paths: Sequence[Path]) -> RelationMap | None:
    """What the user asked for; else the names that a recording among the paths has brought along."""
    if dsn is not None and file is not None:
        raise WalError("--resolve and --map exclude each other")
    if dsn is not None:
        return _ask(dsn)
    from walproof.wal.recording import recorded_names
    from walproof.wal.relations import read_map

    if file is not None:
        return read_map(file)
    for recorded in filter(None, map(recorded_names, paths)):
        try:
            return read_map(recorded)
        except WalError as error:
            # Nobody asked for it: the WAL is read all the same.
            sys.stderr.write(f"walproof: warning: {error.message}: relations have no names\n")
    return None


def _ask(dsn: str) -> RelationMap:
    from walproof.probe.relations import read_relations

    names = read_relations(dsn)
    for reason in names.left_out:
        sys.stderr.write(f"left out: database {reason}\n")
    return names


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
