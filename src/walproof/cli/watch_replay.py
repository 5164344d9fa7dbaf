"""``--replay``: a history shown as if it happened now. No server is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concern import Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessor, Limits
from walproof.errors import SettingError
from walproof.facts.watch import WatchRecord
from walproof.facts.watch_history import WatchHistory
from walproof.report.watch.view import ServerView

_NEVER_S = 1e12
"""What is stale was noted when it was."""
PAUSE_S_MOST = 5.0
"""Of a gap, in which nobody watched, so much is waited at most."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What was shown at one moment."""

    at: float
    """Seconds of the epoch, then."""
    views: list[ServerView]


class _Server:
    """Follows the records of one server in one session."""

    def __init__(self, name: str, first: WatchRecord, thresholds: Thresholds) -> None:
        self.session = first.session
        self._assessor = Assessor(name, Limits(first.room_bytes), _NEVER_S)
        self._target_s = first.target_s if thresholds.recovery_s is None else thresholds.recovery_s
        self._concerns = Concerns(replace(thresholds, recovery_s=self._target_s))

    def view(self, record: WatchRecord) -> ServerView:
        self._assessor.see([record.seen])
        seen = self._assessor.assess(record.seen.seen_s, record.at)
        names = zip(record.pair_names, record.windows, strict=True)
        pairs = {name: diagnose(window) for name, window in names}
        concerns = self._concerns.of(seen, record.clock, record.causes, pairs, record.at, record.windows)
        return ServerView(
            seen, concerns, record.stream, record.clock, record.causes, pairs, self._target_s, record.notes,
            record.windows, record.room_bytes,
        )  # fmt: skip


def frames(
    history: WatchHistory, thresholds: Thresholds, names: Sequence[str] = (), since: float | None = None
) -> Iterator[Frame]:
    """What was seen of the servers (all by default), oldest first. Raises StoreError: none has that name.

    A target of ``thresholds`` holds in place of the one that was recorded.
    """
    known = [server.name for server in history.servers()]
    for name in names:
        if name not in known:
            raise SettingError(
                f'the history has no server "{name}"', detail="It has " + ", ".join(known) + "."
            )
    servers: dict[str, _Server] = {}
    views: dict[str, ServerView] = {}
    for at, together in groupby(history.records(since), key=lambda one: one[1].at):
        for name, record in together:
            if names and name not in names:
                continue
            own = servers.get(name)
            if own is None or own.session != record.session:
                own = servers[name] = _Server(name, record, thresholds)
            views[name] = own.view(record)
        if views:
            yield Frame(at, [views[name] for name in known if name in views])


def parse_speed(text: str) -> float:
    """``60x`` -> 60. Raises SettingError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text)
    if match is None or float(match[1]) <= 0:
        raise SettingError(f'--speed is "{text}", expected how many times as fast: 60x')
    return float(match[1])


def parse_moment(text: str) -> float:
    """``2026-11-24 03:00`` of the local clock, or with its offset -> Unix time. Raises SettingError."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise SettingError(
            f'--from is "{text}", expected a time', hint='--from "2026-11-24 03:00", by the local clock.'
        ) from error
