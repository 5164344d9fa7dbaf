"""Azure Database for PostgreSQL, flexible server."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.platforms.base_units import in_base_unit
from walproof.platforms.plain import refuse_by_catalogue, restart_note
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import boolean_rule, refuse_by_rules
from walproof.settings.change import Change


class Azure:
    """``az postgres flexible-server parameter set``, a call for each setting."""

    name = "azure"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue and the platform's rules."""
        return refuse_by_catalogue(change, target) or refuse_by_rules(self.name, change, target.version_num)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write whole numbers in the base unit; undoing sets the values from before."""
        old = [
            Change(change.name, was.value) for change in changes if (was := target.before.get(change.name))
        ]
        return Lines(
            "\n".join(_call(change, target) for change in changes),
            "\n".join(_call(change, target) for change in old),
            (*_notes(changes, target), *restart_note(changes, target)),
        )


def _call(change: Change, target: PlatformTarget) -> str:
    value = in_base_unit(change.name, change.value, target.version_num)
    if boolean_rule(Azure.name, change.name, target.version_num) is not None:
        value = "off" if value == "off" else "on"
    return (
        "az postgres flexible-server parameter set --resource-group GROUP --server-name SERVER "
        f"--name {change.name} --value {value}"
    )


def _notes(changes: Sequence[Change], target: PlatformTarget) -> list[str]:
    """What is written otherwise than it was asked for."""
    return [
        f"{change.name} = {change.value} is written as on: {rule.reason} ({rule.cited})."
        for change in changes
        if (rule := boolean_rule(Azure.name, change.name, target.version_num)) is not None
        and in_base_unit(change.name, change.value, target.version_num) != "off"
        and change.value.lower() != "on"
    ]
