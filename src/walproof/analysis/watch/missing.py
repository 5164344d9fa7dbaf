"""Standbys that streamed while their upstream was watched, and do so no more.

A slot shows that somebody is missing; without one nothing on the upstream does. A standby is known by its
application_name and its slot: its walsender is another one after each restart. So two without a slot and with
the same name count as one; a walsender that is left over of a connection that broke is no second standby."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.facts.watch import WatchLook

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


class StandbysSeen:
    """Follows the standbys of one server."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str | None], WatchLook] = {}
        """Name and slot -> the last look at which it streamed."""
        self._last: WatchLook | None = None

    def see(self, look: WatchLook) -> None:
        """Take note of a look, which is not older than the one before."""
        if look.lacks_of("standbys") is not None:
            return
        if self._last is not None and _role(look) != _role(self._last):
            self._seen = {}  # they follow another server, or this one is another
        self._last = look
        for standby in look.standbys:
            if standby.state in _STREAMING and not standby.is_logical:
                self._seen[standby.name, standby.slot] = look
        self._seen = {key: seen for key, seen in self._seen.items() if look.seen_s - seen.seen_s < KEPT_S}

    def missing(self) -> tuple[MissingStandby, ...]:
        """Those without a walsender at the newest look, sorted by name."""
        now = self._last
        if now is None:
            return ()
        names = [name for name, _ in self._seen]
        present = {(standby.name, standby.slot) for standby in now.standbys}
        return tuple(
            MissingStandby(
                f"{name} (slot {slot})" if slot and names.count(name) > 1 else name,
                seen.at,
                now.seen_s - seen.seen_s,
            )
            for (name, slot), seen in sorted(
                self._seen.items(), key=lambda item: (item[0][0], item[0][1] or "")
            )
            if (name, slot) not in present
        )


def _role(look: WatchLook) -> tuple[str | None, bool]:
    return look.system_identifier, look.is_in_recovery
