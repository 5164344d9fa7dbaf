"""Values without commands, for platforms whose way of setting them walproof does not know."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.platforms.plain import refuse_by_catalogue, restart_note
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.settings.change import Change

_HOW = (
    "These are values and no commands: set them as the platform has it, where it lets you (its console, API "
    "or resource)."
)


class Values:
    """A name and a value for each setting."""

    name = "values"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Refuse what nobody can set."""
        return refuse_by_catalogue(change, target)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write the values, and those from before."""
        before = [
            f"{change.name}: its default"
            if (was := target.before.get(change.name)) is None or was.is_default
            else f"{change.name}: {was.value}"
            for change in changes
        ]
        return Lines(
            "\n".join(f"{change.name}: {change.value}" for change in changes),
            "\n".join(before),
            (_HOW, *restart_note(changes, target)),
        )
