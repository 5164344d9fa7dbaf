"""A rule about settings of roles and databases, which override the server's."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.server import ServerOverride
from walproof.sentences import say_list
from walproof.settings.durability import DurabilityClass
from walproof.settings.synchronous import WAITING

WRITING = (
    "synchronous_commit", "commit_delay", "commit_siblings", "wal_compression", "wal_skip_threshold",
    "session_replication_role",
)  # fmt: skip
"""Session settings that shape WAL or what a commit waits for."""
_NAMED = 5


def overrides(case: ServerCase) -> Found | None:
    """Roles or databases that lose commits though the server as a whole does not, and others that differ."""
    found = [override for override in case.window.overrides if override.name in WRITING]
    if case.window.is_in_recovery:
        return None  # they come from the primary, and a standby lets nobody reset them
    if not found:
        return None
    loose = [
        override for override in found if override.name == "synchronous_commit" and override.value == "off"
    ]
    if loose and case.may_lose < DurabilityClass.LAST_COMMITS:
        delay = case.window.value("wal_writer_delay") or "200ms"
        waits = case.window.synchronous
        # What the server has where one of them is set for this session is not seen.
        level = case.window.value("synchronous_commit")
        hangs = waits is not None and waits.is_short and level in (None, *WAITING)
        listed = say_list([_whose(override) for override in loose[:_NAMED]])
        return Advice(
            "overrides",
            Weight.DANGER,
            "Let the commits of every role wait for their flush",
            (
                f"synchronous_commit is off for {listed}, "
                "whatever postgresql.conf says: a crash loses their commits of up to three times "
                f"wal_writer_delay ({delay}).",
            ),
            steps=tuple(_reset(override) for override in loose[:_NAMED]),
            costs=(
                "Their commits wait for the disk. Existing sessions keep what they have.",
                *(("They hang then, too, until a standby connects that commits wait for.",) if hangs else ()),
            ),
            sure=Sure.HIGH,
            unknown=("whether that loss is accepted: then say --may-lose commits",),
        )
    told = [f"{override.name} = {override.value} for {_whose(override)}" for override in found[:_NAMED]]
    return Fine("overrides", f"Set for some, whatever the server has: {say_list(told)}.")


def _whose(override: ServerOverride) -> str:
    parts = []
    if override.role is not None:
        parts.append(f"role {override.role}")
    if override.database is not None:
        parts.append(f"database {override.database}")
    return " in ".join(parts) or "everybody"


def _reset(override: ServerOverride) -> str:
    """The line that undoes it (manual, ALTER ROLE and ALTER DATABASE)."""
    if override.role is None and override.database is not None:
        return f"ALTER DATABASE {override.database} RESET {override.name};"
    where = "" if override.database is None else f" IN DATABASE {override.database}"
    return f"ALTER ROLE {override.role or 'ALL'}{where} RESET {override.name};"
