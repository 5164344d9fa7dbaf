"""The standard streams of a command, where what is printed cannot be written.

A closed stream, a full disk under a log, a terminal that is gone, a reader that has seen enough (``head``):
none of that ends a command that may have measured for hours, and its status tells what it found. Messages for
stderr go nowhere then. A result that did not get to stdout is an error, unless its reader left: it is said at
once, and the status tells it where there was nothing else to tell.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from walproof.errors import WalproofError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Results:
    """stdout, and whether something of it was lost."""

    def __init__(self, say: Callable[[WalproofError], None]) -> None:
        self._file = _Stdout(1, "wb", closefd=False)
        self._file.say = say
        self.stream = _text(sys.stdout, self._file)

    @property
    def is_lost(self) -> bool:
        """Whether something could not be written, and not because its reader left."""
        return self._file.is_lost

    def finish(self) -> None:
        """Write what is still in buffers, which would fail once more when the process ends."""
        with suppress(ValueError):  # closed
            try:
                self.stream.flush()
            except BrokenPipeError:
                _to_nowhere()


def open_streams(say: Callable[[WalproofError], None]) -> Results:
    """Replace the streams of ``sys``; to be called before any other file is opened.

    ``say`` is called when something is lost, for the first time.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened, a store for one, would have the number, and be printed into.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stderr = _text(sys.stderr, _Stderr(2, "wb", closefd=False))
    results = Results(say)
    sys.stdout = results.stream
    return results


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print within the block: a closed pipe ends the block and is not an error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere()
    except SystemExit as left:
        # rich turns the broken pipe into this.
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        _to_nowhere()


def say(sentence: str) -> None:
    """Write it on stderr, on one line: reasons and names of servers may hold what a terminal obeys."""
    from walproof.report.plaintext import one_line  # most commands have nothing to say

    sys.stderr.write(f"{one_line(sentence)}\n")
    sys.stderr.flush()


class _Stdout(io.FileIO):
    is_lost = False
    say: Callable[[WalproofError], None]

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self.is_lost:
                self.is_lost = True
                self.say(
                    WalproofError(
                        f"could not write to stdout: {error.strerror}",
                        hint="What runs have measured is stored all the same: walproof runs.",
                    )
                )
            return memoryview(data).nbytes


class _Stderr(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(given: TextIO | None, file: io.FileIO) -> io.TextIOWrapper:
    """As Python made the stream, where it did: it makes none of a closed descriptor."""
    like = given if isinstance(given, io.TextIOWrapper) else None
    is_unbuffered = like is not None and like.write_through
    errors = like.errors if like else None
    return io.TextIOWrapper(
        file if is_unbuffered else io.BufferedWriter(file),
        encoding=like.encoding if like else "utf-8",
        # Encodings of older locales lack some characters that we print.
        errors="replace" if errors in (None, "strict") else errors,
        line_buffering=like.line_buffering if like else True,
        write_through=is_unbuffered,
    )


def _to_nowhere() -> None:
    """What is still in the buffer would fail once more when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
