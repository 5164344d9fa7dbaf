"""One server at a moment, assessed: everything that a page, an alert or a program is told about it.

`Assessor` is fed with every sighting in order and holds no clock of its own: the same sightings give the same
assessments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.analysis.watch.archive import ArchiveState, ArchiveWatch
from walproof.analysis.watch.arrival import CutOff, cut_off
from walproof.analysis.watch.checkpoint import CheckpointState, checkpoint_state
from walproof.analysis.watch.disk import DiskState, disk_state
from walproof.analysis.watch.history import History
from walproof.analysis.watch.logical import LogicalState, logical_states
from walproof.analysis.watch.missing import MissingStandby, StandbysSeen
from walproof.analysis.watch.standbys import StandbyState, standby_states
from walproof.facts.watch import NoAnswer, OtherPrimary, WatchedSlot, WatchLook
from walproof.settings.session import PATIENCE_S

STALE_LOOKS = 3.0
"""A server that was not seen for this many intervals does not answer."""
_EVENTS_MOST = 5


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a server while it was watched."""

    at: float
    """Seconds of the epoch, by the server's clock."""
    text: str


@dataclass(frozen=True, slots=True)
class Assessment:
    """One server at a moment."""

    name: str
    look: WatchLook | None
    """The newest look; None if the server was never seen."""
    seen_s: float
    """Seconds over which rates were taken."""
    no_answer: NoAnswer | None
    """The outage while it does not answer; the other parts are then from its last look."""
    wal_bytes_per_s: float | None = None
    disk: DiskState | None = None
    archive: ArchiveState | None = None
    checkpoint: CheckpointState | None = None
    standbys: tuple[StandbyState, ...] = ()
    logical: tuple[LogicalState, ...] = ()
    """Consumers of logical slots."""
    idle_subscriptions: tuple[tuple[int | None, str], ...] = ()
    """Enabled subscriptions without a worker at any look of the window."""
    events: tuple[Event, ...] = ()
    cut_off: CutOff | None = None
    """Of a standby to which no WAL comes."""
    missing: tuple[MissingStandby, ...] = ()
    """Standbys that streamed before and do so no more."""
    seen_at: float | None = None
    """When the newest look was, seconds of the epoch by the observer's clock; None if there is none."""
    written_bytes: int = 0
    """WAL that was written since watching began; it never goes back, as positions do at a failover."""
    primaries: tuple[OtherPrimary, ...] = ()
    """Other watched servers of its system that take writes, too, on a later timeline."""
    slow_s: float | None = None
    """Seconds for which the server has been answering a look that should be over; the other parts are from
    the one before. None while it answers in time, and while it does not answer."""
    polled_slots: frozenset[str] = frozenset()
    """Slots that somebody used for moments since they were free, as through SQL."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What could not be read, and why."""
        return () if self.look is None else self.look.lacks


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user said about a server."""

    wal_disk_bytes: int | None = None


class Assessor:
    """Follows one server."""

    def __init__(self, name: str, limits: Limits, every_s: float) -> None:
        self._name = name
        self._limits = limits
        self._stale_s = max(2.0, STALE_LOOKS * every_s)
        self._history = History()
        self._archive = ArchiveWatch()
        self._standbys = StandbysSeen()
        self._gone: NoAnswer | None = None
        self._events: list[Event] = []
        self._is_seen = False
        self._written_bytes = 0
        self._placed: WatchLook | None = None
        """The newest look with a position."""

    def see(self, sightings: Sequence[WatchLook | NoAnswer]) -> None:
        """Take note of what was seen, oldest first."""
        for sighting in sightings:
            if isinstance(sighting, NoAnswer):
                self._gone = sighting
                continue
            happened = self._history.add(sighting)
            if happened is not None:
                self._events = [*self._events, Event(sighting.at, happened)][-_EVENTS_MOST:]
                self._archive = ArchiveWatch()
            self._count(sighting)
            self._archive.see(sighting)
            self._standbys.see(sighting)
            self._gone, self._is_seen = None, True

    def _count(self, look: WatchLook) -> None:
        """Add the WAL since the newest position: a restart and looks without a position leave none out."""
        if look.lsn is None:
            return
        before, self._placed = self._placed, look
        if before is not None and before.lsn is not None and _is_same_wal(before, look):
            self._written_bytes += max(0, look.lsn - before.lsn)

    def assess(self, now_s: float, now: float, answered_s: float | None = None) -> Assessment:
        """All that is known at one moment; ``now_s``, ``now``: the observer's monotonic clock and Unix
        time; ``answered_s``: when the server began to answer the look that is under way, by the former."""
        if not self._is_seen:
            never = self._gone or NoAnswer(now_s, now, "no answer yet")
            return Assessment(self._name, None, 0.0, never)
        last, looks = self._history.last, self._history.window()
        gone = self._gone
        slow_s: float | None = None
        is_stale = gone is None and now_s - last.seen_s > self._stale_s
        if is_stale and answered_s is not None and now_s - answered_s < PATIENCE_S:
            # A network that is cut during a look is silent, too, so this holds no longer than TCP is patient.
            slow_s = now_s - answered_s
        elif is_stale:
            # A session that waits for a network which is cut says nothing.
            gone = NoAnswer(now_s, now - (now_s - last.seen_s), "a question has not been answered yet")
        archive = self._archive.state(looks)
        disk = disk_state(looks, self._limits.wal_disk_bytes, None if archive is None else archive.waiting)
        return Assessment(
            name=self._name,
            look=last,
            seen_s=last.seen_s - looks[0].seen_s,
            no_answer=gone,
            wal_bytes_per_s=disk.wal_bytes_per_s,
            disk=disk,
            archive=archive,
            checkpoint=None if last.is_in_recovery else checkpoint_state(looks),
            standbys=standby_states(looks, self._history.ends),
            logical=logical_states(looks, self._history.ends),
            idle_subscriptions=_idle(looks),
            events=tuple(self._events),
            cut_off=cut_off(self._history.looks),
            missing=self._standbys.missing(),
            seen_at=now - (now_s - last.seen_s),
            written_bytes=self._written_bytes,
            slow_s=slow_s,
            polled_slots=_polled(self._history.looks),
        )


def _is_same_wal(before: WatchLook, now: WatchLook) -> bool:
    """Whether positions of both looks are of the same WAL, at the same end of it."""
    old, new = before.checkpoint, now.checkpoint
    return (
        before.system_identifier == now.system_identifier
        and before.is_in_recovery == now.is_in_recovery
        and (old is None or new is None or old.timeline == new.timeline)
    )


def _idle(looks: tuple[WatchLook, ...]) -> tuple[tuple[int | None, str], ...]:
    """A worker that ends with an error is started again after 5 s and seen now and then."""
    working = {(each.id, each.name) for look in looks for each in look.subscriptions if each.has_worker}
    return tuple(
        (each.id, each.name)
        for each in looks[-1].subscriptions
        if each.is_enabled and (each.id, each.name) not in working
    )


def _polled(looks: tuple[WatchLook, ...]) -> frozenset[str]:
    """Slots that were taken while walproof watched, or moved between two looks at which nobody had them. One
    whose reader left is none of them."""
    found: set[str] = set()
    free: dict[str, WatchedSlot] = {}
    for look in looks:
        for slot in look.slots:
            before = free.get(slot.name)
            if before is not None and (
                slot.is_active or (before.restart, before.confirmed) != (slot.restart, slot.confirmed)
            ):
                found.add(slot.name)
        free = {slot.name: slot for slot in look.slots if not slot.is_active}
    return frozenset(found)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with a number where several are the same."""
    counts: Mapping[str, int] = {name: list(names).count(name) for name in names}
    taken = {name for name in names if counts[name] == 1}
    found = []
    for name in names:
        number, given = 1, name
        while counts[name] > 1 and (given := f"{name} #{number}") in taken:
            number += 1
        taken.add(given)
        found.append(given)
    return found
