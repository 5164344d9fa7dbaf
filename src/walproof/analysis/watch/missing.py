"""Standbys that streamed while their upstream was watched, and do so no more.

A slot shows that somebody is missing; without one nothing on the upstream does. A standby is known by its
slot, without a permanent one by its application_name: its walsender is another one after each restart, and a
temporary slot is called after the process. So two without a slot and with the same name count as one; a
walsender that is left over of a connection that broke is no second standby."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from walproof.analysis.watch.history import is_another
from walproof.analysis.watch.standbys import numbered, standby_names
from walproof.facts.watch import WatchedStandby, WatchLook

KEPT_S = 24 * 3600.0
"""After this time a standby that has not come back is taken for one that was removed."""
_STREAMING = ("streaming", "catchup")


@dataclass(frozen=True, slots=True)
class MissingStandby:
    """A standby that has no walsender any more."""

    name: str
    """As it was called while it streamed (`standby_names`)."""
    since: float
    """When it was last seen, seconds of the epoch by the upstream's clock."""
    missing_s: float
    """Seconds since then."""
    pid: int = 0
    """pid of its last walsender."""
    promoted: str | None = None
    """Its name as a watched server, where that shows that it was promoted."""


@dataclass(frozen=True, slots=True)
class _Key:
    slot: str | None
    """Its permanent slot."""
    name: str | None
    """Its application_name, where it has no such slot."""


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    """Its application_name."""
    shown: str
    """What it was called."""
    pid: int
    look: WatchLook
    """The last one at which it streamed."""


class StandbysSeen:
    """Follows the standbys of one server."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._last: WatchLook | None = None

    def see(self, look: WatchLook) -> None:
        """Take note of a look, which is not older than the one before."""
        if look.lacks_of("standbys") is not None or look.lacks_of("slots") is not None:
            return
        self._forget_of_others(look)
        self._last = look
        present = _present(look)
        for key, (shown, standby) in present.items():
            if standby.state not in _STREAMING:
                continue
            if key not in self._seen:
                self._forget_former(standby.name, present, look)
            self._seen[key] = _Seen(standby.name, shown, standby.pid, look)
        self._seen = {
            key: seen for key, seen in self._seen.items() if look.seen_s - seen.look.seen_s < KEPT_S
        }

    def _forget_of_others(self, look: WatchLook) -> None:
        """Standbys of a server that answered before: behind a connection string with several hosts, the
        promoted one answers after a failover. One that was not up before is known by its new timeline."""
        before = self._last
        if before is None:
            return
        if _role(look) != _role(before) or is_another(before, look):
            self._seen = {}  # they follow another server, or this one is another
        elif not look.is_in_recovery and _is_on_later_timeline(before, look):
            self._seen = {
                key: seen for key, seen in self._seen.items() if seen.look.started_at == look.started_at
            }

    def _forget_former(self, name: str, present: Collection[_Key], look: WatchLook) -> None:
        """A standby that gets a slot, or another one, comes back under another key. One whose slot is still
        there is missed all the same: many standbys have the same name."""
        slots = {slot.name for slot in look.slots}
        self._seen = {
            key: seen
            for key, seen in self._seen.items()
            if seen.name != name or key in present or key.slot in slots
        }

    def missing(self) -> tuple[MissingStandby, ...]:
        """Those without a walsender at the newest look, sorted by name."""
        now = self._last
        if now is None:
            return ()
        present = _present(now)
        gone = sorted(
            (seen for key, seen in self._seen.items() if key not in present), key=lambda seen: seen.shown
        )
        names = numbered([seen.shown for seen in gone])
        return tuple(
            MissingStandby(name, seen.look.at, now.seen_s - seen.look.seen_s, seen.pid)
            for name, seen in zip(names, gone, strict=True)
        )


def with_promoted(
    missing: Sequence[MissingStandby], promoted: Mapping[int, str | None]
) -> tuple[MissingStandby, ...]:
    """The missing standbys, those that were promoted with their names.

    ``promoted``: pid of a walsender -> name of the watched server that it served; None while its timeline is
    no higher than the upstream's: that may be the same server by now, whose conninfo has several hosts, and
    none is missing.
    """
    return tuple(
        replace(standby, promoted=promoted.get(standby.pid))
        for standby in missing
        if promoted.get(standby.pid, "") is not None
    )


def _present(look: WatchLook) -> dict[_Key, tuple[str, WatchedStandby]]:
    """The standbys that a look shows, with their names; of several with one key one that streams."""
    permanent = {slot.name for slot in look.slots if not slot.is_temporary}
    physical = [standby for standby in look.standbys if not standby.is_logical]
    found: dict[_Key, tuple[str, WatchedStandby]] = {}
    for shown, standby in zip(standby_names(look, physical), physical, strict=True):
        slot = standby.slot if standby.slot in permanent else None
        key = _Key(slot, None if slot else standby.name)
        if key not in found or standby.state in _STREAMING:
            found[key] = shown, standby
    return found


def _role(look: WatchLook) -> tuple[str | None, bool]:
    return look.system_identifier, look.is_in_recovery


def _is_on_later_timeline(before: WatchLook, now: WatchLook) -> bool:
    old, new = before.checkpoint, now.checkpoint
    return old is not None and new is not None and new.timeline > old.timeline
