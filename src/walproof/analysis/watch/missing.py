"""Standbys that streamed while their upstream was watched, and do so no more.

A slot shows that somebody is missing; without one nothing on the upstream does. A standby is known by its
slot, without a permanent one by its application_name: its walsender is another one after each restart, and a
temporary slot is called after the process. So two without a slot and with the same name count as one; a
walsender that is left over of a connection that broke is no second standby."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from walproof.facts.watch import WatchedStandby, WatchLook

KEPT_S = 24 * 3600.0
"""After this time a standby that has not come back is taken for one that was removed."""
_STREAMING = ("streaming", "catchup")


@dataclass(frozen=True, slots=True)
class MissingStandby:
    """A standby that has no walsender any more."""

    name: str
    """Its application_name, with its slot where another has the same."""
    since: float
    """When it was last seen, seconds of the epoch by the upstream's clock."""
    missing_s: float
    """Seconds since then."""


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
        if self._last is not None and _role(look) != _role(self._last):
            self._seen = {}  # they follow another server, or this one is another
        self._last = look
        present = _present(look)
        for key, standby in present.items():
            if standby.state not in _STREAMING:
                continue
            if key not in self._seen:
                self._forget_former(standby.name, present, look)
            self._seen[key] = _Seen(standby.name, look)
        self._seen = {
            key: seen for key, seen in self._seen.items() if look.seen_s - seen.look.seen_s < KEPT_S
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
        names = [seen.name for seen in self._seen.values()]
        present = _present(now)
        return tuple(
            MissingStandby(
                f"{seen.name} (slot {key.slot})" if key.slot and names.count(seen.name) > 1 else seen.name,
                seen.look.at,
                now.seen_s - seen.look.seen_s,
            )
            for key, seen in sorted(self._seen.items(), key=lambda item: (item[1].name, item[0].slot or ""))
            if key not in present
        )


def _present(look: WatchLook) -> dict[_Key, WatchedStandby]:
    """The standbys that a look shows; of several with one key one that streams."""
    permanent = {slot.name for slot in look.slots if not slot.is_temporary}
    found: dict[_Key, WatchedStandby] = {}
    for standby in look.standbys:
        if standby.is_logical:
            continue
        slot = standby.slot if standby.slot in permanent else None
        key = _Key(slot, None if slot else standby.name)
        if key not in found or standby.state in _STREAMING:
            found[key] = standby
    return found


def _role(look: WatchLook) -> tuple[str | None, bool]:
    return look.system_identifier, look.is_in_recovery
