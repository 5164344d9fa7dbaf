"""``--replay``: a history shown as if it happened now. No server is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from walproof.advise.watch.concern import Thresholds
from walproof.errors import SettingError
from walproof.facts.watch_history import WatchHistory
from walproof.report.watch.replayed import ReplayedServer
from walproof.report.watch.view import ServerView

PAUSE_S_MOST = 5.0
"""The longest wait in a gap in which nobody watched."""
_BEFORE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Frame:
    """What was shown at one moment."""

    at: float
    """Seconds since the epoch at that moment."""
    views: list[ServerView]


def frames(
    history: WatchHistory,
    thresholds: Callable[[str], Thresholds],
    names: Sequence[str] = (),
    since: float | None = None,
) -> Iterator[Frame]:
    """What was seen of the servers (all by default), oldest first. ``thresholds`` are those of the server
    with that name; a recovery target in them replaces the recorded one.

    Records of a day before ``since`` are read and not shown: what is late, or gone, may have begun there.

    Raises SettingError if the history has no server of a name.
    """
    known = [server.name for server in history.servers()]
    for name in names:
        if name not in known:
            raise SettingError(
                f'the history has no server "{name}"', detail="It has " + ", ".join(known) + "."
            )
    servers: dict[str, ReplayedServer] = {}
    views: dict[str, ServerView] = {}
    begin = None if since is None else since - _BEFORE_S
    for at, together in groupby(history.records(begin), key=lambda named: named[1].at):
        for name, record in together:
            if names and name not in names:
                continue
            replayed = servers.get(name)
            if replayed is None or replayed.session != record.session:
                replayed = servers[name] = ReplayedServer(name, record, thresholds(name))
            if since is None or at >= since:
                views[name] = replayed.view(record)
            else:
                replayed.see(record)
        if views:
            yield Frame(at, [views[name] for name in known if name in views])


def parse_speed(text: str) -> float:
    """``60x`` -> 60. Raises SettingError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text)
    if match is None or float(match[1]) <= 0:
        raise SettingError(f'--speed is "{text}", expected how many times as fast: 60x')
    return float(match[1])
