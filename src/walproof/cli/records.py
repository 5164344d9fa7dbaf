"""``walproof wal records``: records one by one, all or those that are wanted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from walproof.cli import options, wal_names
from walproof.cli.span import Since, Until, ask_span
from walproof.errors import WalError
from walproof.sentences import say_count

if TYPE_CHECKING:
    from walproof.units import Lsn
    from walproof.wal import RelationMap


@options.with_places
def records(
    paths: wal_names.Paths,
    rmgr: Annotated[
        list[str] | None,
        typer.Option(
            "--rmgr",
            "-r",
            metavar="NAME",
            help='Only this resource manager, "Heap", or operation, "Heap/DELETE". Repeatable.',
            autocompletion=options.complete_operation,
        ),
    ] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(
            "--relation",
            "-R",
            metavar="NAME",
            help="Only records that refer to this table or index: public.orders, or 1663/5/16384. "
            "Repeatable.",
        ),
    ] = None,
    fork: Annotated[
        str | None,
        typer.Option(
            "--fork",
            "-F",
            metavar="FORK",
            help="Only records that refer to this fork: main, fsm, vm, init.",
            autocompletion=options.complete_one_of("main", "fsm", "vm", "init"),
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option("--block", "-B", min=0, max=2**32 - 2, help="Only records that refer to this block."),
    ] = None,
    xid: Annotated[
        list[int] | None,
        typer.Option(
            "--xid", "-x", min=0, max=2**32 - 1, help="Only this transaction, or subtransaction. Repeatable."
        ),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", "-w", help="Only records with full-page images.")
    ] = False,
    since: Since = None,
    until: Until = None,
    start: wal_names.Start = None,
    end: wal_names.End = None,
    timeline: options.Timeline = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Records to print.")] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", "-b", help="Show block references with details of their images.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    resolve: wal_names.Resolve = None,
    map_: wal_names.MapFile = None,
    allow_gaps: options.AllowGaps = False,
) -> None:
    """Print records, one per line, in pg_waldump's format or as JSON.

    Those that meet every condition; without conditions, all. Relations have names where these are known.
    """
    from walproof.cli.passes import PassProgress
    from walproof.wal import lines
    from walproof.wal.filter import RecordFilter

    if blocks and json:
        raise WalError("--blocks and --json exclude each other", hint="--json has the block references.")
    style: Literal["line", "blocks", "json"] = "json" if json else "blocks" if blocks else "line"
    asked = ask_span(start, end, since, until)
    only = RecordFilter(
        operations=tuple(rmgr or ()), xids=tuple(xid or ()), fork=fork, block=block, only_images=images
    )
    names = _names(paths, asked.start, timeline, resolve, map_)
    put = None
    if names is not None:
        from walproof.report.wal.records import RecordNames

        put = RecordNames(names).put_into
    if relation:
        from walproof.wal.relations import find_relations

        only = replace(only, relations=find_relations(relation, names))
    with PassProgress("reading WAL") as progress:
        first, last = asked.find(paths, timeline, wal_names.warn, progress.observe)
        found = lines(
            *paths, style=style, start=first, end=last, timeline=timeline, allow_gaps=allow_gaps,
            limit=limit, only=only, observe=progress.observe,
        )  # fmt: skip
        printed = False
        while True:
            try:
                text = next(found)
            except StopIteration as over:
                read: int = over.value
                break
            printed = True
            if sys.stdout.isatty():
                progress.give_way()
            sys.stdout.write(text if put is None else put(text, style))
            sys.stdout.flush()
    if not printed and only != RecordFilter():
        sys.stderr.write(f"walproof: no record meets the conditions, of {say_count(read, 'record')} read\n")


def _names(
    paths: list[str], start: Lsn | None, timeline: int | None, resolve: str | None, map_: Path | None
) -> RelationMap | None:
    """The names that were given, or that a recording has brought along."""
    from walproof.wal.recording import recorded_names

    given = wal_names.given_names(resolve, map_)
    if given is None and not any(map(recorded_names, paths)):
        return None
    from walproof.wal.whatif import system_identifier

    whose = system_identifier(*paths, start=start, timeline=timeline)
    return wal_names.names_of(given, paths, whose)
