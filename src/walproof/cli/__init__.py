"""The command line: one file a subcommand. Errors are caught here and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from walproof.errors import WalproofError


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; raised in the main thread so that every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Entry point of ``walproof``. Exit status 0: done, 1: a requested check failed, 2: error."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        from walproof.cli.app import app

        app(prog_name="walproof")
        status = 0
    except WalproofError as error:
        print_error(error)
        status = 2
    except KeyboardInterrupt:
        status = _interrupted(signal.SIGINT)
    except Terminated as signalled:
        status = _interrupted(signalled.number)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)


def print_error(error: WalproofError) -> None:
    """Message, detail and hint on stderr, in PostgreSQL's order."""
    sys.stderr.write(f"walproof: error: {error.message}\n")
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            indented = text.rstrip().replace("\n", "\n        ")
            sys.stderr.write(f"{label}: {indented}\n")


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated(number)


def _interrupted(number: int) -> int:
    sys.stderr.write(
        "walproof: interrupted; finished trials are stored, and the same command resumes the run\n"
    )
    return 128 + number
