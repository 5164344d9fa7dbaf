"""Keeps watching a pair, in a thread: windows of a `PairObserver`, one after the other."""

from __future__ import annotations

import threading

from walproof.errors import ProbeError
from walproof.facts.replication import ReplicationWindow
from walproof.observe.backoff import Backoff
from walproof.observe.leaving import ObserverThread
from walproof.probe.pair import PairObserver

_FIRST_S = 1.0
"""A lag from before the first look is known to be as old as the first window: in a shorter one it could not
be told from that of a standby that keeps up."""

_LATE_S = 4.0
"""What a window may be late beside three times its length."""


class PairWatcher(ObserverThread):
    """Context manager: watches ``standby`` and its ``upstream``, two connection strings.

    Its thread ends after the current window. ``application_name``: as for `PairObserver`.
    """

    def __init__(
        self, upstream: str, standby: str, window_s: float, application_name: str | None = None
    ) -> None:
        super().__init__("walproof-pair", window_s + 2.0)
        self._conninfos = (upstream, standby)
        self._application_name = application_name
        self._window_s = window_s
        self._changed = threading.Condition()
        self._window: ReplicationWindow | None = None
        self._error: ProbeError | None = None

    @property
    def window(self) -> ReplicationWindow | None:
        """The newest window; None while one of the two does not answer, or they are not a pair."""
        self._check()
        return self._window

    def fresh_window(self, now_s: float) -> ReplicationWindow | None:
        """The newest window, None where it is old (``now_s``: monotonic): one of the two says nothing, as a
        machine that is frozen does."""
        window = self.window
        most_s = 3 * max(self._window_s, _FIRST_S) + _LATE_S
        return window if window is not None and now_s - window.last.at_s <= most_s else None

    @property
    def error(self) -> ProbeError | None:
        """Why there is no window."""
        return self._error

    def wait(self, known: ReplicationWindow | None, patience_s: float) -> None:
        """Wait until there is a window other than ``known``, or the pair cannot be watched."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._window is not known or self._error or self._fault, patience_s
            )

    def _observe(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                with PairObserver(*self._conninfos, self._application_name) as observer:
                    window_s = max(self._window_s, _FIRST_S)
                    while not self._stopping.is_set():
                        self._tell(observer.observe(window_s), None)
                        window_s = self._window_s
                        backoff.succeeded()
            except ProbeError as error:
                # That a server does not answer is said in its own panel.
                self._tell(None, error)
                self._stopping.wait(backoff.failed())

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _tell(self, window: ReplicationWindow | None, error: ProbeError | None) -> None:
        with self._changed:
            self._window, self._error = window, error
            self._changed.notify_all()


def check_watchable(upstream: str, standby: str, application_name: str | None = None) -> None:
    """Raises ProbeError: a server cannot be reached, a right is missing, or they are not a pair."""
    with PairObserver(upstream, standby, application_name):
        pass
