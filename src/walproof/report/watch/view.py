"""One watched server, with all that is said about it: the source of the page and every other form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from walproof.advise.replica.cause import NamedCause
from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.replica.intended import unintended
from walproof.advise.watch.concern import Concern, Severity
from walproof.analysis.replication import KEEPING_UP_S, LagSplit
from walproof.analysis.watch.assessment import Assessment
from walproof.analysis.watch.standbys import STALE_S, unpaired
from walproof.facts.replication import ReplicationWindow
from walproof.facts.wal_causes import WalCauses
from walproof.facts.watch import CrashClock, StreamPhase, StreamState
from walproof.facts.watch_sizes import SizeCurve


@dataclass(frozen=True, slots=True)
class ServerView:
    """One server at a moment."""

    seen: Assessment
    concerns: tuple[Concern, ...]
    stream: StreamState = field(default_factory=lambda: StreamState(StreamPhase.OFF))
    clock: CrashClock | None = None
    causes: WalCauses | None = None
    pairs: Mapping[str, Diagnosis] = field(default_factory=dict)
    """Standby -> what sessions on both servers say."""
    target_s: float | None = None
    """--recovery-target."""
    notes: tuple[str, ...] = ()
    """Where the costs of the clock come from, and what was not used."""
    windows: tuple[ReplicationWindow, ...] = ()
    """Windows of ``pairs``, in the same order."""
    room_bytes: int | None = None
    """--wal-disk."""
    follows: str | None = None
    """Of a standby: the watched server that it is watched with."""
    sizes: SizeCurve | None = None
    """What other sizes of max_wal_size would have written in the last hours."""
    is_suspected: bool = False
    """Whether a longer look may name a concern that this one has no more than a hint of."""
    promoted: Mapping[int, str | None] = field(default_factory=dict)
    """pid of a walsender -> the watched server that was promoted (`analysis.watch.missing.with_promoted`)."""

    @property
    def name(self) -> str:
        """The name that is shown."""
        return self.seen.name

    @property
    def severity(self) -> int:
        """Severity of the worst concern; 0 without concerns."""
        return max((int(concern.severity) for concern in self.concerns), default=0)


def about(view: ServerView) -> str:
    """Version and role: ``PostgreSQL 18.4, primary``."""
    look = view.seen.look
    if look is None:
        return "not seen yet"
    role = "primary" if not look.is_in_recovery else "standby"
    if look.is_in_recovery and view.follows is not None:
        role += f" of {view.follows}"
    return f"PostgreSQL {look.version}, {role}"


def splits(view: ServerView) -> dict[str, LagSplit]:
    """Standby -> its lag, from both servers where both are watched, else from this one."""
    alone = unpaired(view.seen.standbys, view.windows, view.pairs)
    return {state.name: state.split for state in alone} | {
        name: diagnosis.split for name, diagnosis in view.pairs.items()
    }


def calm_s(view: ServerView, name: str) -> float:
    """Age up to which a standby keeps up. Only news of replay reaches the upstream late."""
    return KEEPING_UP_S if name in view.pairs else STALE_S


def known_lag_s(view: ServerView, name: str, split: LagSplit) -> float | None:
    """Age of what a standby has replayed. None where it was behind before anybody looked and has not been
    watched for long enough to say anything of it: the least that it can be would look like a good one."""
    return None if split.began_unseen and split.lag_s < calm_s(view, name) else split.lag_s


def further_causes(name: str, diagnosis: Diagnosis, view: ServerView) -> tuple[NamedCause, ...]:
    """Causes of a pair that no concern mentions."""
    is_told = any(concern.key == f"standby {name}" for concern in view.concerns)
    told = unintended(diagnosis)[0] if is_told else None
    return tuple(cause for cause in diagnosis.causes if cause is not told)


__all__ = ["ServerView", "Severity", "about", "calm_s", "further_causes", "known_lag_s", "splits"]
