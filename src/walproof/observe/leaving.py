"""Observers: what each of their threads has, and leaving several at once. Nobody can end a thread while its
server hangs."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, Self


class Observer(Protocol):
    """What looks at a server on a thread of its own, or on several."""

    def stop(self) -> None:
        """End soon; nobody waits for that."""

    def join(self, patience_s: float) -> None:
        """Wait for the end, no longer than that."""


class ObserverThread(ABC):
    """Context manager: observes in a thread while its block lasts."""

    def __init__(self, name: str, patience_s: float = 2.0) -> None:
        """``patience_s``: at the end of the block the thread is waited for so long."""
        self._patience_s = patience_s
        self._stopping = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join(self._patience_s)

    def stop(self) -> None:
        """End soon; nobody waits for that."""
        self._stopping.set()
        self._wake()

    def join(self, patience_s: float) -> None:
        """Wait for the end, no longer than that: a session that waits for a dead network ends with the
        process."""
        self._thread.join(patience_s)

    @abstractmethod
    def _observe(self) -> None:
        """Runs in the thread until ``_stopping`` is set."""

    @abstractmethod
    def _wake(self) -> None:
        """Wake who waits for anything but ``_stopping``: the thread is to end, or has ended by a fault."""

    def _check(self) -> None:
        """Raise what a fault of ours raised in the thread."""
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._observe()
        except BaseException as fault:  # ours: raised again by _check()
            self._fault = fault
            self._wake()


def stop_all(observers: Sequence[Observer]) -> None:
    """Let all end soon; nobody waits for that."""
    for observer in observers:
        observer.stop()


def join_all(observers: Sequence[Observer], patience_s: float) -> None:
    """Wait for the end of all, together no longer than ``patience_s`` seconds."""
    until_s = time.monotonic() + patience_s
    for observer in observers:
        observer.join(max(0.0, until_s - time.monotonic()))
