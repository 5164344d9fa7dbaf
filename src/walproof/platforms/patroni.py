"""Patroni's dynamic configuration.

A member's patroni.yml goes before it, and so does postgresql.auto.conf (ALTER SYSTEM), but for the parameters
that Patroni gives on the command line (docs/patroni_configuration.rst at de6b22c8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from walproof.platforms.plain import needs_restart, refuse_by_catalogue, refuse_in_auto_conf, unseen_note
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import refuse_by_rules
from walproof.settings.change import Change


class Patroni:
    """``patronictl edit-config``."""

    name = "patroni"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue, the platform's rules, and whether ALTER SYSTEM goes before."""
        return (
            refuse_by_catalogue(change, target)
            or refuse_by_rules(self.name, change, target.version_num)
            or refuse_in_auto_conf(change, target, "Patroni")
        )

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """A YAML patch under postgresql.parameters; a null removes a key again."""
        waiting = needs_restart(changes, target)
        notes = ["Members apply it within loop_wait, but for what their own patroni.yml sets."]
        if waiting:
            notes.append(f"In force after patronictl restart CLUSTER --pending: {', '.join(waiting)}.")
        return Lines(
            _patch({change.name: change.value for change in changes}),
            _patch({change.name: _was(change, target) for change in changes}),
            (*notes, *unseen_note(changes, target)),
        )


def _was(change: Change, target: PlatformTarget) -> str | None:
    before = target.before.get(change.name)
    return None if before is None or before.is_default else before.value


def _patch(values: Mapping[str, str | None]) -> str:
    # A JSON string is a YAML string: "on" stays a word, and does not become a boolean.
    rows = [f"    {name}: {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(
        [
            "patronictl edit-config CLUSTER --force --apply - <<'YAML'",
            "postgresql:",
            "  parameters:",
            *rows,
            "YAML",
        ]
    )
