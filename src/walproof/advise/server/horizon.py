"""A rule about whoever may still need rows that were deleted long ago, so that VACUUM keeps them."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.transactions import HorizonHolder
from walproof.sentences import say_count
from walproof.sqltext import literal, visible
from walproof.units import format_duration

LONG = 10**7
"""Transactions from which on a session of more than an hour, or a slot that nobody uses, costs much."""
LONG_S = 3600.0
FAR = 10**8
"""Half of the default of autovacuum_freeze_max_age: from there on whoever it is costs much."""
_NAMED = 5


def horizon(case: ServerCase) -> Found | None:
    """Old sessions, slots and standbys, which keep VACUUM from removing and freezing rows; prepared
    transactions have a rule of their own."""
    window = case.window
    if window.is_in_recovery:
        return None
    held = [one for one in window.horizon if _is_long(one)]
    if held:
        return _advice(held)
    if window.role_lacks is not None and "pg_monitor" in window.role_lacks:
        return Unseen("horizon", "sessions of other roles are seen with pg_monitor")
    if not window.horizon:
        return None
    oldest = max(one.age for one in window.horizon)
    return Fine("horizon", f"Rows are kept for nobody longer than {say_count(oldest, 'transaction')}.")


def say_holder(one: HorizonHolder) -> str:
    """Who it is, for how long, and how old what it may need is."""
    state = "" if one.state is None else f"{one.state}, "
    since = "" if one.since_s is None else f"for {format_duration(one.since_s)}, "
    return visible(f"{one.kind} {one.name} ({state}{since}{say_count(one.age, 'transaction')} old)")


def _is_long(one: HorizonHolder) -> bool:
    if one.age >= FAR:
        return True
    if one.kind == "session":
        return one.age >= LONG and (one.since_s or 0.0) >= LONG_S
    return one.age >= LONG and one.kind == "slot" and one.state == "inactive"


def _advice(held: list[HorizonHolder]) -> Advice:
    return Advice(
        "horizon",
        Weight.DANGER,
        "End whatever keeps VACUUM from removing old rows",
        (
            *(f"{text[0].upper()}{text[1:]}." for text in map(say_holder, held[:_NAMED])),
            "Until then VACUUM removes no row that was deleted since, and freezes nothing newer: tables and "
            "indexes grow, and in the end the server takes no more transactions.",
        ),
        steps=(
            "-- after asking whose it is, without the dashes:",
            *(visible(_step(one)) for one in held[:_NAMED]),
        ),
        costs=("A session that is ended loses what it has not committed.",),
        sure=Sure.HIGH,
        unknown=("whether it is needed",),
    )


def _step(one: HorizonHolder) -> str:
    if one.kind == "session":
        return f"-- SELECT pg_terminate_backend({one.name});"
    if one.kind == "slot" and one.state == "inactive":
        drop = f"SELECT pg_drop_replication_slot({literal(one.name)});"
        return f"-- {drop}  -- only if its standby or subscriber does not come back"
    oldest = "SELECT pid, state, xact_start FROM pg_stat_activity ORDER BY xact_start LIMIT 5;"
    where = f"the standby or subscriber of slot {one.name}" if one.kind == "slot" else one.name
    return f"-- on {where}: {oldest}"
