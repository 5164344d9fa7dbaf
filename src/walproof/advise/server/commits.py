"""Rules about commits: what they wait for, and settings that should shorten it."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.server import FLUSH_WAITS
from walproof.sentences import say_count, say_list, say_percent
from walproof.settings.change import Change
from walproof.settings.durability import DurabilityClass
from walproof.units import format_duration

FULL_SHARE = 0.02
"""wal_buffers_full per commit; above this, backends write WAL because the buffers are full."""
LEAST_COMMITS = 1000
FLUSH_WAIT_SHARE = 0.3
"""The share of what active backends were seen doing that waiting for a flush of WAL has to reach."""
LEAST_SAMPLES = 30
_ROLES = 3
_READS_COUNT = "how many of them wrote is known only from the WAL (REPLICATION)"


def wal_buffers(case: ServerCase) -> Found | None:
    """Backends that had to write WAL themselves because wal_buffers was full."""
    if case.window.is_in_recovery:
        return None
    full, (commits, is_bound) = case.window.grown("wal_buffers_full"), case.commits
    if full is None:
        return Unseen("wal_buffers", "pg_stat_wal exists from 14 on" if case.major < 14 else "no pg_stat_wal")
    if not commits or commits < LEAST_COMMITS:
        return Unseen("wal_buffers", f"{commits or 0:.0f} commits in the window, too few")
    share = full / commits
    among = _say_commits(f"{commits:.0f}", is_bound=is_bound)
    if share <= FULL_SHARE and full and is_bound:
        return Unseen("wal_buffers", f"full {full:.0f} times in {among}: {_READS_COUNT}")
    if share <= FULL_SHARE:
        return Fine("wal_buffers", f"wal_buffers was full {full:.0f} times in {among}.")
    blocks = case.window.base("wal_buffers") or 0.0
    if blocks >= 8192:
        return Fine(
            "wal_buffers", f"wal_buffers was full {full:.0f} times, and is {blocks / 128:.0f} MB already."
        )
    larger = max(64, round(blocks / 128 * 4))
    return Advice(
        "wal_buffers",
        Weight.GAIN,
        f"Set wal_buffers = {larger}MB",
        (
            f"wal_buffers ({case.window.value('wal_buffers')}) was full {full:.0f} times in {among}: a "
            "backend then writes WAL while others wait for the lock.",
        ),
        (Change("wal_buffers", f"{larger}MB"),),
        costs=(f"{larger} MB of shared memory, and a restart.",),
        sure=Sure.MEDIUM,
    )


def flushes(case: ServerCase) -> Found | None:
    """What commits wait for, and what not waiting would risk."""
    if case.window.is_in_recovery:
        return None
    samples = sum(case.window.waits.values())
    if samples < LEAST_SAMPLES:
        return Fine(
            "flushes", f"Active sessions were seen {say_count(samples, 'time')}: too seldom to wait for much."
        )
    waiting = sum(case.window.waits.get(name, 0) for name in FLUSH_WAITS)
    share = waiting / samples
    evidence = [f"{say_percent(share)} of what active sessions did was to wait for a flush of WAL."]
    roles = sorted(case.window.flush_waits.items(), key=lambda role: (-role[1], role[0]))[:_ROLES]
    if roles and waiting:
        named = say_list([f"{role} ({say_percent(seen / waiting)})" for role, seen in roles])
        evidence.append(f"Those who waited were of {named}.")
    count, spent_ms = case.window.grown("wal_flushes"), case.window.grown("wal_flush_ms")
    commits, is_bound = case.commits
    if count and commits:
        evidence.append(f"A flush served {_say_commits(f'{commits / count:.1f}', is_bound=is_bound)}.")
    if count and spent_ms:
        evidence.append(f"A flush took {format_duration(spent_ms / count / 1000)} in the mean.")
    if share < FLUSH_WAIT_SHARE or case.window.value("synchronous_commit") == "off":
        return Fine("flushes", " ".join(evidence))
    if case.may_lose < DurabilityClass.LAST_COMMITS:
        return Fine(
            "flushes",
            " ".join(evidence)
            + " With --may-lose commits synchronous_commit=off would be advised; a disk that "
            "flushes faster "
            "gains the same and loses nothing.",
        )
    delay = case.window.value("wal_writer_delay") or "200ms"
    waiting_roles = [role for role, _ in roles] or ["name"]
    own = {
        (override.role, override.database): override.value
        for override in case.window.overrides
        if override.name == "synchronous_commit"
    }
    within = [f"{role} in database {name}" for role, name in own if role in waiting_roles and name]
    waits = case.window.value("synchronous_standby_names") not in (None, "")
    return Advice(
        "flushes",
        Weight.GAIN,
        "Set synchronous_commit = off, for those roles whose last commits may be lost",
        tuple(evidence),
        # No change of the server's setting: it would lose the commits of every other role, too.
        steps=(
            *(f"ALTER ROLE {role} SET synchronous_commit = off;" for role in waiting_roles),
            "-- to undo it:",
            *(_undone(role, own.get((role, None))) for role in waiting_roles),
        ),
        costs=(
            f"A crash loses the commits of up to three times wal_writer_delay ({delay}); the rest is "
            "consistent.",
            *(("They wait for no standby either: a failover loses what none has.",) if waits else ()),
            *((f"What is set for {say_list(within)} stays in force there.",) if within else ()),
        ),
        durability=DurabilityClass.LAST_COMMITS,
        sure=Sure.MEDIUM,
    )


def _undone(role: str, level: str | None) -> str:
    """What gives a role back what it had: the level that was set for it, or none."""
    if level is None:
        return f"ALTER ROLE {role} RESET synchronous_commit;"
    return f"ALTER ROLE {role} SET synchronous_commit = {level};"


def commit_delay(case: ServerCase) -> Found | None:
    """Whether commit_delay, if it is set, batches anything."""
    if case.window.is_in_recovery:
        return None
    delay, siblings = case.window.base("commit_delay"), case.window.base("commit_siblings")
    if delay is None or siblings is None:
        name = "commit_siblings" if delay is not None else "commit_delay"
        return Unseen("commit_delay", case.window.why_unknown(name))
    if delay == 0:
        return Fine("commit_delay", "commit_delay is 0.")
    count, (commits, is_bound) = case.window.grown("wal_flushes"), case.commits
    if not count or not commits or commits < LEAST_COMMITS:
        return Unseen("commit_delay", "how many commits a flush serves could not be seen in the window")
    together = commits / count
    served = _say_commits(f"{together:.1f}", is_bound=is_bound)
    if together >= 2 and is_bound:
        return Unseen("commit_delay", f"a flush served {served}: {_READS_COUNT}")
    if together >= 2:
        return Fine("commit_delay", f"commit_delay is {delay:.0f} us, and a flush serves {served}.")
    return Advice(
        "commit_delay",
        Weight.GAIN,
        "Set commit_delay = 0",
        (
            f"commit_delay is {delay:.0f} us, and yet a flush serves {served}: who sleeps, sleeps for "
            "nobody else.",
        ),
        (Change("commit_delay", "0"),),
        sure=Sure.MEDIUM,
        unknown=("whether other hours have more sessions that commit",),
    )


def _say_commits(count: str, *, is_bound: bool) -> str:
    return f"at most {count} commits, reads included" if is_bound else f"{count} commits"
