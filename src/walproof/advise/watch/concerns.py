"""All rules about a watched server, and since when each of them has had something to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import SETTLED_S, Concern, Severity, Thresholds
from walproof.advise.watch.crash import recovery
from walproof.advise.watch.logical import consumers, subscriptions
from walproof.advise.watch.primaries import primaries
from walproof.advise.watch.standbys import arrival, missing, pair, replay, standbys
from walproof.advise.watch.storm import storms
from walproof.advise.watch.transactions import hanging_commits, prepared_transactions
from walproof.advise.watch.wal import SETTLED_ARCHIVE_S, archive, room, slots
from walproof.analysis.watch.assessment import Assessment
from walproof.facts.replication import ReplicationWindow
from walproof.facts.transactions import CONFIRMING, PREPARED
from walproof.facts.wal_causes import WalCauses
from walproof.facts.watch import CrashClock
from walproof.settings.refusal import is_turned_away
from walproof.units import format_duration

_Group = tuple[str, bool, Iterable[Concern]]
"""Name, whether what is not among its concerns is over, and the concerns."""
_SETTLED_S = max(SETTLED_S, SETTLED_ARCHIVE_S)
"""A window of rates that begins anew finds some concerns only after so long."""


class Concerns:
    """Follows the concerns of one server. A concern that goes and comes back begins again; one that could not
    be looked for meanwhile, because the server or its stream was away, goes on."""

    def __init__(self, limits: Thresholds) -> None:
        self._limits = limits
        self._since: dict[str, tuple[str, float]] = {}
        """Key -> (group, beginning)."""

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
        found: list[Concern] = []
        since: dict[str, tuple[str, float]] = {}
        judged: set[str] = set()
        for group, is_whole, concerns in self._found(seen, clock, causes, pairs, windows, at):
            for concern in concerns:
                # The server's own records begin anew with the server, too.
                known = [time for time in (concern.since, self._began(concern.key)) if time is not None]
                since[concern.key] = group, min(known, default=at)
                found.append(replace(concern, since=since[concern.key][1]))
            if is_whole:
                judged.add(group)
        unseen = {key: kept for key, kept in self._since.items() if kept[0] not in judged}
        self._since = unseen | since
        return tuple(sorted(found, key=lambda concern: (-concern.severity, concern.key)))

    def _began(self, key: str) -> float | None:
        return self._since[key][1] if key in self._since else None

    def _found(
        self,
        seen: Assessment,
        clock: CrashClock | None,
        causes: WalCauses | None,
        pairs: Mapping[str, Diagnosis],
        windows: Sequence[ReplicationWindow],
        at: float,
    ) -> Iterator[_Group]:
        yield "server", True, _absence(seen)
        if seen.no_answer is not None:
            return
        limits, is_settled = self._limits, seen.seen_s >= _SETTLED_S
        yield "primaries", True, primaries(seen)
        yield "room", is_settled, room(seen, limits)
        yield "slots", _is_read(seen, "slots"), slots(seen, limits)
        yield "archive", is_settled and _is_read(seen, "the archiver"), archive(seen, limits)
        yield "consumers", is_settled and _is_read(seen, "slots", "standbys"), consumers(seen, limits)
        is_read = _is_read(seen, "subscriptions")
        yield "subscriptions", is_settled and is_read, subscriptions(seen, limits)
        yield "commits", _is_read(seen, *CONFIRMING), hanging_commits(seen)
        yield "prepared", _is_read(seen, PREPARED), prepared_transactions(seen)
        late = (concern for name, found in pairs.items() for concern in pair(name, found, limits))
        is_read = _is_read(seen, "standbys")
        yield "standbys", is_settled and is_read, chain(standbys(seen, limits, windows, pairs), late)
        yield "missing", _is_read(seen, "standbys"), missing(seen, limits)
        yield "replay", _is_read(seen, "the replay"), replay(seen)
        yield "arrival", _is_read(seen, "the arrival of WAL"), arrival(seen)
        yield "crash", clock is not None, () if clock is None else recovery(clock, limits)
        raging = () if causes is None else storms(causes, at)
        # When a storm began can be seen only at first: later that is longer ago than the window.
        yield (
            "storms",
            causes is not None and causes.recent_s >= SETTLED_S,
            (replace(storm, since=self._began(storm.key) or storm.since) for storm in raging),
        )


def _absence(seen: Assessment) -> Iterator[Concern]:
    gone = seen.no_answer
    if seen.slow_s is not None:
        yield _slowness(seen.slow_s)
    if gone is None:
        return
    advice = (gone.hint,) if gone.hint else ()
    severity, sentence = Severity.CRITICAL, "The server does not answer."
    if is_turned_away(gone.reason):
        severity, sentence = Severity.WARNING, "The server does not let this session in."
    yield Concern("server", severity, sentence, (gone.reason,), advice, gone.since)


def _slowness(slow_s: float) -> Concern:
    return Concern(
        "answers",
        Severity.WARNING,
        "The server answers slowly.",
        (f"the look that is under way has taken {format_duration(slow_s)}; figures are from the one before",),
        ("See its load and its disk. Listing pg_wal or archive_status takes long with very many files.",),
    )


def _is_read(seen: Assessment, *abouts: str) -> bool:
    return seen.look is not None and all(seen.look.lacks_of(about) is None for about in abouts)
