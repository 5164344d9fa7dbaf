"""The rule about synchronous_commit: what commits wait for, and whether anybody is there to wait for."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.waiting import CANCELLED, LATE, MANAGED, RESUMING, UNDOING, who_confirms, who_waits
from walproof.facts.transactions import SynchronousWait
from walproof.settings.change import Change
from walproof.settings.durability import DurabilityClass
from walproof.settings.synchronous import WAITING

_RULE = "synchronous_commit"
_SENDERS = "SELECT application_name, state, sync_state FROM pg_stat_replication;"
_HANGING = (
    "From then on commits hang while too few of these standbys are connected. The lines that undo it do not "
    "free sessions that already wait: a standby that connects does, or an empty synchronous_standby_names. "
    + CANCELLED
)


def synchronous_commit(case: ServerCase) -> Found | None:
    """synchronous_commit is off against what the owner allows, does not wait for standbys that are named, or
    waits for standbys that are not there."""
    level, names = case.window.value("synchronous_commit"), case.window.value("synchronous_standby_names")
    seen = case.window.synchronous
    is_short = seen is not None and seen.is_short and (level in WAITING or seen.waiting)
    if seen is not None and names is not None and (seen.is_stalled or is_short):
        return _hanging(seen)
    if level is None or names is None:
        return Unseen(_RULE, case.window.why_unknown(_RULE))
    if level == "off" and case.may_lose < DurabilityClass.LAST_COMMITS:
        return _off(case, seen, names)
    # Without max_wal_senders no standby can connect, and no commit waits for one.
    if level == "local" and names and case.window.base("max_wal_senders") != 0:
        return _local(seen, names)
    if level in WAITING and seen is not None and seen.is_short is None:
        return Unseen(
            _RULE, "whether the standbys that commits wait for are connected is seen with pg_monitor"
        )
    if level in ("remote_apply", "remote_write") and not names:
        return Fine(
            _RULE, f"synchronous_commit={level} acts as on: synchronous_standby_names names no standby."
        )
    return Fine(_RULE, f"synchronous_commit is {level}.")


def _hanging(seen: SynchronousWait) -> Advice:
    """They are missing, or they are connected and do not confirm."""
    is_late = seen.is_short is not True
    title, unless, resumed = (
        ("Let the standbys that commits wait for confirm again", "they cannot confirm", "they confirm")
        if is_late
        else (
            "Connect the standbys that commits wait for", "no standby can be connected",
            "a standby is connected",
        )
    )  # fmt: skip
    return Advice(
        _RULE,
        Weight.DANGER,
        f"{title}, or let commits go on without them",
        ("Commits hang.", *_sentences(seen), *((LATE,) if is_late else ())),
        steps=(
            _SENDERS,
            f"-- if {unless} now, so that those who wait go on (a failover then loses commits):",
            f"-- ({MANAGED})",
            *UNDOING,
            f"-- once {resumed} again:",
            *RESUMING,
        ),
        costs=("With an empty list a failover loses the commits that no standby has.", CANCELLED),
    )


def _off(case: ServerCase, seen: SynchronousWait | None, names: str) -> Advice:
    delay = case.window.value("wal_writer_delay") or "200ms"
    evidence = [
        f"synchronous_commit is off: a crash loses commits of up to three times wal_writer_delay ({delay})."
    ]
    costs = ["Commits wait for their flush."]
    title, value = "Turn synchronous_commit on", "on"
    if names and seen is not None and seen.is_short is False:
        costs += ["They wait for a standby's flush, too.", _HANGING]
    elif names:
        title, value = "Let commits wait for their flush", "local"
        costs.append("With on they would wait for standbys, too, of which too few were seen connected.")
        evidence += _sentences(seen)
    return Advice(
        _RULE,
        Weight.DANGER,
        title,
        tuple(evidence),
        (Change("synchronous_commit", value),),
        costs=tuple(costs),
        unknown=("whether that loss is accepted: then say --may-lose commits",),
    )


def _local(seen: SynchronousWait | None, names: str) -> Advice:
    waits_for_none = (
        f"synchronous_standby_names is set ('{names}'), and synchronous_commit=local waits for none of them: "
        "a failover loses commits."
    )
    title = "Let commits wait for the standbys that synchronous_standby_names names"
    unknown = ("whether transactions whose loss would matter ask for more themselves",)
    if seen is not None and seen.is_short is False:
        return Advice(
            _RULE,
            Weight.DANGER,
            title,
            (waits_for_none, *_sentences(seen)),
            (Change("synchronous_commit", "on"),),
            costs=("Commits wait for a standby's flush.", _HANGING),
            unknown=unknown,
        )
    if seen is None or seen.is_short is None:
        return Advice(
            _RULE,
            Weight.DANGER,
            title,
            (
                waits_for_none,
                "Whether they are connected could not be seen, so there is no line to paste: without them "
                "synchronous_commit=on would hang every commit.",
                *_sentences(seen),
            ),
            steps=(_SENDERS,),
            sure=Sure.MEDIUM,
            unknown=unknown,
        )
    return Advice(
        _RULE,
        Weight.DANGER,
        "Connect the standbys that synchronous_standby_names names, or empty the list",
        (
            waits_for_none,
            *_sentences(seen),
            "Until they are connected, synchronous_commit=on would hang every commit.",
        ),
        steps=(_SENDERS, "-- connect them first, and set synchronous_commit=on then; or, without standbys",
               f"-- ({MANAGED}):", *UNDOING),
        unknown=unknown,
    )  # fmt: skip


def _sentences(seen: SynchronousWait | None) -> tuple[str, ...]:
    if seen is None:
        return ()
    return tuple(f"{text[0].upper()}{text[1:]}." for text in (*who_confirms(seen), *who_waits(seen)))
