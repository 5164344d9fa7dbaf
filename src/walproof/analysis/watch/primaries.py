"""Watched servers of one system that all take writes: after a failover only one of them should.

The timeline is that of the last checkpoint, and the first one after a promotion may take minutes. Until then
nobody can tell who was promoted, so nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from walproof.facts.watch import OtherPrimary, WatchLook


def other_primaries(
    looks: Sequence[WatchLook | None], names: Sequence[str]
) -> tuple[tuple[OtherPrimary, ...], ...]:
    """Of each server the primaries of its system on a later timeline. Two names may lead to one server, which
    has started once."""
    return tuple(
        tuple(
            other
            for theirs, name in zip(looks, names, strict=True)
            if (other := _ahead(look, theirs, name)) is not None
        )
        for look in looks
    )


def _ahead(look: WatchLook | None, theirs: WatchLook | None, name: str) -> OtherPrimary | None:
    if look is None or theirs is None or look.is_in_recovery or theirs.is_in_recovery:
        return None
    if look.system_identifier is None or look.system_identifier != theirs.system_identifier:
        return None
    if look.started_at is None or theirs.started_at is None or look.started_at == theirs.started_at:
        return None
    if look.checkpoint is None or theirs.checkpoint is None:
        return None
    own, other = look.checkpoint.timeline, theirs.checkpoint.timeline
    return OtherPrimary(name, other, own) if other > own else None
