"""Rules about transactions that do not end: commits that hang, because nobody confirms them."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.waiting import UNDOING, who_confirms, who_waits
from walproof.advise.watch.concern import Concern, Severity
from walproof.analysis.watch.assessment import Assessment
from walproof.settings.synchronous import WAITING


def hanging_commits(seen: Assessment) -> Iterator[Concern]:
    """Fewer standbys are connected than a commit waits for."""
    wait = None if seen.look is None else seen.look.synchronous
    if wait is None or not wait.is_short or not (wait.level in WAITING or wait.waiting):
        return
    yield Concern(
        "synchronous standbys",
        Severity.CRITICAL,
        "Commits hang: too few of the standbys that they wait for are connected.",
        (*who_confirms(wait), *who_waits(wait)),
        (
            "Connect a standby that is named there.",
            f"If none can be connected, those who wait go on with: {' '.join(UNDOING)}",
        ),
    )
