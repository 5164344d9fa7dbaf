"""``walproof wal strip``: a recording without contents, to be kept or sent."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options
from walproof.units import format_bytes


def strip(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="pg_wal or archive folders and segments of one recording."),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder for the segments.")],
    timeline: Annotated[
        int | None, typer.Option("--timeline", "-t", min=1, help="Newest timeline to read.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Copy WAL without what is in the tables: small, and fit to be sent.

    Totals, records and what-if read the copy as they read the WAL; only what wal_compression would save
    cannot be told. Parts of a recording may be stripped apart, even on different machines, and read together.
    """
    from walproof.wal.strip import strip as strip_wal

    done = strip_wal(*paths, folder=to, timeline=timeline)
    if json:
        from json import dumps

        sys.stdout.write(dumps(asdict(done), indent=2) + "\n")
        return
    console = options.result_console()
    console.print(
        f"{done.segments:,} segments, {done.records:,} records, {format_bytes(done.written_bytes)} in {to}"
    )
    console.print(
        "No row of a table is in them, but for a record that is cut off at the beginning or the end.",
        style="dim",
    )
