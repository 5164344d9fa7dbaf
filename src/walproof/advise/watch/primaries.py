"""A rule about primaries of one system: what clients write to one, the other does not have."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.watch.concern import Concern, Severity
from walproof.analysis.watch.assessment import Assessment


def primaries(seen: Assessment) -> Iterator[Concern]:
    """Other watched servers of the same system that take writes, and are on a later timeline. A standby that
    was promoted while it was watched has a concern of its own."""
    promoted = {standby.promoted for standby in seen.missing}
    for other in seen.primaries:
        if other.name in promoted:
            continue
        yield Concern(
            f"primary {other.name}",
            Severity.WARNING,
            f"Two primaries of one system: {other.name} takes writes, too. What clients write to one, the "
            "other does not have.",
            (f"timeline of the last checkpoint: {other.own_timeline} here, {other.timeline} there",),
            (
                "If a failover left this server behind: keep clients from writing to it, and make it a "
                f"standby of {other.name} (pg_rewind).",
                "If one is a copy that goes on by itself: watch it with a walproof of its own.",
            ),
        )
