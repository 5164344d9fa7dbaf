"""Keeps looking at one server, in a thread, whatever becomes of the server or of the network.

A look that fails ends the session; another one is opened after a wait that grows. What was last seen, or
since when nothing has been seen, is at hand at any time."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from walproof.errors import ConninfoError, ProbeError
from walproof.facts.watch import NoAnswer, WatchLook
from walproof.observe.backoff import Backoff
from walproof.observe.leaving import ObserverThread
from walproof.observe.looking import Looker
from walproof.probe.connection import connect_foreign


class Watcher(ObserverThread):
    """Context manager: looks at a server every ``every_s`` seconds while its block lasts."""

    def __init__(self, conninfo: str, every_s: float) -> None:
        """``conninfo``: libpq's words or a URI."""
        super().__init__("walproof-watch")
        self._conninfo = conninfo
        self._every_s = every_s
        self._changed = threading.Condition()
        self._seen: list[WatchLook | NoAnswer] = []
        self._looker: Looker | None = None

    def take(self, patience_s: float = 0.0) -> list[WatchLook | NoAnswer]:
        """What was seen since the last call, oldest first; waits up to ``patience_s`` for the first.

        Raises what a fault of ours raised in the thread.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._seen or self._fault, patience_s)
            self._check()
            seen, self._seen = self._seen, []
            return seen

    @property
    def answered_s(self) -> float | None:
        """When the look that is under way had its first answer, by the monotonic clock; None while the server
        has not answered it, or there is no session."""
        looker = self._looker
        return None if looker is None else looker.answered_s

    def _observe(self) -> None:
        backoff = Backoff()
        gone: NoAnswer | None = None
        answered_s: float | None = None
        while not self._stopping.is_set():
            try:
                with closing(connect_foreign(self._conninfo)) as session:
                    looker = self._looker = Looker(session)
                    while not self._stopping.is_set():
                        begun_s = time.monotonic()
                        look = looker.look()
                        self._tell(look)
                        gone, answered_s = None, look.seen_s
                        backoff.succeeded()
                        self._stopping.wait(max(0.0, begun_s + self._every_s - time.monotonic()))
            except (ProbeError, ConninfoError) as error:
                self._looker = None
                now_s = time.monotonic()
                # A session learns late that its network is cut: the outage began after the last answer.
                silent_s = 0.0 if answered_s is None else now_s - answered_s
                gone = NoAnswer(
                    now_s,
                    time.time() - silent_s if gone is None else gone.since,
                    error.detail or error.message,
                    error.hint,
                )
                self._tell(gone)
                self._stopping.wait(backoff.failed())

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _tell(self, seen: WatchLook | NoAnswer) -> None:
        with self._changed:
            self._seen.append(seen)
            self._changed.notify_all()
