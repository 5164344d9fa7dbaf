"""Google Cloud SQL, whose patch of flags erases every flag that it does not name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from walproof.platforms.base_units import in_base_unit
from walproof.platforms.plain import needs_restart, refuse_by_catalogue
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import refuse_by_rules
from walproof.settings.change import Change

MERGE = (
    "import json, sys; flags = {f['name']: f['value'] for f in"
    " json.load(sys.stdin)['settings'].get('databaseFlags', [])}; flags |= json.loads(sys.argv[1]);"
    " kept = ';'.join(f'{n}={v}' for n, v in flags.items() if v is not None);"
    " print('--database-flags=^;^' + kept if kept else '--clear-database-flags')"
)
"""Python that reads what ``gcloud sql instances describe --format=json`` says and prints the option with all
flags that shall be there; ``^;^`` makes ``;`` what separates them (gcloud topic escaping), since values may
hold commas. Where none is left it is ``--clear-database-flags``: an empty ``--database-flags`` keeps the
present ones (instance_prop_reducers.DatabaseFlags of Google Cloud SDK 528, 2026-11-27)."""
_KEEP = (
    "To keep the flags that are set",
    "gcloud sql instances describe INSTANCE --format='json(settings.databaseFlags)' > before.json",
)


class CloudSql:
    """``gcloud sql instances patch``, with the flags that are there."""

    name = "cloudsql"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue and the platform's rules."""
        return refuse_by_catalogue(change, target) or refuse_by_rules(self.name, change, target.version_num)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write a call that merges; undoing removes a flag, or sets its value from before."""
        version_num = target.version_num
        undo: dict[str, str | None] = {}
        for change in changes:
            before = target.before.get(change.name)
            is_unset = before is None or before.is_default
            undo[change.name] = (
                None if before is None or is_unset else in_base_unit(change.name, before.value, version_num)
            )
        kept = [name for name, value in undo.items() if value is not None]
        return Lines(
            _call({change.name: in_base_unit(change.name, change.value, version_num) for change in changes}),
            _call(undo),
            (
                "A patch replaces all flags: this line reads the present ones and keeps them.",
                *_restart_note(changes, target),
                *_keep_note(kept),
            ),
            (_KEEP,) if kept else (),
        )


def _restart_note(changes: Sequence[Change], target: PlatformTarget) -> tuple[str, ...]:
    """A patch does not wait: it restarts the instance and its replicas (docs.cloud.google.com
    /sql/docs/postgres/flags, 2026-11-27)."""
    waiting = needs_restart(changes, target)
    if not waiting:
        return ()
    return (
        f"This line restarts the server at once, and its replicas, for: {', '.join(waiting)}. Undoing it "
        "restarts them again.",
    )


def _keep_note(kept: Sequence[str]) -> tuple[str, ...]:
    """A server tells flags and Cloud SQL's own defaults alike as lines of a file."""
    if not kept:
        return ()
    return (
        f"Undoing it sets what the server has now of {', '.join(kept)}, even if no flag was set. Keep the "
        "flags before you apply it.",
    )


def _call(values: Mapping[str, str | None]) -> str:
    return (
        'gcloud sql instances patch INSTANCE "$(gcloud sql instances describe INSTANCE '
        f'--format=json | python3 -c "{MERGE}" \'{json.dumps(dict(values))}\')"'
    )
