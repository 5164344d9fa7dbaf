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
    """Copy WAL without the contents of tables: small, and safe to send.

    Totals, records and what-if read the copy as they read the WAL; how well images compress is measured
    before they are blanked out. Parts of a recording may be stripped separately, even on different machines,
    and read together.
    """
    from walproof.cli.passes import PassProgress
    from walproof.sentences import say_count
    from walproof.wal.strip import strip as strip_wal

    with PassProgress("stripping") as progress:
        done = strip_wal(*paths, folder=to, timeline=timeline, observe=progress.observe)
    if json:
        from json import dumps

        sys.stdout.write(dumps(asdict(done), indent=2) + "\n")
        return
    console = options.result_console()
    console.print(
        f"{say_count(done.segments, 'segment')}, {say_count(done.records, 'record')}, "
        f"{format_bytes(done.written_bytes)} in {to}"
    )
    console.print("They hold no row of a table, and no name, message or label.", style="dim")
