"""``walproof wal stats|part|records|map|capture|...``: what WAL holds, and what it would hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from walproof.cli import options
from walproof.cli.capture import capture
from walproof.cli.part import part
from walproof.cli.strip import strip
from walproof.cli.verify import verify
from walproof.cli.whatif import whatif
from walproof.errors import WalError
from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.wal import RelationMap
    from walproof.wal.places.opened import Path as WalPath

app = typer.Typer(
    help="Read WAL of PostgreSQL 13 to 19: totals, records, archives.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders, segments; plain or gzip, lz4, zstd, xz, lzma, bzip2, brotli; "
        "s3://, gs://, az:// as well.",
    ),
]
PathsOrParts = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders, segments, plain or compressed, s3://, gs://, az:// as well; or "
        "parts in the order of their WAL.",
    ),
]
Start = Annotated[
    str | None, typer.Option("--start", "-s", metavar="LSN", help="First record at or after this LSN.")
]
End = Annotated[
    str | None, typer.Option("--end", "-e", metavar="LSN", help="Records that end at or before this LSN.")
]


@app.command("stats")
@options.with_places
def stats(
    paths: PathsOrParts,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="Total by rmgr, record, relation, fork, index or minute.",
            autocompletion=options.complete_one_of("rmgr", "record", "relation", "fork", "index", "minute"),
        ),
    ] = "rmgr",
    start: Start = None,
    end: End = None,
    timeline: options.Timeline = None,
    resolve: Annotated[
        str | None, typer.Option("--resolve", metavar="DSN", help="Server to ask for names of relations.")
    ] = None,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE", help='Names saved by "walproof wal map". A recording brings its own.'
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to print.")] = 40,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all rows, as CSV.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts, too.")
    ] = None,
    allow_gaps: options.AllowGaps = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="On damage, print what was read before it; the exit status stays 2."),
    ] = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Cores to use. Default: all.")
    ] = None,
    ray: options.Ray = None,
    insecure: options.Insecure = False,
) -> None:
    """Total WAL by resource manager, relation, index or minute. Every byte is accounted for."""
    from walproof.cli.passes import PassProgress
    from walproof.report.wal.rows import By, csv_text, json_text, rows
    from walproof.wal import stats as read_stats
    from walproof.wal.parts import are_parts, load_parts

    choices = [member.value for member in By]
    if by not in choices:
        raise WalError(f'cannot total by "{by}"', hint=f"Choose one of {', '.join(choices)}.")
    if json and csv:
        raise WalError("--json and --csv exclude each other")
    criterion = By(by)
    names = _names(resolve, map_)
    if are_parts(paths):
        if (start, end, timeline, allow_gaps, partial) != (None, None, None, False, False):
            raise WalError(
                "parts are joined as they are",
                hint='--start, --end and --timeline are for "walproof wal part"; parts have no gaps.',
            )
        wal = load_parts(paths).stats()
    elif ray is not None:
        if (allow_gaps, partial, threads) != (False, False, None):
            raise WalError(
                "--allow-gaps, --partial and --threads are for one machine",
                hint="A cluster reads an archive without gaps, a core for each of its tasks.",
            )
        from walproof.cli.many import archive_stats

        wal = archive_stats(paths, _lsn(start), _lsn(end), timeline, address=ray, insecure=insecure)
    else:
        with PassProgress("reading WAL") as progress:
            wal = read_stats(
                *paths,
                start=_lsn(start),
                end=_lsn(end),
                timeline=timeline,
                allow_gaps=allow_gaps,
                partial=partial,
                threads=threads,
                observe=progress.observe,
            )
    if names is None:
        names = recorded_names_of(paths, wal.system_identifier, _warn)
    else:
        _require_same_system(names, wal.system_identifier)
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
        from walproof.report.terminal import print_page
        from walproof.report.wal.view import wal_view

        console = options.result_console()
        view = wal_view(wal, criterion, names, limit)
        print_page(view.question, view.dateline, view.sections, console)
        if html is not None:
            console.print(str(html))
    if wal.error is not None:
        sys.stdout.flush()
        raise wal.error


@app.command("records")
@options.with_places
def records(
    paths: Paths,
    start: Start = None,
    end: End = None,
    timeline: options.Timeline = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Records to print.")] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", "-b", help="Show block references with details of their images.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    allow_gaps: options.AllowGaps = False,
) -> None:
    """Print records, one per line, in pg_waldump's format or as JSON.

    Records of a recording show the names of their relations.
    """
    from walproof.cli.passes import PassProgress
    from walproof.wal import lines
    from walproof.wal.recording import recorded_names

    if blocks and json:
        raise WalError("--blocks and --json exclude each other", hint="--json has the block references.")
    style: Literal["line", "blocks", "json"] = "json" if json else "blocks" if blocks else "line"
    put = None
    if any(map(recorded_names, paths)):
        from walproof.report.wal.records import RecordNames
        from walproof.wal.whatif import system_identifier

        whose = system_identifier(*paths, start=_lsn(start), timeline=timeline)
        if (names := recorded_names_of(paths, whose, _warn)) is not None:
            put = RecordNames(names).put_into
    with PassProgress("reading WAL") as progress:
        for text in lines(
            *paths, style=style, start=_lsn(start), end=_lsn(end), timeline=timeline, allow_gaps=allow_gaps,
            limit=limit,
            # Lines on a terminal are progress enough, and a bar would stand among them.
            observe=None if sys.stdout.isatty() else progress.observe,
        ):  # fmt: skip
            sys.stdout.write(text if put is None else put(text, style))
    sys.stdout.flush()


app.command("part")(part)
app.command("capture")(capture)
app.command("whatif")(whatif)
app.command("strip")(strip)
app.command("verify")(verify)


@app.command("map")
def map_(
    dsn: Annotated[
        str, typer.Argument(metavar="DSN", help='Such as "service=shop", or "host=db1 dbname=shop user=me".')
    ],
) -> None:
    """Save the names of a server's relations, for WAL read elsewhere.

    wal map DSN > map.json
    """
    sys.stdout.write(_ask(dsn).to_json())


def _names(dsn: str | None, file: Path | None) -> RelationMap | None:
    """The names that the user asked for."""
    if dsn is not None and file is not None:
        raise WalError("--resolve and --map exclude each other")
    if dsn is not None:
        return _ask(dsn)
    if file is not None:
        from walproof.wal.relations import read_map

        return read_map(file)
    return None


def recorded_names_of(
    paths: Sequence[WalPath], system_identifier: int, warn: Callable[[str], None]
) -> RelationMap | None:
    """The names that a recording among the paths, or around them, has brought along.

    Names that cannot be used are not an error: ``warn`` is told why, in a sentence.
    """
    from walproof.wal.recording import recorded_names
    from walproof.wal.relations import read_map

    for recorded in filter(None, map(recorded_names, paths)):
        try:
            names = read_map(recorded)
            _require_same_system(names, system_identifier)
        except WalError as error:
            # Nobody asked for them: the WAL is read all the same.
            warn(f"{error.message}: relations have no names")
        else:
            return names
    return None


def _warn(sentence: str) -> None:
    sys.stderr.write(f"walproof: warning: {sentence}\n")


def _require_same_system(names: RelationMap, system_identifier: int) -> None:
    if names.system_identifier != system_identifier:
        raise WalError(
            "the names are those of another cluster",
            detail=f"System identifier {names.system_identifier}, the WAL has {system_identifier}.",
        )


def _ask(dsn: str) -> RelationMap:
    from walproof.probe.relations import read_relations

    names = read_relations(dsn)
    for reason in names.left_out:
        sys.stderr.write(f"left out: database {reason}\n")
    return names


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
