"""The command line: one file a subcommand. Errors are caught here and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from walproof.cli.status import SIGNAL_BASE, ExitStatus
from walproof.cli.streams import open_streams
from walproof.errors import WalproofError


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived; raised in the main thread so that every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.kept = ""
        """Which part of the command's work is not lost, for the message."""


def main() -> NoReturn:
    """Entry point of ``walproof``. `ExitStatus` has the statuses it exits with."""
    results = open_streams(print_error)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore some
            signal.signal(number, _interrupt)
    try:
        from walproof.cli.app import app

        app(prog_name="walproof")
        status = int(ExitStatus.DONE)
    except SystemExit as done:
        # A reader that has seen enough (head, less) is no error: rich exits with 1 then, and typer replaces
        # stdout.
        has_left = sys.stdout is not results.stream or isinstance(done.__context__, BrokenPipeError)
        status = int(ExitStatus.DONE) if has_left else int(done.code or ExitStatus.DONE)
    except WalproofError as error:
        results.finish()  # what was printed before comes before, also where both streams are one file
        print_error(error)
        status = int(ExitStatus.ERROR)
    except Interrupted as signalled:
        status = SIGNAL_BASE + signalled.number
        sys.stderr.write(f"walproof: interrupted{signalled.kept and f'; {signalled.kept}'}\n")
    except BaseException as error:  # a panic of the native part is no Exception
        from walproof.cli.defect import defect_text

        results.finish()
        sys.stderr.write(defect_text(error))
        status = int(ExitStatus.DEFECT)
    results.finish()
    _leave(int(ExitStatus.ERROR) if results.is_lost and not status else status)


def _leave(status: int) -> NoReturn:
    """A request that hangs in the client of an object store ends with the process instead of holding it
    up."""
    if any(thread.name.startswith("object store") for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def print_error(error: WalproofError) -> None:
    """Message, detail and hint on stderr, in PostgreSQL's order. A server's own words may be among them."""
    from walproof.report.plaintext import printable

    sys.stderr.write(f"walproof: error: {printable(error.message)}\n")
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            indented = printable(text).rstrip().replace("\n", "\n        ")
            sys.stderr.write(f"{label}: {indented}\n")


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
