"""What is known about each watched server, in memory: each look of the last minutes, minutes of a day."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.facts.wal_causes import RmgrWal, WalCauses
from walproof.report.watch.view import ServerView
from walproof.web.live.moment import Moment, Rates, merged, moment_of, rates_between, sharing

LOOKS_MOST = 600
MINUTES_MOST = 24 * 60
_MINUTE_S = 60.0


class ServerMoments:
    """Moments of one server, oldest first."""

    def __init__(self) -> None:
        self._looks: deque[Moment] = deque(maxlen=LOOKS_MOST)
        self._minutes: deque[Moment] = deque(maxlen=MINUTES_MOST)
        self._minute: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """Keep a moment."""
        if self._looks:
            moment = sharing(moment, self._looks[-1])
        if self._minute and moment.at // _MINUTE_S != self._minute[0].at // _MINUTE_S:
            self._minutes.append(merged(self._minute))
            self._minute = []
        self._minute.append(moment)
        self._looks.append(moment)

    def span(self, since: float, until: float, most: int) -> list[Moment]:
        """Moments between two times: about ``most`` at most; if there are more, neighbours are merged."""
        looks = list(self._looks)
        first = looks[0].at if looks else until
        found = [moment for moment in self._minutes if since <= moment.at <= until and moment.at < first]
        found += [moment for moment in looks if since <= moment.at <= until]
        if len(found) <= most:
            return found
        width = (until - since) / most
        parts: dict[int, list[Moment]] = {}
        for moment in found:
            parts.setdefault(int((moment.at - since) / width), []).append(moment)
        return [merged(part) for part in parts.values()]

    def at(self, when: float) -> Moment | None:
        """The newest look not later than ``when``; of older times its minute, or the newest one before.

        None if it is no longer kept.
        """
        looks = [moment for moment in self._looks if moment.at <= when]
        if looks:
            return looks[-1]
        # A minute has the time of its last look, which may be later than what is asked for.
        minutes = [kept for kept in self._minutes if kept.at // _MINUTE_S <= when // _MINUTE_S]
        return minutes[-1] if minutes else None

    @property
    def began(self) -> float | None:
        """Time of the oldest moment that is kept."""
        return min((kept[0].at for kept in (self._minutes, self._looks) if kept), default=None)


@dataclass(frozen=True, slots=True)
class Now:
    """A server as last reported."""

    name: str
    moment: Moment
    view: ServerView


class Board:
    """All watched servers. The thread that watches calls ``tell``; the page's threads call the rest."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.version = 0
        """Number of calls of ``tell``."""
        self.is_over = False
        """Whether the event streams of the page are to end."""
        self._now: dict[str, Now] = {}
        self._histories: dict[str, ServerMoments] = {}
        self._totals: dict[str, tuple[float, Mapping[str, RmgrWal]]] = {}
        self._lock = threading.Lock()

    def tell(self, views: Sequence[ServerView], at: float) -> None:
        """Record a look at each server; ``at``: the observer's Unix time."""
        with self._lock:
            for view in views:
                moment = moment_of(view, at, self.every_s, self._rates(view.name, view.causes, at))
                self._now[view.name] = Now(view.name, moment, view)
                self._histories.setdefault(view.name, ServerMoments()).add(moment)
            self.version += 1

    def servers(self) -> list[Now]:
        """All servers as last reported, in the order of the command line."""
        with self._lock:
            return list(self._now.values())

    def server(self, name: str) -> Now | None:
        """The server called ``name``."""
        with self._lock:
            return self._now.get(name)

    def span(self, name: str, since: float, until: float, most: int) -> list[Moment]:
        """As `ServerMoments.span`."""
        with self._lock:
            return self._histories[name].span(since, until, most)

    def at(self, name: str, when: float) -> Moment | None:
        """As `ServerMoments.at`."""
        with self._lock:
            found = self._histories.get(name)
            return None if found is None else found.at(when)

    def began(self, name: str) -> float | None:
        """Time at which the kept moments of a server begin."""
        with self._lock:
            return self._histories[name].began

    def _rates(self, name: str, causes: WalCauses | None, at: float) -> Rates:
        """Bytes a second since the previous look: page images together, records by resource manager."""
        if causes is None:
            self._totals.pop(name, None)
            return ()
        then_at, then = self._totals.get(name, (at, {}))
        self._totals[name] = (at, causes.totals)
        return rates_between(then, causes.totals, at - then_at)
