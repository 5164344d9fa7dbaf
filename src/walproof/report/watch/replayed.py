"""Records of a history through the same assessment and rules as live looks."""

from __future__ import annotations

from dataclasses import replace

from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concern import Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessor, Limits
from walproof.analysis.watch.missing import with_promoted
from walproof.analysis.watch.standbys import named
from walproof.facts.watch import WatchRecord
from walproof.report.watch.view import ServerView

_NEVER_S = 1e12
"""Nothing is marked stale here: the record notes it."""


class ReplayedServer:
    """Follows the records of one server in one session."""

    def __init__(self, name: str, first: WatchRecord, thresholds: Thresholds) -> None:
        self.session = first.session
        self._assessor = Assessor(name, Limits(first.room_bytes), _NEVER_S)
        self._target_s = first.target_s if thresholds.recovery_s is None else thresholds.recovery_s
        self._concerns = Concerns(replace(thresholds, recovery_s=self._target_s))

    def view(self, record: WatchRecord) -> ServerView:
        """The view of a record, which is not older than the records before it."""
        self._assessor.see([record.seen])
        seen = self._assessor.assess(record.seen.seen_s, record.at)
        seen = replace(
            seen,
            standbys=named(seen.standbys, record.walsenders),
            missing=with_promoted(seen.missing, record.promoted),
            primaries=record.primaries,
        )
        names = zip(record.pair_names, record.windows, strict=True)
        pairs = {name: diagnose(window) for name, window in names}
        concerns = self._concerns.of(seen, record.clock, record.causes, pairs, record.at, record.windows)
        return ServerView(
            seen, concerns, record.stream, record.clock, record.causes, pairs, self._target_s, record.notes,
            record.windows, record.room_bytes,
        )  # fmt: skip
