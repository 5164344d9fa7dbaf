"""Rules about transactions that do not end: commits that nobody confirms, and forgotten prepared ones."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.waiting import (
    CANCELLED,
    LATE,
    MANAGED,
    UNDOING,
    forgotten,
    say_prepared,
    who_confirms,
    who_waits,
)
from walproof.advise.watch.concern import Concern, Severity
from walproof.analysis.watch.assessment import Assessment
from walproof.platforms.recognised import recognise
from walproof.sentences import say_count
from walproof.settings.synchronous import WAITING
from walproof.units import format_duration


def hanging_commits(seen: Assessment) -> Iterator[Concern]:
    """Fewer standbys are connected than a commit waits for, or those that are do not confirm."""
    wait = None if seen.look is None else seen.look.synchronous
    if wait is None:
        return
    if wait.is_short and (wait.level in WAITING or wait.waiting):
        why = "too few of the standbys that they wait for are connected"
        step, unless = "Connect a standby that is named there.", "none can be connected"
    elif wait.is_stalled:
        why = f"one has waited for its standbys for {format_duration(wait.stalled_s)} at least"
        step, unless = LATE, "they cannot confirm now"
    else:
        return
    yield Concern(
        "synchronous standbys",
        Severity.CRITICAL,
        f"Commits hang: {why}.",
        (*who_confirms(wait), *who_waits(wait)),
        (
            step,
            CANCELLED,
            f"If {unless}, those who wait go on {_undoing(seen)}",
        ),
    )


def _undoing(seen: Assessment) -> str:
    """What frees who waits, as the platform has it."""
    known = None if seen.look is None else recognise(seen.look.marks)
    if known is None:
        return f"with: {' '.join(UNDOING)} ({MANAGED[0].upper()}{MANAGED[1:]}.)"
    if known.is_hosted:
        return (
            f"once {known.title} (recognised by {known.by}) has an empty synchronous_standby_names, which "
            "ALTER SYSTEM does not set there."
        )
    return f"once its synchronous mode is turned off in {known.title} (recognised by {known.by})."


def prepared_transactions(seen: Assessment) -> Iterator[Concern]:
    """Prepared transactions that nobody has ended."""
    look = seen.look
    found = () if look is None else forgotten(look.prepared)
    if look is None or not found:
        return
    yield Concern(
        "prepared transactions",
        Severity.WARNING,
        f"Nobody ends {say_count(len(found), 'prepared transaction')}: locks are kept, and VACUUM removes no "
        "row that was deleted since.",
        say_prepared(found),
        (
            "Ask its transaction manager for the outcome, and in its database, as its owner: COMMIT PREPARED "
            "or ROLLBACK PREPARED.",
        ),
        look.at - found[0].age_s,
    )
