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
    paths: options.OneRecording,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder for the segments.")],
    timeline: options.Timeline = None,
    json: options.Json = False,
) -> None:
    """Copy WAL without what is in the tables: small, and fit to be sent.

    Totals, records and what-if read the copy as they read the WAL; how well images compress was tried before
    they were blanked out. Parts of a recording may be stripped apart, even on different machines, and read
    together.
    """
    from walproof.cli.passes import PassProgress
    from walproof.wal.strip import strip as strip_wal

    with PassProgress("stripping") as progress:
        done = strip_wal(*paths, folder=to, timeline=timeline, observe=progress.observe)
    if json:
        from json import dumps

        sys.stdout.write(dumps(asdict(done), indent=2) + "\n")
        return
    console = options.result_console()
    console.print(
        f"{done.segments:,} segments, {done.records:,} records, {format_bytes(done.written_bytes)} in {to}"
    )
    console.print("Nothing of a table's rows, and no name, message or label, is in them.", style="dim")
