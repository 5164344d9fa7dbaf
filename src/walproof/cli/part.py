"""``walproof wal part``: count a part of WAL on one machine, for ``wal stats`` on another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options
from walproof.cli.span import Since, Until, ask_span
from walproof.errors import WalError
from walproof.units import format_bytes


@options.with_places
def part(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Segments or folders of a range of WAL, s3://, gs://, az:// as well; or parts to join into "
            "one.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="PART", help="File for the part.")],
    start: Annotated[
        str | None, typer.Option("--start", "-s", metavar="LSN", help="Where the part begins.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", "-e", metavar="LSN", help="Where it ends and the next part begins.")
    ] = None,
    since: Since = None,
    until: Until = None,
    timeline: options.Timeline = None,
    json: options.Json = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Cores to use. Default: all.")
    ] = None,
) -> None:
    """Count a range of WAL and keep the counts in a file.

    "wal stats" puts such files together. Several machines can read ranges of one archive, each with only its
    own segments.

    From all parts, in order, "wal stats" prints to the byte what it prints from the whole.
    """
    from walproof.cli.files import check_file
    from walproof.cli.passes import PassProgress
    from walproof.cli.wal_names import warn
    from walproof.files import write_whole
    from walproof.wal.parts import are_parts, load_parts, read_part

    check_file("--out", out, "part", makes_folder=False)
    asked = ask_span(start, end, since, until)
    if are_parts(paths):
        if (start, end, since, until, timeline) != (None,) * 5:
            raise WalError("locations, times and --timeline are for WAL: parts are joined as they are")
        made = load_parts(paths)
    else:
        with PassProgress("reading WAL") as progress:
            first, last = asked.find(paths, timeline, warn, progress.observe)
            made = read_part(
                *paths,
                start=first,
                end=last,
                timeline=timeline,
                threads=threads,
                observe=progress.observe,
            )
    try:
        write_whole(out, made.data)
    except OSError as error:
        raise WalError(f'could not write part "{out}": {error.strerror}') from error
    if json:
        from json import dumps

        sys.stdout.write(dumps(made.facts(), indent=2) + "\n")
        return
    console = options.result_console()
    console.print(f"{out}: WAL from {made.start} to {made.end}, {format_bytes(len(made.data))}")
    follows = (
        f"The next part begins at {made.end}."
        if made.is_open
        else "The WAL ends there: this is the last part."
    )
    console.print(follows, style="dim")
