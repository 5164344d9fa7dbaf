"""A rule about prepared transactions that nobody ends."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.waiting import forgotten, say_prepared
from walproof.sentences import say_count
from walproof.sqltext import visible
from walproof.units import format_duration

_RULE = "prepared transactions"
_NAMED = 3


def prepared_transactions(case: ServerCase) -> Found | None:
    """Transactions that were prepared long ago: they keep locks and old rows, through every restart."""
    prepared = case.window.prepared
    if not prepared:
        return None
    found = forgotten(prepared)
    if not found:
        oldest = format_duration(max(one.age_s for one in prepared))
        return Fine(_RULE, f"{say_count(len(prepared), 'prepared transaction')}, the oldest for {oldest}.")
    return Advice(
        _RULE,
        Weight.DANGER,
        "End the prepared transactions that nobody ends",
        (
            *(f"{text}." for text in say_prepared(found)),
            "Until they end, through every restart, their locks are kept, VACUUM removes no row that was "
            "deleted since, and nothing newer is frozen: in the end the server takes no more transactions.",
        ),
        steps=(
            "-- ask the transaction manager for the outcome of each; in its database, as its owner or a",
            "-- superuser, one of the two lines without its dashes:",
            # A line break in a name would end the comment.
            *(
                visible(f"-- {verb} PREPARED {one.gid};  -- in {one.database}, of {one.owner}")
                for one in found[:_NAMED]
                for verb in ("COMMIT", "ROLLBACK")
            ),
        ),
        costs=("What is rolled back is lost, and may be committed elsewhere.",),
        unknown=("whether it was to be committed",),
    )
