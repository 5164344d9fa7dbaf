"""A trend over many runs, made on a thread: whoever opens the page sees at once that it is on its way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Generic, TypeVar

PATIENCE_S = 0.5
"""How long a page waits for a value that is nearly ready."""

_T = TypeVar("_T")


class Latest(Generic[_T]):
    """The value that was asked for last, made once for each state of its sources."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: Hashable = None
        self._made: Future[_T] | None = None

    def get(self, state: Hashable, make: Callable[[], _T]) -> _T | None:
        """The value for this state; None while it is being made. Raises what ``make`` raises."""
        with self._lock:
            if self._made is None or self._state != state or _has_failed(self._made):
                self._state, self._made = state, Future()
                threading.Thread(target=_run, args=(make, self._made), name="trend", daemon=True).start()
            made = self._made
        wait_for([made], PATIENCE_S)
        return made.result() if made.done() else None


def _has_failed(made: Future[_T]) -> bool:
    return made.done() and made.exception() is not None


def _run(make: Callable[[], _T], made: Future[_T]) -> None:
    try:
        made.set_result(make())
    except BaseException as error:
        made.set_exception(error)
