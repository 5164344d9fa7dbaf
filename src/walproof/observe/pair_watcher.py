"""Keeps watching a pair, in a thread: windows of a `PairObserver`, one after the other."""

from __future__ import annotations

import threading

from walproof.errors import ProbeError
from walproof.facts.replication import ReplicationWindow
from walproof.observe.backoff import Backoff
from walproof.probe.pair import PairObserver


class PairWatcher:
    """Context manager: watches ``standby`` and its ``upstream``, two connection strings."""

    def __init__(self, upstream: str, standby: str, window_s: float) -> None:
        self._conninfos = (upstream, standby)
        self._window_s = window_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="walproof-pair", daemon=True)
        self._window: ReplicationWindow | None = None
        self._fault: BaseException | None = None

    def __enter__(self) -> PairWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(timeout=self._window_s + 2.0)

    @property
    def window(self) -> ReplicationWindow | None:
        """The newest; None while one of the two does not answer, or they are no pair."""
        if self._fault is not None:
            raise self._fault
        return self._window

    def _run(self) -> None:
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                try:
                    with PairObserver(*self._conninfos) as observer:
                        while not self._stopping.is_set():
                            self._window = observer.observe(self._window_s)
                            backoff.succeeded()
                except ProbeError:
                    # Its own panel says that a server does not answer.
                    self._window = None
                    self._stopping.wait(backoff.failed())
        except BaseException as fault:  # ours: raised again by window
            self._fault = fault
