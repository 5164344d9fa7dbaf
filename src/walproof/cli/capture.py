"""``walproof wal capture``: the WAL of a running server, with what is needed to understand it later."""

from __future__ import annotations

import json as json_module
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave, say
from walproof.units import format_bytes, format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from walproof.lab.capture import Beginning


def capture(
    dsn: Annotated[str, typer.Argument(metavar="DSN", help='Such as "service=shop", or "host=db1 user=me".')],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder for the recording.")],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 1h.")] = "1h",
    max_retained: Annotated[
        str,
        typer.Option(
            "--max-retained",
            metavar="SIZE",
            help="End when the server keeps more WAL than this for the recording.",
        ),
    ] = "1GB",
    strip: Annotated[
        bool, typer.Option("--strip", help="Blank out contents before anything is written to the disk.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Record a running server's WAL, its settings and names.

    Reads only. The user needs REPLICATION and pg_monitor. Ctrl-C ends the recording early and keeps it; it
    also ends before the disk is full. No replication slot outlives it.
    """
    from walproof.cli.status_line import StatusLine
    from walproof.lab.capture import CaptureOrder
    from walproof.lab.capture import capture as take
    from walproof.lab.receiver import DISK

    seconds, most = parse_duration_s(for_), parse_bytes(max_retained)
    asked = threading.Event()
    _end_on_signals(asked)
    line = StatusLine(in_logs=True)

    def tell(beginning: Beginning) -> None:
        limit = beginning.max_slot_wal_keep_size
        sys.stderr.write(
            f"recording by the temporary slot {beginning.slot}, "
            f"{'encrypted' if beginning.is_encrypted else 'not encrypted'}; it ends when the server keeps "
            f"more than {format_bytes(most)} of WAL for it (--max-retained); the server's "
            "max_slot_wal_keep_size "
            f"is {'-1 (no limit)' if limit == '-1' else limit}\n"
        )
        sys.stderr.flush()

    def watch(passed_s: float, received: int, free: int) -> None:
        line.show(
            f"{format_duration(passed_s)} of {format_duration(seconds)}: {format_bytes(received)}, "
            f"{format_bytes(received / max(passed_s, 1e-3) * 3600)} an hour, "
            f"{format_bytes(free)} of disk left"
        )

    order = CaptureOrder(dsn, seconds, to, max_retained_bytes=most, is_stripped=strip)
    recording = take(order, watch, asked.is_set, tell)
    line.clear()
    length_s = recording.ended.at - recording.began.at
    if json:
        result = {
            "folder": str(to), "began_lsn": str(recording.began.lsn), "ended_lsn": str(recording.ended.lsn),
            "wal_bytes": recording.bytes, "seconds": length_s, "ended_because": recording.ended_because,
        }  # fmt: skip
        said = json_module.dumps(result, indent=2)
    else:
        said = (
            f"recorded {format_bytes(recording.bytes)} of WAL in {format_duration(length_s)}, "
            f"{recording.began.lsn} to {recording.ended.lsn}, into {to}"
        )
    with reader_may_leave():
        sys.stdout.write(f"{said}\n")
    if recording.ended_because not in ("time", "interrupted"):
        reason = "the disk is nearly full" if recording.ended_because == DISK else recording.ended_because
        say(f"ended early: {reason}; what was received is kept")
        raise typer.Exit(ExitStatus.CHECK_FAILED)


def _end_on_signals(asked: threading.Event) -> None:
    """Let signals end the recording, but for those that the process ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore some
            signal.signal(number, lambda *_: asked.set())
