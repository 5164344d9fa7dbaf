"""Leaving several observers at once. Each has a thread that nobody can end while its server hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol


class Observer(Protocol):
    """What looks at a server on a thread of its own."""

    def stop(self) -> None:
        """End soon; nobody waits for that."""

    def join(self, patience_s: float) -> None:
        """Wait for the end, no longer than that."""


def stop_all(observers: Sequence[Observer]) -> None:
    """Let all end soon; nobody waits for that."""
    for observer in observers:
        observer.stop()


def join_all(observers: Sequence[Observer], patience_s: float) -> None:
    """Wait for the end of all, together no longer than ``patience_s`` seconds."""
    until_s = time.monotonic() + patience_s
    for observer in observers:
        observer.join(max(0.0, until_s - time.monotonic()))
