"""Servers that their owner configures: postgresql.conf, and ALTER SYSTEM.

postgresql.conf < conf.d by its include order < postgresql.auto.conf (ALTER SYSTEM) < command line (manual,
"Setting Parameters").
"""

from __future__ import annotations

from collections.abc import Sequence

from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.settings.catalogue import Catalogue
from walproof.settings.change import Before, Change
from walproof.settings.conf import quoted
from walproof.settings.value import Context, parse
from walproof.sqltext import literal

_ALLOW_MANUAL = (
    "https://www.postgresql.org/docs/current/runtime-config-compatible.html#GUC-ALLOW-ALTER-SYSTEM "
    "(2026-11-27)"
)
_MANUAL = "https://www.postgresql.org/docs/current/config-setting.html (2026-11-23)"


def needs_restart(changes: Sequence[Change], target: PlatformTarget) -> tuple[str, ...]:
    """Names of settings that a reload does not change."""
    catalogue = Catalogue.for_version(target.version_num)
    return tuple(change.name for change in changes if catalogue.get(change.name).context is Context.RESTART)


def restart_note(changes: Sequence[Change], target: PlatformTarget) -> tuple[str, ...]:
    """A sentence about what waits for a restart; none where a reload is enough."""
    waiting = needs_restart(changes, target)
    return (f"In force after a restart: {', '.join(waiting)}.",) if waiting else ()


def _standby_note(target: PlatformTarget) -> tuple[str, ...]:
    """Streaming copies no files of settings, and no postgresql.auto.conf."""
    if not target.has_standbys:
        return ()
    return (
        "Standbys have settings of their own: give them the same lines, and undo them there as well. A "
        "failover brings the old values back otherwise.",
    )


def unseen_note(
    changes: Sequence[Change],
    target: PlatformTarget,
    then: str = "A line does nothing where ALTER SYSTEM does.",
) -> tuple[str, ...]:
    """A sentence about settings whose file the role may not see, and what follows; none where it sees all."""
    unseen = [
        change.name
        for change in changes
        if (was := target.before.get(change.name)) is not None and not was.is_file_seen
    ]
    if not unseen:
        return ()
    return (f"Without pg_monitor the role cannot see which file sets {', '.join(unseen)}. {then}",)


def refuse_by_catalogue(change: Change, target: PlatformTarget) -> Refusal | None:
    """Refuse a setting that nobody can set. Raises SettingError for a wrong name or value."""
    setting = Catalogue.for_version(target.version_num).get(change.name)
    parse(setting, change.value)
    if setting.context is Context.INTERNAL:
        return Refusal(change, "it is fixed when the cluster or the server is made", _MANUAL)
    return None


def _refuse_started_with(change: Change, target: PlatformTarget) -> Refusal | None:
    """Refuse a setting that the server was started with: its command line overrides every file."""
    before = target.before.get(change.name)
    if before is None or not before.is_on_command_line:
        return None
    return Refusal(
        change,
        "the server was started with it on its command line, which overrides every file: change it where the "
        "server is started, then restart",
        _MANUAL,
    )


def is_alter_system_off(target: PlatformTarget) -> bool:
    """Whether the server answers ALTER SYSTEM with an error (17 and newer; CloudNativePG's default)."""
    allowed = target.before.get("allow_alter_system")
    return allowed is not None and allowed.value == "off"


def refuse_in_auto_conf(change: Change, target: PlatformTarget, writer: str) -> Refusal | None:
    """Refuse what ALTER SYSTEM has set, of a platform that writes postgresql.conf: postgresql.auto.conf is
    read after it, and the value that ``writer`` had set before is not seen.

    pg_settings names the file of a setting that waits for a restart until the restart."""
    before = target.before.get(change.name)
    if before is None or not before.is_in_auto_conf:
        return None
    first = "set allow_alter_system = on, and " if is_alter_system_off(target) else ""
    reset = f"run ALTER SYSTEM RESET {change.name};"
    done = (
        f"{reset} on each server that has it, restart it, then ask again"
        if needs_restart([change], target)
        else f"{reset} SELECT pg_reload_conf(); on each server that has it, then ask again"
    )
    return Refusal(
        change,
        f"ALTER SYSTEM has set it here, which overrides what {writer} writes: {first}{done}",
        _MANUAL,
    )


class Conf:
    """A file in conf.d, or lines at the end of postgresql.conf."""

    name = "conf"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Where ALTER SYSTEM has set it, a line in a file does nothing."""
        refusal = refuse_by_catalogue(change, target) or _refuse_started_with(change, target)
        if refusal is not None:
            return refusal
        before = target.before.get(change.name)
        if before is not None and before.is_in_auto_conf:
            first = "set allow_alter_system = on, and " if is_alter_system_off(target) else ""
            return Refusal(
                change,
                f"ALTER SYSTEM has set it, which overrides every file: {first}use --platform alter-system",
                _MANUAL,
            )
        return None

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write lines in the syntax of the file."""
        undo = [
            f"# {change.name}: remove the line"
            if (was := target.before.get(change.name)) is None or was.is_default
            else f"{change.name} = {quoted(was.value)}"
            for change in changes
        ]
        return Lines(
            "\n".join(f"{change.name} = {quoted(change.value)}" for change in changes),
            "\n".join(undo),
            (
                "SELECT pg_reload_conf(); afterwards.",
                *restart_note(changes, target),
                *unseen_note(changes, target),
                *_standby_note(target),
            ),
        )


class AlterSystem:
    """ALTER SYSTEM in a superuser's session."""

    name = "alter-system"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Refuse what the version does not have, what the command line overrides, and all where the server
        does not let anybody use the statement."""
        refusal = refuse_by_catalogue(change, target) or _refuse_started_with(change, target)
        if refusal is None and is_alter_system_off(target):
            before = target.before.get(change.name)
            if before is not None and before.is_in_auto_conf:
                return Refusal(
                    change,
                    "allow_alter_system is off, so ALTER SYSTEM is an error here, and what it has set "
                    "overrides every file: set allow_alter_system = on, then ask again",
                    _ALLOW_MANUAL,
                )
            return Refusal(
                change,
                "allow_alter_system is off, so ALTER SYSTEM is an error here: give --platform what "
                "configures the server (conf, patroni, cnpg, zalando, crunchy, ...)",
                _ALLOW_MANUAL,
            )
        return refusal

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write statements, and those that restore postgresql.auto.conf."""
        reload = "SELECT pg_reload_conf();"
        apply = [f"ALTER SYSTEM SET {change.name} = {literal(change.value)};" for change in changes]
        undo = [_undo(change, target.before.get(change.name)) for change in changes]
        instead = "Where it is not postgresql.auto.conf, undo with ALTER SYSTEM RESET instead."
        notes = (
            *restart_note(changes, target),
            *unseen_note(changes, target, instead),
            *_standby_note(target),
        )
        return Lines("\n".join([*apply, reload]), "\n".join([*undo, reload]), notes)


def _undo(change: Change, before: Before | None) -> str:
    # RESET would throw an earlier ALTER SYSTEM away; where the file is not seen, SET restores the value.
    if before is not None and (before.is_in_auto_conf or not before.is_file_seen):
        return f"ALTER SYSTEM SET {change.name} = {literal(before.value)};"
    return f"ALTER SYSTEM RESET {change.name};"
