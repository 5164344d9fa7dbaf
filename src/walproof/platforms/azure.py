"""Azure Database for PostgreSQL, flexible server."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.platforms.base_units import in_base_unit
from walproof.platforms.plain import refuse_by_catalogue, restart_note
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import boolean_rule, refuse_by_rules
from walproof.settings.change import Change

_SERVER = "--resource-group GROUP --server-name SERVER"
_SET = f"az postgres flexible-server parameter set {_SERVER}"


class Azure:
    """``az postgres flexible-server parameter set``, a call for each setting."""

    name = "azure"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue and the platform's rules."""
        return refuse_by_catalogue(change, target) or refuse_by_rules(self.name, change, target.version_num)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write whole numbers in the base unit; undoing sets the values from before, or the platform's
        default where these are not known."""
        undo = [
            _reset(change.name)
            if (was := target.before.get(change.name)) is None
            else _call(Change(change.name, was.value), target)
            for change in changes
        ]
        return Lines(
            "\n".join(_call(change, target) for change in changes),
            "\n".join(undo),
            (*_notes(changes, target), *restart_note(changes, target)),
        )


def _call(change: Change, target: PlatformTarget) -> str:
    value = in_base_unit(change.name, change.value, target.version_num)
    if boolean_rule(Azure.name, change.name, target.version_num) is not None:
        value = "off" if value == "off" else "on"
    return f"{_SET} --name {change.name} --value {value}"


def _reset(name: str) -> str:
    """A call that sets what the platform itself says is its default, which is not always PostgreSQL's."""
    default = (
        f"az postgres flexible-server parameter show {_SERVER} --name {name} --query defaultValue -o tsv"
    )
    return f'{_SET} --name {name} --value "$({default})"'


def _notes(changes: Sequence[Change], target: PlatformTarget) -> list[str]:
    """What is written otherwise than it was asked for."""
    return [
        f"{change.name} = {change.value} is written as on: {rule.reason} ({rule.cited})."
        for change in changes
        if (rule := boolean_rule(Azure.name, change.name, target.version_num)) is not None
        and in_base_unit(change.name, change.value, target.version_num) != "off"
        and change.value.lower() != "on"
    ]
