"""A trend over many runs, made on a thread: whoever opens the page sees at once that it is on its way."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Generic, TypeVar

PATIENCE_S = 0.5
"""How long a page waits for a value that is nearly ready."""
_KEPT_MOST = 8

_T = TypeVar("_T")


class Latest(Generic[_T]):
    """The values that were asked for last, by name; made one at a time, whoever asks for how many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Hashable, Future[_T]]] = OrderedDict()
        """Name -> state of its sources, value. What was asked for last comes last."""
        self._unseen: set[str] = set()
        """Names whose value nobody was given yet."""
        self._waiting: deque[tuple[Future[_T], Callable[[], _T]]] = deque()
        self._is_working = False

    def get(self, name: str, state: Hashable, make: Callable[[], _T]) -> _T | None:
        """The value for this state; None while it is being made. Raises what ``make`` raises.

        One that is being made is waited for, even if its sources change meanwhile, and given out once:
        while a run goes on, they change all the time.
        """
        with self._lock:
            of_state, made = self._kept.get(name, (None, None))
            is_old = of_state != state and name not in self._unseen
            if made is None or (made.done() and (is_old or made.exception() is not None)):
                made = Future()
                self._unseen.add(name)
                self._kept[name] = state, made
                self._waiting.append((made, make))
                if not self._is_working:
                    self._is_working = True
                    threading.Thread(target=self._work, name="trend", daemon=True).start()
            self._kept.move_to_end(name)
            if len(self._kept) > _KEPT_MOST:
                old, (_, oldest) = self._kept.popitem(last=False)
                self._unseen.discard(old)
                oldest.cancel()
        wait_for([made], PATIENCE_S)
        if not made.done() or made.cancelled():
            return None
        with self._lock:
            self._unseen.discard(name)
        return made.result()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                made, make = self._waiting.popleft()
            if not made.set_running_or_notify_cancel():
                continue
            try:
                made.set_result(make())
            except BaseException as error:
                made.set_exception(error)
