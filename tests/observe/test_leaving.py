"""Threads of observers: a fault of ours is raised where results are asked for, and who hangs is left."""

from __future__ import annotations

import threading
import time

import pytest

from walproof.observe.leaving import ObserverThread


class _Broken(ObserverThread):
    """Ends by a fault."""

    def __init__(self) -> None:
        super().__init__("broken")
        self.woken = threading.Event()

    def _observe(self) -> None:
        raise ZeroDivisionError

    def _wake(self) -> None:
        self.woken.set()

    def result(self) -> None:
        self._check()


class _Hanging(ObserverThread):
    """Waits for a network that is dead."""

    def __init__(self) -> None:
        super().__init__("hanging", 0.1)
        self.network = threading.Event()
        self.is_told = False

    def _observe(self) -> None:
        self.network.wait()

    def _wake(self) -> None:
        self.is_told = self._stopping.is_set()


def test_a_fault_wakes_who_waits_and_is_raised_again() -> None:
    with _Broken() as made:
        assert made.woken.wait(30)
        with pytest.raises(ZeroDivisionError):
            made.result()


def test_who_hangs_is_told_to_end_and_left() -> None:
    begun_s = time.monotonic()
    with _Hanging() as made:
        pass
    try:
        assert made.is_told
        assert made._thread.is_alive()
        assert time.monotonic() - begun_s < 30
    finally:
        made.network.set()
        made.join(30)
    assert not made._thread.is_alive()
