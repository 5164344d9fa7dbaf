"""A rule about settings of roles and databases, which override the server's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Weight
from walproof.advise.server.case import ServerCase
from walproof.errors import SettingError
from walproof.facts.server import ServerOverride
from walproof.sentences import say_list
from walproof.settings.catalogue import Catalogue
from walproof.settings.durability import DurabilityClass
from walproof.settings.synchronous import WAITING
from walproof.settings.value import canonical

WRITING = (
    "synchronous_commit", "commit_delay", "commit_siblings", "wal_compression", "wal_skip_threshold",
    "session_replication_role",
)  # fmt: skip
"""Session settings that shape WAL or what a commit waits for."""
_NAMED = 5


def overrides(case: ServerCase) -> Found | None:
    """Roles or databases that lose commits though the server as a whole does not, and others that differ."""
    if case.window.is_in_recovery:
        return None  # they come from the primary, and a standby lets nobody reset them
    found = [_as_shown(case, override) for override in case.window.overrides if override.name in WRITING]
    if not found:
        return None
    levels = [override for override in found if override.name == "synchronous_commit"]
    loose = [override for override in levels if override.value == "off"]
    waits = case.window.synchronous
    # What the server has where one of them is set for this session is not seen.
    level = case.window.value("synchronous_commit")
    # Without standbys a reset would hang commits, and it gives what the server has, which may be off.
    are_there = waits is not None and waits.is_short is False and level in (None, *WAITING)
    alone = [override for override in levels if override.value == "local" and are_there]
    if (loose or alone) and case.may_lose < DurabilityClass.LAST_COMMITS:
        hangs = waits is not None and waits.is_short and level in (None, *WAITING)
        return Advice(
            "overrides",
            Weight.DANGER,
            "Let the commits of every role wait for their flush"
            if loose
            else "Let the commits of every role wait for the standbys that commits wait for",
            tuple(_evidence(case, loose, alone)),
            steps=tuple(_reset(override) for override in (*loose, *alone)[:_NAMED]),
            costs=(
                "Their commits wait for the disk. Existing sessions keep what they have."
                if loose
                else "Their commits wait for a standby. Existing sessions keep what they have.",
                *(("They hang then, too, until a standby connects that commits wait for.",) if hangs else ()),
            ),
            sure=Sure.HIGH,
            unknown=("whether that loss is accepted: then say --may-lose commits",),
        )
    told = [f"{override.name} = {override.value} for {_whose(override)}" for override in found[:_NAMED]]
    return Fine("overrides", f"Set for some, whatever the server has: {say_list(told)}.")


def _as_shown(case: ServerCase, override: ServerOverride) -> ServerOverride:
    """With the value as SHOW has it: the catalog keeps what was written, such as "false" or "OFF"."""
    try:
        setting = Catalogue.for_version(case.window.version_num).get(override.name)
        return replace(override, value=canonical(setting, override.value))
    except SettingError:
        return override


def _evidence(case: ServerCase, loose: list[ServerOverride], alone: list[ServerOverride]) -> Iterator[str]:
    if loose:
        delay = case.window.value("wal_writer_delay") or "200ms"
        yield (
            f"synchronous_commit is off for {say_list([_whose(override) for override in loose[:_NAMED]])}, "
            "whatever postgresql.conf says: a crash loses their commits of up to three times "
            f"wal_writer_delay ({delay})."
        )
    if alone:
        yield (
            f"synchronous_commit is local for {say_list([_whose(override) for override in alone[:_NAMED]])}: "
            "a failover loses their commits that no standby has, though synchronous_standby_names is set."
        )


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
