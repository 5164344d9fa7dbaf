"""Operators on Kubernetes: a merge patch of the cluster's resource."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walproof.platforms.plain import needs_restart, refuse_by_catalogue, refuse_in_auto_conf, unseen_note
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import refuse_by_rules
from walproof.settings.change import Change


@dataclass(frozen=True)
class Operator:
    """One operator's resource, and how it treats parameters that are removed."""

    name: str
    resource: str
    path: tuple[str, ...]
    """Keys to the map of parameters; values are strings."""
    resets: bool
    """Whether a key that is removed gets its default back."""
    restarts: str
    """What the operator does by itself for settings that need a restart."""
    since: str = ""
    """A sentence about operators of other versions, which do not read ``path``."""

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue, the platform's rules, and whether ALTER SYSTEM goes before."""
        return (
            refuse_by_catalogue(change, target)
            or refuse_by_rules(self.name, change, target.version_num)
            or refuse_in_auto_conf(change, target, "the operator")
        )

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """``kubectl patch``, and the patch that takes it back."""
        waiting = needs_restart(changes, target)
        restart = (
            (f"{self.restarts}: {', '.join(waiting)}. Undoing it restarts them again.",) if waiting else ()
        )
        undo: dict[str, str | None] = {}
        for change in changes:
            before = target.before.get(change.name)
            is_unset = before is None or (before.is_default and self.resets)
            undo[change.name] = None if before is None or is_unset else before.value
        return Lines(
            self._patch({change.name: change.value for change in changes}),
            self._patch(undo),
            (*restart, *((self.since,) if self.since else ()), *unseen_note(changes, target)),
        )

    def _patch(self, values: Mapping[str, str | None]) -> str:
        data: Any = dict(values)
        for key in reversed(self.path):
            data = {key: data}
        text = json.dumps(data).replace("'", "'\\''")
        return f"kubectl patch {self.resource} NAME --type merge -p '{text}'"


CNPG = Operator(
    "cnpg", "clusters.postgresql.cnpg.io", ("spec", "postgresql", "parameters"), resets=True,
    restarts="The operator restarts the instances one after the other for",
)  # fmt: skip
ZALANDO = Operator(
    "zalando", "postgresqls.acid.zalan.do", ("spec", "postgresql", "parameters"), resets=False,
    restarts="The operator restarts the pods' servers for",
)  # fmt: skip
# handlePatroniRestarts of PGO 0fbac3062 (internal/controller/postgrescluster/patroni.go) runs "patronictl
# restart --pending --force" for the primary as well as for the replicas. spec.config.parameters came with
# e4dfdf2d1; v5.8.5 has it, and spec.config of v5.7.9 has only files, so that the API server drops the rest.
CRUNCHY = Operator(
    "crunchy", "postgresclusters.postgres-operator.crunchydata.com", ("spec", "config", "parameters"),
    resets=True, restarts="The operator restarts the servers at once, the primary among them, for",
    since="Operators before 5.8 ignore spec.config.parameters without an error: there the same keys belong "
    "under spec.patroni.dynamicConfiguration.postgresql.parameters.",
)  # fmt: skip
