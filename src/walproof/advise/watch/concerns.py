"""All rules about a watched server, and since when each of them has had something to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.advise.watch.crash import recovery
from walproof.advise.watch.logical import consumers, subscriptions
from walproof.advise.watch.standbys import pair, replay, standbys
from walproof.advise.watch.storm import storms
from walproof.advise.watch.transactions import hanging_commits
from walproof.advise.watch.wal import archive, room, slots
from walproof.analysis.watch.assessment import Assessment
from walproof.facts.replication import ReplicationWindow
from walproof.facts.watch import CrashClock, WalCauses
from walproof.settings.refusal import is_turned_away


class Concerns:
    """Follows the concerns of one server. A concern that goes and comes back begins again."""

    def __init__(self, limits: Thresholds) -> None:
        self._limits = limits
        self._since: dict[str, float] = {}

    def of(
        self,
        seen: Assessment,
        clock: CrashClock | None,
        causes: WalCauses | None,
        pairs: Mapping[str, Diagnosis],
        now: float,
        windows: Sequence[ReplicationWindow] = (),
    ) -> tuple[Concern, ...]:
        """The concerns, the worst first. ``pairs``: standby -> what sessions on both servers say of
        ``windows``; ``now``: Unix time."""
        at = now if seen.look is None else seen.look.at
        found = list(self._found(seen, clock, causes, pairs, windows, at))
        self._since = {concern.key: self._since.get(concern.key, concern.since or at) for concern in found}
        known = [
            concern if concern.since is not None else replace(concern, since=self._since[concern.key])
            for concern in found
        ]
        return tuple(sorted(known, key=lambda concern: (-concern.severity, concern.key)))

    def _found(
        self,
        seen: Assessment,
        clock: CrashClock | None,
        causes: WalCauses | None,
        pairs: Mapping[str, Diagnosis],
        windows: Sequence[ReplicationWindow],
        at: float,
    ) -> Iterator[Concern]:
        if seen.no_answer is not None:
            gone = seen.no_answer
            advice = (gone.hint,) if gone.hint else ()
            severity, sentence = Severity.CRITICAL, "The server does not answer."
            if is_turned_away(gone.reason):
                severity, sentence = Severity.WARNING, "The server does not let this session in."
            yield Concern("server", severity, sentence, (gone.reason,), advice, gone.since)
            return
        yield from room(seen, self._limits)
        yield from slots(seen, self._limits)
        yield from archive(seen, self._limits)
        yield from consumers(seen, self._limits)
        yield from subscriptions(seen, self._limits)
        yield from hanging_commits(seen)
        yield from standbys(seen, self._limits, windows)
        yield from replay(seen)
        for name, diagnosis in pairs.items():
            yield from pair(name, diagnosis, self._limits)
        if clock is not None:
            yield from recovery(clock, self._limits)
        if causes is not None:
            for storm in storms(causes, at):
                # When it began can be seen only at first: later that is longer ago than the window.
                yield replace(storm, since=self._since.get(storm.key, storm.since))
