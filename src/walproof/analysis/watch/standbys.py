"""Where the WAL is that each standby has not replayed, as its upstream knows it.

pg_stat_replication has all positions of `walproof.analysis.replication`, but not what the standby's processes
wait for. So it gives the same split of the lag, and the same rules apply. A standby reports replay only with
its next message, at most wal_receiver_status_interval (10 s) later: `STALE_S`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from walproof.analysis.replication import LagSplit, split_lag
from walproof.facts.replication import Look, Receiver, ReplicationWindow, Sender, Standby, Upstream
from walproof.facts.watch import WatchedStandby, WatchLook

STALE_S = 12.0
"""Seconds that a replay position of the upstream may be old although nothing is late."""
_TRAIL_STEP = 2
"""Every second point is enough for ages."""


@dataclass(frozen=True, slots=True)
class StandbyState:
    """One standby, seen from its upstream."""

    name: str
    """The same after it has connected again: its application_name with its slot, else with its address."""
    standby: WatchedStandby
    window: ReplicationWindow
    split: LagSplit
    described: str = ""
    """``name`` before standbys that nothing tells apart were numbered."""


def standby_states(
    looks: tuple[WatchLook, ...], ends: tuple[tuple[float, int], ...]
) -> tuple[StandbyState, ...]:
    """All standbys that stream now, where the end of WAL is known. ``looks``: those of the window of rates;
    ``ends``: (seconds, end of WAL) from long before on, for ages."""
    if looks[-1].lsn is None:
        return ()
    looks = tuple(look for look in looks if look.lsn is not None)
    trail = (*ends[:-1][::_TRAIL_STEP], ends[-1])
    found = []
    physical = [standby for standby in looks[-1].standbys if not standby.is_logical]
    described = standby_names(looks[-1], physical)
    for name, plain, standby in zip(numbered(described), described, physical, strict=True):
        seen = [(look, same) for look in looks if (same := _same(look, standby)) is not None]
        waits: dict[str, int] = {}
        for _, same in seen:
            waits[same.wait] = waits.get(same.wait, 0) + 1
        window = ReplicationWindow(
            first=_look(*seen[0]),
            last=_look(*seen[-1]),
            waits={"startup": {}, "walreceiver": {}, "walsender": waits},
            states={},
            trail=trail,
            upstream_settings=looks[-1].settings,
            standby_settings={},
            segment_bytes=looks[-1].segment_bytes,
            is_cascade=looks[-1].is_in_recovery,
            is_local=False,
            clock_skew_s=0.0,
            clock_skew_error_s=0.0,
        )
        found.append(StandbyState(name, standby, window, split_lag(window), plain))
    return tuple(found)


def named(standbys: Sequence[StandbyState], watched: Mapping[int, str]) -> tuple[StandbyState, ...]:
    """The standbys, those that are watched themselves with that name; only the others are numbered.
    ``watched``: pid of a walsender -> name."""
    others = [state.described for state in standbys if state.standby.pid not in watched]
    rest = iter(numbered(others))
    return tuple(
        replace(state, name=watched[state.standby.pid] if state.standby.pid in watched else next(rest))
        for state in standbys
    )


def unpaired(
    standbys: Sequence[StandbyState], windows: Sequence[ReplicationWindow], paired: Collection[str]
) -> tuple[StandbyState, ...]:
    """The standbys that are seen only from their upstream. ``paired``: names of the others, whose walsender
    may be newer than their window."""
    pids = {look.upstream.sender.pid for window in windows for look in (window.first, window.last)
            if look.upstream.sender is not None}  # fmt: skip
    return tuple(state for state in standbys if state.standby.pid not in pids and state.name not in paired)


def standby_names(look: WatchLook, standbys: Sequence[WatchedStandby]) -> list[str]:
    """The names of a look's standbys, before those that nothing tells apart are numbered.

    Who is connected besides changes no name, so that metrics go on: Debian, for one, gives all standbys
    the same application_name. A temporary slot is called after a process."""
    temporary = {slot.name for slot in look.slots if slot.is_temporary}
    found: list[str] = []
    for standby in standbys:
        slot = None if standby.slot in temporary else standby.slot
        where = f"slot {slot}" if slot else standby.host
        found.append(standby.name if where is None or slot == standby.name else f"{standby.name} ({where})")
    return found


def numbered(names: Sequence[str]) -> list[str]:
    """The names, from the second of the same on with a number: on one machine without slots nothing else
    tells standbys apart."""
    return [
        name if (before := names[:place].count(name)) == 0 else f"{name} #{before + 1}"
        for place, name in enumerate(names)
    ]


def _same(look: WatchLook, standby: WatchedStandby) -> WatchedStandby | None:
    """The same walsender at an earlier look."""
    return next((other for other in look.standbys if other.pid == standby.pid), None)


def _look(look: WatchLook, standby: WatchedStandby) -> Look:
    assert look.lsn is not None
    sender = Sender(
        pid=standby.pid, application_name=standby.name, state=standby.state, sync_state=standby.sync_state,
        sent=standby.sent, write_lag_s=None, flush_lag_s=None, replay_lag_s=None,
        reply_age_s=standby.reply_age_s,
    )  # fmt: skip
    return Look(
        at_s=look.seen_s,
        upstream=Upstream(clock_s=look.at, inserted=look.lsn, flushed=look.lsn, sender=sender),
        standby=Standby(
            clock_s=look.at,
            received=standby.flushed,
            replayed=standby.replayed,
            replayed_commit_s=None,
            pause_state="not paused",
            # The upstream's word for a stream that runs; "catchup" streams, too.
            receiver=Receiver(0, "streaming", standby.written, standby.flushed, None),
        ),
    )
