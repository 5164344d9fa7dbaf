"""The servers of one ``walproof watch``: who looks at each, and what is said of it. Holds the threads."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessor, Limits, unique_names
from walproof.cli.watch_clock import Clock, Told
from walproof.cli.watch_order import ServerOrder, WatchOrder, server_name
from walproof.facts.watch import NoAnswer, StreamPhase, StreamState, WatchLook
from walproof.observe.pair_watcher import PairWatcher
from walproof.observe.watcher import Watcher
from walproof.report.watch.view import ServerView, standby_name

_PAIR_WINDOW_S = 2.0


class WatchedServer:
    """Context manager: one server."""

    def __init__(self, name: str, own: ServerOrder, order: WatchOrder) -> None:
        self.conninfo = own.conninfo
        self._own = own
        self._watcher = Watcher(own.conninfo, order.every_s)
        self._clock = Clock(own, order.max_retained_bytes) if own.streams else None
        self._assessor = Assessor(name, Limits(own.wal_disk_bytes), order.every_s)
        self._concerns = Concerns(replace(order.thresholds, recovery_s=own.recovery_s))
        self._stack = ExitStack()
        self.look: WatchLook | None = None
        """The newest, while it answers."""
        self.pairs: list[PairWatcher] = []
        """Its standbys that are watched, too."""

    def __enter__(self) -> WatchedServer:
        self._stack.enter_context(self._watcher)
        if self._clock is not None:
            self._stack.enter_context(self._clock)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, patience_s: float = 0.0) -> None:
        """Take note of what was seen since; waits for the first sighting for so long."""
        seen = self._watcher.take(patience_s)
        self._assessor.see(seen)
        if seen:
            self.look = None if isinstance(seen[-1], NoAnswer) else seen[-1]

    def watch_standby(self, conninfo: str) -> None:
        """Watch the pair with a standby of this server."""
        watcher = PairWatcher(self.conninfo, conninfo, _PAIR_WINDOW_S)
        self.pairs.append(self._stack.enter_context(watcher))

    @property
    def is_settled(self) -> bool:
        """Whether everything that will be known soon is known."""
        return self.look is None or self._clock is None or self._clock.is_settled

    def view(self) -> ServerView:
        """All that is known now."""
        seen = self._assessor.assess(time.monotonic(), time.time())
        told = Told(StreamState(StreamPhase.OFF)) if self._clock is None else self._clock.now()
        windows = tuple(window for pair in self.pairs if (window := pair.window) is not None)
        pairs = {standby_name(window): diagnose(window) for window in windows}
        concerns = self._concerns.of(seen, told.clock, told.causes, pairs, time.time())
        return ServerView(
            seen, concerns, told.state, told.clock, told.causes, pairs, self._own.recovery_s, told.notes,
            windows, self._own.wal_disk_bytes,
        )  # fmt: skip


class Fleet:
    """Context manager: all servers. Standbys of watched servers are watched as pairs with these."""

    def __init__(self, order: WatchOrder) -> None:
        names = unique_names([one.name or server_name(one.conninfo) for one in order.servers])
        self.servers = [
            WatchedServer(name, own, order) for name, own in zip(names, order.servers, strict=True)
        ]
        self._stack = ExitStack()
        self._paired: set[int] = set()

    def __enter__(self) -> Fleet:
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def views(self, patience_s: float = 0.0) -> list[ServerView]:
        """What is known of each now; waits for first sightings until ``patience_s`` have passed."""
        until_s = time.monotonic() + patience_s
        for server in self.servers:
            server.take(max(0.0, until_s - time.monotonic()))
        self._pair()
        return [server.view() for server in self.servers]

    @property
    def is_settled(self) -> bool:
        """Of all servers."""
        return all(server.is_settled for server in self.servers)

    def _pair(self) -> None:
        """A standby's upstream is the primary of its system, else another server of it with standbys."""
        for place, standby in enumerate(self.servers):
            look = standby.look
            if place in self._paired or look is None or not look.is_in_recovery:
                continue
            upstream = self._upstream_of(look, standby)
            if upstream is not None:
                self._paired.add(place)
                upstream.watch_standby(standby.conninfo)

    def _upstream_of(self, look: WatchLook, standby: WatchedServer) -> WatchedServer | None:
        candidates = [
            (server, server.look)
            for server in self.servers
            if server is not standby
            and server.look is not None
            and server.look.system_identifier == look.system_identifier is not None
            and server.look.standbys
        ]
        candidates.sort(key=lambda one: one[1].is_in_recovery)
        return candidates[0][0] if candidates else None
