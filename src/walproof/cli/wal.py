"""``walproof wal stats|part|records|map|capture|...``: what WAL holds, and what it would hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options, wal_names
from walproof.cli.capture import capture
from walproof.cli.part import part
from walproof.cli.records import records
from walproof.cli.span import Since, Until, ask_span
from walproof.cli.strip import strip
from walproof.cli.verify import verify
from walproof.cli.whatif import whatif
from walproof.errors import WalError

app = typer.Typer(
    help="Read WAL of PostgreSQL 13 to 19: totals, records, archives.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PathsOrParts = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders, segments, plain or compressed, s3://, gs://, az:// as well; or "
        "parts in the order of their WAL.",
    ),
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
    since: Since = None,
    until: Until = None,
    start: wal_names.Start = None,
    end: wal_names.End = None,
    timeline: options.Timeline = None,
    resolve: wal_names.Resolve = None,
    map_: wal_names.MapFile = None,
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
    if html is not None:
        from walproof.cli.files import check_file

        check_file("--html", html)
    asked = ask_span(start, end, since, until)
    names = wal_names.given_names(resolve, map_)
    if are_parts(paths):
        if any((since, until, start, end, timeline, allow_gaps, partial, ray, insecure, threads)):
            raise WalError(
                "parts are joined as they are",
                hint='"walproof wal part" takes locations, times and --timeline. Parts are read already.',
            )
        wal = load_parts(paths).stats()
    elif ray is not None:
        if (allow_gaps, partial, threads) != (False, False, None):
            raise WalError(
                "--allow-gaps, --partial and --threads are for one machine",
                hint="A cluster reads an archive without gaps, a core for each of its tasks.",
            )
        from walproof.cli.many import archive_stats

        with PassProgress("looking for the time") as progress:
            first, last = asked.find(paths, timeline, wal_names.warn, progress.observe)
        wal = archive_stats(paths, first, last, timeline, address=ray, insecure=insecure)
    else:
        with PassProgress("reading WAL") as progress:
            first, last = asked.find(paths, timeline, wal_names.warn, progress.observe)
            if names is not None:
                from walproof.wal.whatif import system_identifier

                # Before all of it is read.
                wal_names.require_same_system(
                    names, system_identifier(*paths, start=first, timeline=timeline)
                )
            wal = read_stats(
                *paths,
                start=first,
                end=last,
                timeline=timeline,
                allow_gaps=allow_gaps,
                partial=partial,
                threads=threads,
                observe=progress.observe,
            )
    names = wal_names.names_of(names, paths, wal.system_identifier)
    found = rows(wal, criterion, names)
    if html is not None:
        from walproof.cli.files import write_file
        from walproof.report.wal.page import to_html
        from walproof.report.wal.view import wal_view

        write_file(html, to_html(wal_view(wal, criterion, names)), "--html")
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


app.command("records")(records)
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
    sys.stdout.write(wal_names.ask_for_names(dsn).to_json())
