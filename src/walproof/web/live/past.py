"""A stored history of watched servers as moments for the plots, for any stretch that the file holds.

For a long stretch, the worst record of each part is drawn (`WatchHistory.looks`), so that no peak is lost;
rates are means from one drawn record to the next, from the counters of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.facts.wal_causes import RmgrWal
from walproof.facts.watch import WatchRecord
from walproof.facts.watch_history import HistoryServer, open_history
from walproof.facts.watch_recorder import TIERS
from walproof.report.watch.replayed import ReplayedServer
from walproof.web.live.moment import Moment, Rates, moment_of, rates_between

_POINTS = 300


class Past:
    """The history in a file that may still be written to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def servers(self) -> tuple[HistoryServer, ...]:
        """All servers of the history. Raises StoreError."""
        with open_history(self.path) as history:
            return history.servers()

    def span(self, server: HistoryServer, since: float, until: float) -> list[Moment]:
        """Moments of the server between two times, oldest first. Raises StoreError."""
        with open_history(self.path) as history:
            records = history.looks(server.name, since, until, at_most=_POINTS)
            every_s = history.every_s()
        part_s = (until - since) / _POINTS
        moments = []
        before: WatchRecord | None = None
        replayed: ReplayedServer | None = None
        for record in records:
            kept_s = max(
                (length for age, length in TIERS if server.last_at - record.at > age), default=every_s
            )
            if replayed is None or replayed.session != record.session:
                # One for all records of a run: the age of what a standby has is read from the looks before.
                replayed = ReplayedServer(server.name, record, Thresholds())
            moments.append(_moment(replayed, record, before, max(every_s, kept_s, part_s)))
            before = record
        return moments


def _moment(
    replayed: ReplayedServer, record: WatchRecord, before: WatchRecord | None, covers_s: float
) -> Moment:
    made = moment_of(replayed.view(record), record.at, covers_s, _causes(record, before))
    said = tuple(
        Concern(concern.key, Severity(concern.severity), concern.sentence, (), since=concern.since)
        for concern in record.concerns
    )
    about = made.about if made.answers else ""  # a single record says nothing about the time before
    return replace(
        made, about=about, concerns=said, severity=2 if not made.answers else record.severity,
        wal_bytes_per_s=_rate(record, before),
    )  # fmt: skip


def _causes(record: WatchRecord, before: WatchRecord | None) -> Rates:
    if record.causes is None or before is None or before.causes is None or before.session != record.session:
        return ()
    then: Mapping[str, RmgrWal] = before.causes.totals
    return rates_between(then, record.causes.totals, record.at - before.at)


def _rate(record: WatchRecord, before: WatchRecord | None) -> float | None:
    """Mean WAL bytes a second since the previous record, from the positions of both."""
    look, then = record.look, None if before is None else before.look
    if look is None or then is None or before is None or look.lsn is None or then.lsn is None:
        return None
    seconds, grown = record.at - before.at, look.lsn - then.lsn
    if seconds <= 0 or grown < 0 or look.system_identifier != then.system_identifier:
        return None
    return grown / seconds
