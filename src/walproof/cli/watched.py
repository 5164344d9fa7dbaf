"""The servers of one ``walproof watch``: who looks at each, and what is said of it. Holds the threads."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.advise.replica.diagnosis import Diagnosis, diagnose
from walproof.advise.watch.concern import Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessor, Limits, unique_names
from walproof.cli.watch_clock import Clock, Told
from walproof.facts.watch import NoAnswer, StreamPhase, StreamState, WatchLook
from walproof.observe.pair_watcher import PairWatcher
from walproof.observe.watcher import Watcher
from walproof.report.watch.view import ServerView
from walproof.settings.conninfo import parse

if TYPE_CHECKING:
    from walproof.facts.replication import ReplicationWindow

_PAIR_WINDOW_S = 2.0


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """What to watch, and what to compare with."""

    conninfos: tuple[str, ...]
    every_s: float
    thresholds: Thresholds
    wal_disk_bytes: int | None
    streams: bool
    max_retained_bytes: int
    calibration: Path | None


class WatchedServer:
    """Context manager: one server."""

    def __init__(self, name: str, conninfo: str, order: WatchOrder) -> None:
        self.conninfo = conninfo
        self._target_s = order.thresholds.recovery_s
        self._watcher = Watcher(conninfo, order.every_s)
        self._clock = Clock(conninfo, order.max_retained_bytes, order.calibration) if order.streams else None
        self._assessor = Assessor(name, Limits(order.wal_disk_bytes), order.every_s)
        self._concerns = Concerns(order.thresholds)
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
        pairs = self._diagnoses()
        concerns = self._concerns.of(seen, told.clock, told.causes, pairs, time.time())
        return ServerView(
            seen, concerns, told.state, told.clock, told.causes, pairs, self._target_s, told.notes
        )

    def _diagnoses(self) -> dict[str, Diagnosis]:
        windows = [window for pair in self.pairs if (window := pair.window) is not None]
        return {_standby_name(window): diagnose(window) for window in windows}


class Fleet:
    """Context manager: all servers. Standbys of watched servers are watched as pairs with these."""

    def __init__(self, order: WatchOrder) -> None:
        names = unique_names([server_name(conninfo) for conninfo in order.conninfos])
        self.servers = [
            WatchedServer(name, conninfo, order)
            for name, conninfo in zip(names, order.conninfos, strict=True)
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


def server_name(conninfo: str) -> str:
    """What a server is called on the page: its service, or host and port. Raises ConninfoError."""
    given = parse(conninfo)
    if service := given.get("service"):
        return service
    host, port = given.get("host") or given.get("hostaddr") or "local", given.get("port")
    host = "local" if host.startswith(("/", "@")) else host
    return f"{host}:{port}" if port else host


def _standby_name(window: ReplicationWindow) -> str:
    sender = window.last.upstream.sender or window.first.upstream.sender
    return "on the command line" if sender is None else sender.application_name
