"""What is said of transactions that do not end, of a server that is advised as of one that is watched."""

from __future__ import annotations

from walproof.facts.transactions import STALLED_S, PreparedTransaction, SynchronousWait
from walproof.sentences import say_count, say_list
from walproof.sqltext import visible
from walproof.units import format_duration

UNDOING = ("ALTER SYSTEM SET synchronous_standby_names = '';", "SELECT pg_reload_conf();")
"""The server then frees who waits (SyncRepUpdateSyncStandbysDefined, syncrep.c), as a standby does."""
CANCELLED = (
    "Cancel no session that waits, and mind time-outs of drivers, which cancel: its commit is reported as "
    "done, and a failover loses it if no standby has it."
)
"""A wait that is cancelled ends with a warning alone; so does one of a session that is terminated, or of a
server that is stopped, and the commit stays (SyncRepWaitForLSN, syncrep.c)."""
MANAGED = "where Patroni or an operator sets the list, turn its synchronous mode off instead"
"""What ALTER SYSTEM sets goes before what they write, and would stay."""
RESUMING = (
    "ALTER SYSTEM RESET synchronous_standby_names;",
    "SELECT pg_reload_conf();",
)
LATE = (
    "See what keeps them from confirming: replay that is paused or held by a query (synchronous_commit = "
    "remote_apply waits for it), a full or slow disk, the network."
)
"""The step where standbys are connected and do not confirm."""
FORGOTTEN_S = 3600.0
"""A transaction manager ends what it has prepared within seconds; what is so old nobody has in mind."""
_NAMED = 5


def who_confirms(seen: SynchronousWait) -> tuple[str, ...]:
    """Who is named, who of them serves, and who is connected beside them."""
    serving = say_list(_quoted(seen.serving)) or "none is"
    verb = " is" if len(seen.serving) == 1 else " are" if seen.serving else ""
    count = say_count(seen.standbys.count, "standby")
    told = [
        f"a commit waits for {count} of synchronous_standby_names ('{seen.names}'), and {serving}{verb} "
        "connected and streaming"
    ]
    if seen.others:
        told.append(f"connected, and not counted by the server: {say_list(_quoted(seen.others))}")
    if seen.unknown:
        told.append(
            f"{say_count(seen.unknown, 'walsender')} named there, whose state needs pg_monitor to see"
        )
    return tuple(told)


def who_waits(seen: SynchronousWait) -> tuple[str, ...]:
    """The sessions that wait at the moment."""
    if not seen.waiting:
        return ()
    verb = "waits" if seen.waiting == 1 else "wait"
    began = ""
    if seen.oldest_s is not None:
        began = f"; the statement of the oldest began {format_duration(seen.oldest_s)} ago"
    told = [f"{say_count(seen.waiting, 'session')} {verb} in SyncRep{began}"]
    if seen.is_stalled:
        verb = "has" if seen.stalled == 1 else "have"
        told.append(
            f"{seen.stalled} of them {verb} waited for {STALLED_S:g} s or longer, one for "
            f"{format_duration(seen.stalled_s)} at least"
        )
    return tuple(told)


def forgotten(prepared: tuple[PreparedTransaction, ...]) -> tuple[PreparedTransaction, ...]:
    """Those that were prepared long ago, the oldest first."""
    return tuple(sorted((one for one in prepared if one.age_s >= FORGOTTEN_S), key=lambda one: -one.age_s))


def say_prepared(prepared: tuple[PreparedTransaction, ...]) -> tuple[str, ...]:
    """Each of the oldest, and how many more there are."""
    told = [
        f"{one.gid} of {one.owner} in database {one.database}: prepared {format_duration(one.age_s)} ago, "
        f"{say_count(one.freeze_age, 'transaction')} old"
        for one in prepared[:_NAMED]
    ]
    return (*map(visible, told), *((f"{len(prepared) - _NAMED} more",) if len(prepared) > _NAMED else ()))


def _quoted(names: tuple[str, ...]) -> list[str]:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [*(f'"{name}"' for name in names[:_NAMED]), *more]
