"""Records of a history through the same assessment and rules as live looks."""

from __future__ import annotations

from dataclasses import replace

from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concern import Concern, Severity, Thresholds
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
        self._is_as_then = thresholds == Thresholds()

    def see(self, record: WatchRecord) -> None:
        """Take note of a record that is not shown, which is not older than the records before it."""
        self._assessor.see([record.seen])

    def view(self, record: WatchRecord) -> ServerView:
        """The view of a record, which is not older than the records before it."""
        self.see(record)
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
            seen, self._with_said(concerns, record), record.stream, record.clock, record.causes, pairs,
            self._target_s, record.notes, record.windows, record.room_bytes,
        )  # fmt: skip

    def _with_said(self, found: tuple[Concern, ...], record: WatchRecord) -> tuple[Concern, ...]:
        """The concerns, with their beginnings as of then. What was said and the records do not show, as of a
        look that was kept alone, is among them unless other thresholds are named."""
        said = {concern.key: concern for concern in record.concerns}
        concerns = [
            replace(concern, since=_earlier(concern.since, said[concern.key].since))
            if concern.key in said
            else concern
            for concern in found
        ]
        if self._is_as_then:
            known = {concern.key for concern in found}
            concerns += [
                Concern(concern.key, Severity(concern.severity), concern.sentence, (), since=concern.since)
                for concern in record.concerns
                if concern.key not in known
            ]
        return tuple(sorted(concerns, key=lambda concern: (-concern.severity, concern.key)))


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((since for since in (one, other) if since is not None), default=None)
