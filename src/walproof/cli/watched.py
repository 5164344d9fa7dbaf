"""The servers of one ``walproof watch``: who looks at each, and what is said of it. Holds the threads."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concerns import Concerns
from walproof.advise.watch.suspicion import is_suspected
from walproof.analysis.watch.assessment import Assessor, Limits, unique_names
from walproof.analysis.watch.missing import with_promoted
from walproof.analysis.watch.primaries import other_primaries
from walproof.analysis.watch.standbys import named
from walproof.analysis.watch.upstreams import still_served, upstreams
from walproof.cli.watch_clock import Clock, StreamMoment
from walproof.cli.watch_order import ServerOrder, WatchOrder, server_name
from walproof.errors import ProbeError
from walproof.facts.replication import ReplicationWindow
from walproof.facts.watch import NoAnswer, OtherPrimary, StreamPhase, StreamState, WatchLook
from walproof.observe.leaving import Observer, join_all, stop_all
from walproof.observe.pair_watcher import PairWatcher
from walproof.observe.watcher import Watcher
from walproof.report.watch.view import ServerView
from walproof.settings.session import PATIENCE_S

_PAIR_WINDOW_S = 2.0
_LEAVING_S = 3.0
"""Threads are waited for so long in all, whatever the number of servers: longer than a window of a pair."""


class WatchedServer:
    """Context manager: one server."""

    def __init__(self, name: str, server: ServerOrder, order: WatchOrder) -> None:
        self.name = name
        self.conninfo = server.conninfo
        self._server = server
        self._watcher = Watcher(server.conninfo, order.every_s)
        self._clock = Clock(server, order.max_retained_bytes) if server.streams else None
        self._assessor = Assessor(name, Limits(server.wal_disk_bytes), order.every_s)
        self._limits = replace(order.thresholds, recovery_s=server.recovery_s)
        self._concerns = Concerns(self._limits)
        self.look: WatchLook | None = None
        """The newest, while it answers."""
        self._is_away = False
        self.pairs: dict[str, PairWatcher] = {}
        """Its standbys that are also watched, by their names on the command line."""
        self.walsenders: dict[int, str] = {}
        """pid of a walsender -> the watched standby that it serves."""
        self.promoted: dict[int, str | None] = {}
        """As `with_promoted` takes them."""

    def __enter__(self) -> WatchedServer:
        self._watcher.__enter__()
        if self._clock is not None:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join(_LEAVING_S)

    def stop(self) -> None:
        """End soon all that looks at it; nobody waits for that."""
        stop_all(self._observers)

    def join(self, patience_s: float) -> None:
        """Wait for the end of all threads, together no longer than that."""
        join_all(self._observers, patience_s)

    @property
    def _observers(self) -> tuple[Observer, ...]:
        clocks = () if self._clock is None else (self._clock,)
        return (self._watcher, *clocks, *self.pairs.values())

    def take(self, patience_s: float = 0.0) -> None:
        """Take note of what was seen since; waits that long for the first sighting."""
        seen = self._watcher.take(patience_s)
        self._assessor.see(seen)
        if seen:
            self.look = None if isinstance(seen[-1], NoAnswer) else seen[-1]
            if self._is_away and self.look is not None and self._clock is not None:
                self._clock.hurry()
            self._is_away = self.look is None

    def watch_standby(
        self, standby: WatchedServer, window_s: float = _PAIR_WINDOW_S, application_name: str | None = None
    ) -> PairWatcher:
        """Watch the pair with a standby of this server, until `forget_standby`."""
        pair = PairWatcher(self.conninfo, standby.conninfo, window_s, application_name)
        self.pairs[standby.name] = pair.__enter__()
        return pair

    def forget_standby(self, standby: WatchedServer) -> None:
        """Stop watching the pair: the standby follows another server now."""
        self.pairs.pop(standby.name).stop()

    @property
    def is_settled(self) -> bool:
        """Whether all that will be known soon is known."""
        if self.look is None:
            return True
        has_pairs = all(pair.window is not None or pair.error is not None for pair in self.pairs.values())
        return has_pairs and (self._clock is None or self._clock.is_settled)

    def view(self, primaries: tuple[OtherPrimary, ...] = ()) -> ServerView:
        """The view of all that is known now; ``primaries``: as of an assessment."""
        seen = self._assessor.assess(time.monotonic(), time.time(), self._watcher.answered_s)
        seen = replace(
            seen,
            standbys=named(seen.standbys, self.walsenders),
            missing=with_promoted(seen.missing, self.promoted),
            primaries=primaries,
        )
        told = (
            StreamMoment(StreamState(StreamPhase.OFF)) if self._clock is None else self._clock.now(self.look)
        )
        found: dict[str, ReplicationWindow] = {}
        for name, pair in self.pairs.items():
            if (window := pair.fresh_window(time.monotonic())) is not None:
                found[name] = window
        pairs = {name: diagnose(window) for name, window in found.items()}
        windows = tuple(found.values())
        concerns = self._concerns.of(seen, told.clock, told.causes, pairs, time.time(), windows)
        # Causes are known from the second view of a stream that is up to date on.
        is_new = told.state.phase is StreamPhase.LIVE and told.causes is None
        hints = is_new or is_suspected(seen, told.causes, self._limits, pairs, windows)
        return ServerView(
            seen, concerns, told.state, told.clock, told.causes, pairs, self._server.recovery_s, told.notes,
            windows, self._server.wal_disk_bytes, sizes=told.sizes, is_suspected=hints,
            promoted=dict(self.promoted),
        )  # fmt: skip


class Fleet:
    """Context manager: all servers. Standbys of watched servers are watched as pairs with these."""

    def __init__(self, order: WatchOrder) -> None:
        names = unique_names([server.name or server_name(server.conninfo) for server in order.servers])
        self.servers = [
            WatchedServer(name, server, order) for name, server in zip(names, order.servers, strict=True)
        ]
        self._order = order
        self._pair: PairWatcher | None = None
        self._upstreams: dict[int, int] = {}
        """Standby -> the server that it is watched with."""
        self._served: dict[int, tuple[int, int]] = {}
        """Standby -> the server that served it last, and the pid of that walsender."""

    def __enter__(self) -> Fleet:
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            if (pair := self._order.pair) is not None:
                primary, standby = self.servers
                self._pair = primary.watch_standby(standby, self._order.every_s, pair.application_name)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        # All end at once: of servers that hang, each has threads that nobody can end.
        stop_all(self.servers)
        join_all(self.servers, _LEAVING_S)

    def views(self, patience_s: float = 0.0) -> list[ServerView]:
        """What is known about each server now; waits for first sightings until ``patience_s`` have passed."""
        until_s = time.monotonic() + patience_s
        for server in self.servers:
            server.take(max(0.0, until_s - time.monotonic()))
        if self._pair is None:
            self._find_pairs()
        others = other_primaries(
            [server.look for server in self.servers], [server.name for server in self.servers]
        )
        return [
            replace(server.view(others[place]), follows=self._followed(place))
            for place, server in enumerate(self.servers)
        ]

    def _followed(self, place: int) -> str | None:
        upstream = self._upstreams.get(place)
        return None if upstream is None else self.servers[upstream].name

    @property
    def is_settled(self) -> bool:
        """The views of all servers."""
        return all(server.is_settled for server in self.servers)

    def pause(self, seconds: float) -> None:
        """Wait until the next look is due, or until the next window ends if one pair was asked for."""
        if self._pair is None or self._pair.error is not None:
            time.sleep(seconds)
        else:
            self._pair.wait(self._pair.window, self._order.every_s + _PAIR_WINDOW_S)

    def wait_for_pair(self) -> None:
        """Wait for the first window of the pair that was asked for, as long as servers may take to answer. A
        single look has no other."""
        if self._pair is not None:
            self._pair.wait(None, self._order.every_s + PATIENCE_S)

    @property
    def pair_error(self) -> ProbeError | None:
        """Why the pair that was asked for cannot be watched now."""
        return None if self._pair is None else self._pair.error

    def check_pair(self) -> None:
        """Raise ProbeError if one pair was asked for and cannot be watched now, or has given no window yet:
        that nothing was seen does not say that all is well."""
        if self.pair_error is not None:
            raise self.pair_error
        if self._pair is not None and self._pair.window is None:
            raise ProbeError(
                "the pair has given no window yet",
                detail="The first looks at both servers have not come to an end.",
                hint="See how long the two servers take to answer; a longer --for waits for them.",
            )

    def _find_pairs(self) -> None:
        """Watch each standby with the server that it follows; it stays so while it follows none."""
        looks = [server.look for server in self.servers]
        kept = still_served(
            looks, [server.name for server in self.servers], [server.walsenders for server in self.servers]
        )
        for server, walsenders in zip(self.servers, kept, strict=True):
            server.walsenders = walsenders
        served = {(place, pid) for place, walsenders in enumerate(kept) for pid in walsenders}
        for place, followed in enumerate(upstreams(looks, served)):
            if followed is not None and followed.pid is not None:
                self.servers[followed.place].walsenders[followed.pid] = self.servers[place].name
                self._served[place] = followed.place, followed.pid
            standby, before = self.servers[place], self._upstreams.get(place)
            is_promoted = standby.look is not None and not standby.look.is_in_recovery
            if is_promoted and place in self._served:
                self._note_promotion(standby, *self._served[place])
            is_other = followed is not None and followed.place != before
            is_surer = followed is not None and (followed.is_seen or before is None)
            if before is not None and (is_promoted or (is_other and is_surer)):
                self.servers[before].forget_standby(standby)
                del self._upstreams[place]
            if followed is not None and is_other and is_surer:
                self._upstreams[place] = followed.place
                self.servers[followed.place].watch_standby(standby)

    def _note_promotion(self, standby: WatchedServer, upstream: int, pid: int) -> None:
        """See `with_promoted`. Timelines are those of checkpoints, so they change some time after."""
        ours, theirs = standby.look, self.servers[upstream].look
        if ours is None or theirs is None or ours.system_identifier != theirs.system_identifier:
            return
        old, new = theirs.checkpoint, ours.checkpoint
        is_ahead = old is not None and new is not None and new.timeline > old.timeline
        self.servers[upstream].promoted[pid] = standby.name if is_ahead else None
