"""``walproof wal stats|records|map|capture|strip|whatif``: what is in the WAL, and what it would be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from walproof.cli import options
from walproof.cli.strip import strip
from walproof.cli.whatif import whatif
from walproof.errors import WalError
from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.wal import RelationMap

app = typer.Typer(
    help="WAL of PostgreSQL 13 to 18: totals, records, names of relations.",
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
        Path | None, typer.Option("--map", metavar="FILE", help='Names that "walproof wal map" saved.')
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
    from walproof.report.terminal import print_sections
    from walproof.report.wal import By, csv_text, json_text, rows, to_html, wal_view
    from walproof.wal import stats as read_stats

    choices = [one.value for one in By]
    if by not in choices:
        raise WalError(f'cannot total by "{by}"', hint=f"Choose one of {', '.join(choices)}.")
    if json and csv:
        raise WalError("--json and --csv exclude each other")
    criterion = By(by)
    names = _names(resolve, map_)
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
        from walproof.cli.execution import write_file

        write_file(html, to_html(wal_view(wal, criterion, names)))
    if json:
        sys.stdout.write(json_text(wal, criterion, found))
    elif csv:
        sys.stdout.write(csv_text(found))
    else:
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


app.command("whatif")(whatif)
app.command("strip")(strip)


@app.command("map")
def map_(
    dsn: Annotated[str, typer.Argument(metavar="DSN", help='Such as "host=db1 dbname=shop user=me".')],
) -> None:
    """Save the names of a server's relations, for WAL that is read elsewhere: wal map DSN > map.json."""
    sys.stdout.write(_ask(dsn).to_json())


@app.command("capture")
def capture(
    dsn: Annotated[str, typer.Argument(metavar="DSN", help='Such as "host=db1 user=me".')],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder for the recording.")],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 1h.")] = "1h",
    pg: Annotated[
        str | None, typer.Option("--pg", metavar="DIR|VERSION", help="Whose pg_receivewal.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Record a running server's WAL, with its settings and the names of its relations.

    Reads only. The user needs REPLICATION and pg_monitor. Ctrl-C ends the recording early and keeps it; it
    also ends before the disk is full. No replication slot outlives it.
    """
    import json as json_module
    import signal
    import threading

    from walproof.lab.capture import CaptureOrder, find_receiver, server_version
    from walproof.lab.capture import capture as take
    from walproof.postgres.install import discover, find
    from walproof.units import format_bytes, format_duration, parse_duration_s

    seconds = parse_duration_s(for_)
    program = find_receiver([find(pg)] if pg is not None else discover(), server_version(dsn))
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.set())
    is_terminal = sys.stderr.isatty()
    shown_s = 0.0

    def watch(passed_s: float, received: int, free: int) -> None:
        nonlocal shown_s
        if not is_terminal and passed_s - shown_s < 10:
            return
        shown_s = passed_s
        text = (
            f"{format_duration(passed_s)} of {format_duration(seconds)}: {format_bytes(received)}, "
            f"{format_bytes(received / max(passed_s, 1e-3) * 3600)} an hour, "
            f"{format_bytes(free)} of disk left"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        sys.stderr.flush()

    recording = take(CaptureOrder(dsn, seconds, to), program, watch, asked.is_set)
    if is_terminal:
        sys.stderr.write("\r\x1b[K")
    length_s = recording.ended.at - recording.began.at
    if json:
        result = {
            "folder": str(to), "began_lsn": str(recording.began.lsn), "ended_lsn": str(recording.ended.lsn),
            "wal_bytes": recording.bytes, "seconds": length_s, "ended_because": recording.ended_because,
        }  # fmt: skip
        sys.stdout.write(json_module.dumps(result, indent=2) + "\n")
    else:
        sys.stdout.write(
            f"recorded {format_bytes(recording.bytes)} of WAL in {format_duration(length_s)}, "
            f"{recording.began.lsn} to {recording.ended.lsn}, into {to}\n"
        )
    if recording.ended_because not in ("time", "interrupted"):
        reason = "the disk is nearly full" if recording.ended_because == "disk" else recording.ended_because
        sys.stderr.write(f"ended early: {reason}; what was received is kept\n")
        raise typer.Exit(1)


def _names(dsn: str | None, file: Path | None) -> RelationMap | None:
    if dsn is not None and file is not None:
        raise WalError("--resolve and --map exclude each other")
    if file is not None:
        from walproof.wal import read_map

        return read_map(file)
    return None if dsn is None else _ask(dsn)


def _ask(dsn: str) -> RelationMap:
    from walproof.probe.relations import read_relations

    names = read_relations(dsn)
    for reason in names.left_out:
        sys.stderr.write(f"left out: database {reason}\n")
    return names


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
