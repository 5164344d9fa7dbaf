"""The study that ``walproof load-advice`` runs on somebody's table: all steps, and all but each of them.

The baseline takes every step that the table allows. ``without X`` leaves one out, ``plain X`` takes none, and
what takes the place of a step (sessions, wal_level=minimal, UNLOGGED) is a variant of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from walproof.errors import StudyError
from walproof.facts import Install, LoadMethod, LoadStep
from walproof.lab.reading import check_study
from walproof.lab.studyfile import StudyFile
from walproof.settings.durability import DurabilityClass
from walproof.workload.loading.ddl import statements
from walproof.workload.loading.steps import obstacle
from walproof.workload.loading.table import LoadedTable

EVERY_STEP = "every step"
_SETTINGS = {"max_wal_size": "16GB", "maintenance_work_mem": "512MB"}
_TOGETHER = "late indexes and foreign keys"
STEPS: Mapping[str, tuple[LoadStep, ...]] = {
    "COPY FREEZE": ("truncate", "freeze"),
    "late indexes": ("late indexes",),
    "late foreign keys": ("late foreign keys",),
    _TOGETHER: ("late indexes", "late foreign keys"),
    "triggers off": ("triggers off",),
}
"""The names of steps in the recipe, and what they are. Late indexes and late foreign keys are one step where
a foreign key of the table points at its own key."""
_SLOW_ROWS, _BATCH_ROWS_MOST = 2_000, 20_000
_BATCHES = (100, 1_000, 10_000, 100_000)
_SESSIONS = (2, 4, 8, 16)
"""They are tried upward, as batches are (walproof.analysis.sweep): the last ones only if the previous ones
gain."""
_CREATE = re.compile(
    r"CREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?((?:[\w$]+|\"[^\"]+\")(?:\.(?:[\w$]+|\"[^\"]+\"))?)"
    r"(?!.*\bPARTITION\s+OF\b)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for."""

    table: str
    ddl: str
    rows: int
    file: str | None
    replay: str | None
    may_lose: DurabilityClass
    filled: int = 0
    """Rows that the table holds already."""
    ddl_as_superuser: bool = False
    """The DDL and the loads run as superuser, not as a role of their own."""
    notes: tuple[str, ...] = ()
    """Sentences of the study's description."""


def only_table(ddl: str) -> str:
    """The name of the one table that the SQL makes. Raises StudyError when there are none or several."""
    names = [found[1] for statement in statements(ddl) if (found := _CREATE.match(statement.sql)) is not None]
    if len(names) != 1:
        raise StudyError(
            f"the DDL makes {len(names)} tables" if names else "the DDL makes no table",
            detail=f"Tables: {', '.join(names)}." if names else None,
            hint="Name the one to load after a colon: --table FILE.sql:NAME.",
        )
    return names[0]


def advice_study(wanted: Wanted, table: LoadedTable, install: Install) -> StudyFile:
    """The study for ``table``, whose definition ``install`` has read. Raises StudyError."""
    possible = {name: steps for name, steps in STEPS.items() if _allows(table, install, steps, wanted)}
    is_together = table.points_to_itself and _TOGETHER in possible
    for name in ("late indexes", "late foreign keys") if is_together else (_TOGETHER,):
        possible.pop(name, None)
    every = tuple(step for steps in possible.values() for step in steps)
    settings = dict(_SETTINGS if "late indexes" in every else {"max_wal_size": _SETTINGS["max_wal_size"]})
    variants = [_variant(EVERY_STEP, settings, every)]
    for name, steps in possible.items():
        variants.append(_variant(f"without {name}", settings, tuple(s for s in every if s not in steps)))
    for name in settings:
        variants.append(
            _variant(
                f"without {name}={settings[name]}", {k: v for k, v in settings.items() if k != name}, every
            )
        )
    kept = tuple(step for step in every if step not in ("truncate", "freeze"))
    for sessions in _SESSIONS:
        if sessions <= 4 * (os.cpu_count() or 1):
            variants.append(_variant(f"{sessions} sessions", settings, kept, sessions=sessions))
    if "truncate" in every:
        variants.append(_variant("wal_level=minimal", {**settings, "wal_level": "minimal"}, every))
    if wanted.may_lose.rank >= DurabilityClass.TABLE.rank and _allows(table, install, ("unlogged",), wanted):
        variants.append(_variant("UNLOGGED, then SET LOGGED", settings, (*every, "unlogged")))
    if wanted.may_lose is DurabilityClass.CORRUPT:
        variants.append(_variant("fsync=off", {**settings, "fsync": "off", "full_page_writes": "off"}, every))
    variants += _plain(wanted)
    return check_study(
        {
            "name": "load-advice",
            "title": f"Which steps make a load of {wanted.table} faster, and which gain nothing?",
            "description": " ".join(
                ["Every step that the table allows, all but each of them, and none of them.", *wanted.notes]
            ),
            "baseline": EVERY_STEP,
            "base": {"autovacuum": "off"},
            "workload": [{"name": wanted.table}],
            "load": {
                "table": wanted.table, "ddl": wanted.ddl + "\n", "rows": wanted.rows,
                "quick_rows": min(wanted.rows, 20_000), "file": wanted.file, "replay": wanted.replay,
                "filled": wanted.filled, "crash": True, "power_cut": 1,
                "ddl_as_superuser": wanted.ddl_as_superuser,
            },
            "variant": variants,
        },
        "load-advice",
    )  # fmt: skip


def _plain(wanted: Wanted) -> list[dict[str, object]]:
    plain = [_variant("plain COPY", {}, ())]
    plain += [
        _variant(f"plain COPY, {batch:,} rows a commit", {}, (), batch_rows=batch)
        for batch in _BATCHES
        if batch < wanted.rows
    ]
    plain.append(_variant("plain executemany", {}, (), feed="executemany", rows_most=_BATCH_ROWS_MOST))
    plain.append(
        _variant("plain INSERT, autocommit", {}, (), feed="insert", batch_rows=1, rows_most=_SLOW_ROWS)
    )
    if wanted.may_lose is not DurabilityClass.NONE:
        plain.append(
            _variant(
                "plain INSERT, autocommit, synchronous_commit=off", {"synchronous_commit": "off"}, (),
                feed="insert", batch_rows=1, rows_most=_SLOW_ROWS,
            )
        )  # fmt: skip
    return plain


def _allows(table: LoadedTable, install: Install, steps: tuple[LoadStep, ...], wanted: Wanted) -> bool:
    method = LoadMethod(steps=steps)
    return (
        obstacle(
            table, table.columns, method, install.version_num, wanted.replay, is_filled=wanted.filled > 0
        )
        is None
    )


def _variant(
    name: str, settings: Mapping[str, str], steps: tuple[LoadStep, ...], **method: object
) -> dict[str, object]:
    return {"name": name, "settings": dict(settings), "load": {"steps": steps, **method}}
