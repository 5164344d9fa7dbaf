"""A reader of stdout that has seen enough (``head``): what is printed after that goes nowhere.

The command continues: it writes its files, and its status tells what it found, not what became of its output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print to stdout within the block: a closed pipe ends the block and is not an error."""
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
    """What is still in buffers would fail once more when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
