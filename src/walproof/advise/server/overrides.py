"""A rule about settings of roles and databases, which hold instead of the server's."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.wording import say_list
from walproof.facts.server import ServerOverride
from walproof.settings.durability import DurabilityClass

WRITING = (
    "synchronous_commit", "commit_delay", "commit_siblings", "wal_compression", "wal_skip_threshold",
    "session_replication_role",
)  # fmt: skip
"""Settings of sessions that shape WAL or what a commit waits for."""
_NAMED = 5


def overrides(case: ServerCase) -> Found | None:
    """Roles or databases that lose commits though the server as a whole does not, and others that differ."""
    own = [one for one in case.window.overrides if one.name in WRITING]
    if not own:
        return None
    loose = [one for one in own if one.name == "synchronous_commit" and one.value == "off"]
    if loose and case.may_lose < DurabilityClass.LAST_COMMITS:
        delay = case.window.value("wal_writer_delay") or "200ms"
        return Advice(
            "overrides",
            Weight.DANGER,
            "Let the commits of every role wait for their flush",
            (
                f"synchronous_commit is off for {say_list([_whose(one) for one in loose[:_NAMED]])}, "
                "whatever postgresql.conf says: a crash loses their commits of up to three times "
                f"wal_writer_delay ({delay}).",
            ),
            steps=tuple(_reset(one) for one in loose[:_NAMED]),
            costs=("Their commits wait for the disk. Sessions that are there keep what they have.",),
            sure=Sure.HIGH,
            unknown=("whether that loss is accepted: then say --may-lose commits",),
        )
    told = [f"{one.name} = {one.value} for {_whose(one)}" for one in own[:_NAMED]]
    return Fine("overrides", f"Set for some, whatever the server has: {say_list(told)}.")


def _whose(one: ServerOverride) -> str:
    parts = []
    if one.role is not None:
        parts.append(f"role {one.role}")
    if one.database is not None:
        parts.append(f"database {one.database}")
    return " in ".join(parts) or "everybody"


def _reset(one: ServerOverride) -> str:
    """The line that undoes it (manual, ALTER ROLE and ALTER DATABASE)."""
    if one.role is None and one.database is not None:
        return f"ALTER DATABASE {one.database} RESET {one.name};"
    where = "" if one.database is None else f" IN DATABASE {one.database}"
    return f"ALTER ROLE {one.role or 'ALL'}{where} RESET {one.name};"
