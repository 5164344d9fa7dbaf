"""The command line: one file a subcommand. Errors are caught here and nowhere else."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from walproof.errors import WalproofError


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived; raised in the main thread so that every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Entry point of ``walproof``. Exit status 0: done, 1: a requested check failed, 2: error.

    An interrupted command exits with 128 + the signal's number, as a shell reports it.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore some
            signal.signal(number, _interrupt)
    stdout = sys.stdout
    try:
        from walproof.cli.app import app

        app(prog_name="walproof")
        status = 0
    except SystemExit as done:
        # A reader that has seen enough (head, less) is no error; typer then replaces stdout and exits with 1.
        status = int(done.code or 0) if sys.stdout is stdout else 0
    except WalproofError as error:
        print_error(error)
        status = 2
    except Interrupted as signalled:
        status = 128 + signalled.number
        sys.stderr.write(
            "walproof: interrupted; finished trials are stored, and the same command resumes the run\n"
        )
    sys.exit(status)


def print_error(error: WalproofError) -> None:
    """Message, detail and hint on stderr, in PostgreSQL's order."""
    sys.stderr.write(f"walproof: error: {error.message}\n")
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            indented = text.rstrip().replace("\n", "\n        ")
            sys.stderr.write(f"{label}: {indented}\n")


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
