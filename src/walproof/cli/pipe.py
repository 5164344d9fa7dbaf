"""A reader of what is printed that has seen enough (``head``): what is printed after that goes nowhere.

The command continues: it writes its files, and its status tells what it found, not what became of its output.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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


def _to_nowhere() -> None:
    """What is still in buffers would fail once more when the process ends. Both streams may be the one pipe
    (``2>&1 | head``)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if _is_left(stream.fileno()):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _is_left(file: int) -> bool:
    """Whether it is a pipe that nobody reads any more (poll(2), POLLERR)."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))
