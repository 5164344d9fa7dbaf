"""Rules about standbys: those of `advise.replica`, asked of what the upstream shows.

The upstream shows where WAL is late, but not what replay waits for, which takes a session on the standby. So
a cause that lies on the standby is named if the standby is watched, too (`pair`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from walproof.advise.pause_words import AT_ITS_TARGET, SMALLER_SETTINGS
from walproof.advise.replica.cause import Cause, NamedCause
from walproof.advise.replica.diagnosis import Diagnosis, diagnose
from walproof.advise.replica.intended import unintended
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.analysis.replication import LagSplit
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.missing import MissingStandby
from walproof.analysis.watch.standbys import unpaired
from walproof.facts.replication import ReplicationWindow
from walproof.units import Lsn, format_bytes, format_duration

_STATES = (Cause.MISSING_SEGMENT, Cause.WALRECEIVER_ABSENT, Cause.REPLAY_PAUSED)
"""Causes that are named before the lag is long: by itself nothing will arrive or be replayed."""


def standbys(
    seen: Assessment,
    limits: Thresholds,
    windows: Sequence[ReplicationWindow] = (),
    paired: Collection[str] = (),
) -> Iterator[Concern]:
    """Standbys whose lag is longer than a late message explains; those of ``windows``, with the names
    ``paired``, have their own rule."""
    for state in unpaired(seen.standbys, windows, paired):
        if state.split.lag_s < limits.unpaired_lag_s:
            continue
        found = diagnose(state.window)
        # What the startup process waits for is seen only on the standby, so there is no advice to look
        # longer.
        causes = [cause for cause in found.causes if cause.cause not in (Cause.REPLAY, Cause.UNEXPLAINED)]
        key = f"standby {state.name}"
        if causes and causes[0].cause is not Cause.NETWORK:
            yield _concern(key, causes[0], state.split, limits)
            continue
        said = "replays late; only the standby itself shows why."
        if causes:
            # While its disk is slow, a walreceiver reads no more: the network looks as narrow.
            said = (
                "receives late: the network, its walsender or its own disk is slow. Only the standby itself "
                "shows which."
            )
        yield Concern(
            key,
            _severity(state.split, limits),
            f'Standby "{state.name}" {said}',
            (_behind(state.split), *(causes[0].evidence if causes else ())),
            ("Name the standby on the command line, too.",),
        )


def missing(seen: Assessment, limits: Thresholds) -> Iterator[Concern]:
    """Standbys that streamed while they were watched, and whose walsender is gone."""
    for standby in seen.missing:
        if standby.missing_s < limits.lag_warning_s:
            continue
        if standby.promoted is not None:
            yield _promoted(standby)
            continue
        is_long = standby.missing_s >= limits.lag_critical_s
        yield Concern(
            f"missing {standby.name}",
            Severity.CRITICAL if is_long else Severity.WARNING,
            f'Standby "{standby.name}" is gone: it streamed, and no walsender serves it any more.',
            (f"last seen {format_duration(standby.missing_s)} ago",),
            (
                "See whether it runs, and read its log for the walreceiver's FATAL line.",
                "If it was removed, start walproof again: it is named for a day.",
            ),
            standby.since,
        )


def _promoted(standby: MissingStandby) -> Concern:
    return Concern(
        f"missing {standby.name}",
        Severity.WARNING,
        f'Standby "{standby.name}", watched as {standby.promoted}, was promoted: it takes writes itself, and '
        "nothing from this server any more.",
        (f"last seen {format_duration(standby.missing_s)} ago",),
        (
            "If clients still write to this server, the promoted one lacks what they write: see that they "
            "write to one of the two alone.",
            "If both are to go on, start walproof again: it is named for a day.",
        ),
        standby.since,
    )


def replay(seen: Assessment) -> Iterator[Concern]:
    """A standby whose own replay is paused, as it says itself."""
    look = seen.look
    if look is None or not look.is_paused or look.replayed is None or look.lsn is None:
        return
    waiting = max(0, look.lsn - look.replayed)
    yield Concern(
        "replay paused",
        Severity.WARNING,
        f"Replay is paused: {format_bytes(waiting)} of WAL wait in pg_wal, and queries see what was before.",
        (f"received up to {Lsn(look.lsn)}, replayed up to {Lsn(look.replayed)}",),
        (AT_ITS_TARGET,)
        if look.has_recovery_target
        else (
            "Once nobody needs the pause any more: SELECT pg_wal_replay_resume().",
            *((SMALLER_SETTINGS,) if look.version_num >= 140000 else ()),
        ),
    )


def arrival(seen: Assessment) -> Iterator[Concern]:
    """A standby to which no WAL comes, as it shows itself."""
    look, cut = seen.look, seen.cut_off
    if look is None or look.arrival is None or look.replayed is None or cut is None:
        return
    archive = " and nothing comes from the archive" if look.arrival.restores else ""
    yield Concern(
        "walreceiver",
        Severity.WARNING,
        f"This standby gets no WAL: primary_conninfo is set, no walreceiver streams{archive}.",
        (
            f"all that it has is replayed, up to {Lsn(look.replayed)}, so by itself its lag looks like 0",
            f"the startup process waits for more ({cut.wait})",
        ),
        ("Read its log for the walreceiver's FATAL line (connection, authentication, timeline).",),
        cut.since,
    )


def pair(name: str, found: Diagnosis, limits: Thresholds) -> Iterator[Concern]:
    """A pair of which both servers are watched."""
    cause, split = unintended(found)
    if cause is None or (split.lag_s < limits.lag_warning_s and cause.cause not in _STATES):
        return
    concern = _concern(f"standby {name}", cause, split, limits)
    if split is not found.split:
        behind = (_behind(found.split), f"{format_duration(split.lag_s)} of that are not intended")
        concern = replace(concern, evidence=(*behind, *cause.evidence))
    yield concern


def _concern(key: str, cause: NamedCause, split: LagSplit, limits: Thresholds) -> Concern:
    sentence = f"{cause.cause.value}: {cause.sentence}"
    return Concern(key, _severity(split, limits), sentence, (_behind(split), *cause.evidence), cause.advice)


def _severity(split: LagSplit, limits: Thresholds) -> Severity:
    return Severity.CRITICAL if split.lag_s >= limits.lag_critical_s else Severity.WARNING


def _behind(split: LagSplit) -> str:
    least = "at least " if split.is_least else ""
    return f"{format_bytes(split.lag_bytes)} and {least}{format_duration(split.lag_s)} behind"
