"""Which of the watched servers a watched standby follows, in a cascade, too.

A walsender is a standby's when it uses the slot that the standby names, or has the standby's
application_name; the port of the server that it streams from tells more. A walsender serves one standby, so
where names are alike (``walreceiver`` is the default of all), standbys with few candidates choose first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from walproof.facts.watch import WatchedReceiver, WatchedStandby, WatchLook


@dataclass(frozen=True, slots=True)
class Followed:
    """What a standby follows."""

    place: int
    """Index of the upstream among the servers."""
    is_seen: bool
    """Whether it has a walsender for the standby; otherwise it is the primary of the same system."""
    pid: int | None = None
    """pid of that walsender."""


@dataclass(frozen=True, slots=True)
class _Option:
    rank: tuple[bool, bool, bool]
    place: int
    pid: int


def upstreams(
    looks: Sequence[WatchLook | None], served: Collection[tuple[int, int]] = ()
) -> tuple[Followed | None, ...]:
    """The upstream of each server; None for a primary, or if its upstream is not among them. ``served``:
    walsenders of servers that do not answer, as (index of the upstream, pid)."""
    options = {
        place: sorted(_options(look, place, looks), key=lambda option: option.rank, reverse=True)
        for place, look in enumerate(looks)
        if look is not None and look.is_in_recovery and look.system_identifier is not None
    }
    found: dict[int, Followed] = {}
    taken = set(served)
    for place in sorted(options, key=lambda index: len(options[index])):
        for option in options[place]:
            if (option.place, option.pid) in taken or _follows(found, option.place, place):
                continue
            taken.add((option.place, option.pid))
            found[place] = Followed(option.place, True, option.pid)
            break
    for place in options.keys() - found.keys():
        if (primary := _primary(looks, place)) is not None:
            found[place] = Followed(primary, False)
    return tuple(found.get(place) for place in range(len(looks)))


def still_served(
    looks: Sequence[WatchLook | None], names: Sequence[str], before: Sequence[Mapping[int, str]]
) -> list[dict[int, str]]:
    """Of each server, the walsenders (pid -> standby) of ``before`` that are told by nothing else now.

    A standby that does not answer streams on while its upstream lists the same walsender. Of an upstream
    that does not answer, the last look is shown, with the walsenders of then. ``names``: of the servers.
    """
    silent = {name for name, look in zip(names, looks, strict=True) if look is None}
    return [
        {pid: name for pid, name in served.items() if look is None or (name in silent and _lists(look, pid))}
        for look, served in zip(looks, before, strict=True)
    ]


def _lists(look: WatchLook, pid: int) -> bool:
    return any(walsender.pid == pid for walsender in look.standbys)


def _options(look: WatchLook, place: int, looks: Sequence[WatchLook | None]) -> list[_Option]:
    receiver = look.receiver
    if receiver is None:
        return []
    return [
        _Option(rank, other, walsender.pid)
        for other, upstream in enumerate(looks)
        if other != place and upstream is not None and upstream.system_identifier == look.system_identifier
        for walsender in upstream.standbys
        if (rank := _rank(receiver, walsender, upstream)) is not None
    ]


def _rank(
    receiver: WatchedReceiver, walsender: WatchedStandby, upstream: WatchLook
) -> tuple[bool, bool, bool] | None:
    """Rank of a match: higher is surer; None for a walsender of another standby."""
    if walsender.is_logical or (walsender.slot or receiver.slot) != receiver.slot:
        return None
    has_slot, has_name = walsender.slot is not None, receiver.name == walsender.name
    has_port = receiver.port is not None and upstream.settings.get("port") == str(receiver.port)
    return (has_slot, has_port, has_name) if has_slot or has_name else None


def _follows(found: dict[int, Followed], place: int, other: int) -> bool:
    """Whether a server follows another, at any distance: nobody may follow a follower of its own."""
    while place in found:
        place = found[place].place
        if place == other:
            return True
    return False


def _primary(looks: Sequence[WatchLook | None], place: int) -> int | None:
    seen = looks[place]
    assert seen is not None
    return next(
        (
            other
            for other, look in enumerate(looks)
            if look is not None
            and not look.is_in_recovery
            and look.system_identifier == seen.system_identifier
        ),
        None,
    )
