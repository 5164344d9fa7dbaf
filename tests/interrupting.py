"""A signal that reaches the test itself, as one reaches a command."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_S = 60.0


class Interrupt(BaseException):
    """As `walproof.cli.Interrupted`, it is none of Python's own."""


@contextmanager
def interrupted(when: Callable[[], bool]) -> Iterator[None]:
    """Raise Interrupt within the block, once it is time."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    def wait() -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not when() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        yield
    finally:
        waiting.join()
        signal.signal(signal.SIGUSR1, before)
