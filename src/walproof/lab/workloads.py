"""The workloads of a plan, from those of a study file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from walproof.errors import StudyError
from walproof.facts import Script, Statement, Workload
from walproof.lab.asked import Asked, text_of
from walproof.lab.studyfile import ScriptTable, WorkloadTable

_DEFAULT_DURATION_S = 60.0
NAME_MOST = 120
"""Longest name of a statement, in characters. It is part of the names of metrics, between a quantity and an
operation of the WAL, and a store in PostgreSQL has room for 200 characters."""


def workload_of(table: WorkloadTable, asked: Asked) -> Workload:
    """The workload that a table describes. Raises StudyError."""
    study, overrides, scripts = asked.study, asked.overrides, asked.scripts
    where = f'workload "{table.name}"'
    kinds = {"a builtin": table.builtin, "scripts": table.script, "statements": table.statement}
    given = [noun for noun, value in kinds.items() if value]
    if len(given) > 1:
        raise StudyError(f"{where} has both {' and '.join(given)}", hint="Leave out one of them.")
    if table.statement:
        require_unique("statement", [statement.name for statement in table.statement])
        _require_short([statement.name for statement in table.statement], where)
        return _statements(table, scripts)
    if table.duration is not None and table.transactions is not None:
        raise StudyError(f"{where} has both a duration and transactions", hint="Leave out one of them.")
    if table.threads > table.clients:
        raise StudyError(
            f"{where} has more threads ({table.threads}) than clients ({table.clients})",
            hint="pgbench divides its clients among its threads.",
        )
    duration_s, transactions = table.duration, table.transactions
    if overrides.quick:
        if transactions is not None:
            transactions = study.quick.transactions or transactions
        else:
            duration_s = study.quick.duration or duration_s
    if overrides.duration_s is not None:
        duration_s, transactions = overrides.duration_s, None
    if transactions is None and duration_s is None:
        duration_s = _DEFAULT_DURATION_S
    if duration_s is not None and duration_s < 1:
        raise StudyError(
            f"{where} has a window of {duration_s:g} s", hint="pgbench runs whole seconds, 1 at least."
        )
    return Workload(
        name=table.name,
        builtin=table.builtin or (None if table.script else "tpcb-like"),
        scripts=_scripts(table.script, scripts),
        scale=table.scale,
        clients=table.clients,
        threads=table.threads,
        duration_s=duration_s,
        transactions=transactions,
        rate_tps=table.rate,
        protocol=table.protocol,
        warmup_s=overrides.warmup_s if overrides.warmup_s is not None else table.warmup,
        setup_sql=None if table.setup is None else text_of(table.setup, scripts, "setup"),
    )


def _statements(table: WorkloadTable, scripts: Path) -> Workload:
    """A workload of single statements, for which settings that shape a load have no meaning."""
    return Workload(
        name=table.name,
        builtin=None,
        scripts=(),
        scale=table.scale,
        clients=1,
        threads=1,
        duration_s=None,
        transactions=1,
        rate_tps=None,
        protocol="simple",
        warmup_s=0.0,
        setup_sql=None if table.setup is None else text_of(table.setup, scripts, "setup"),
        statements=tuple(
            Statement(statement.name, statement.sql, statement.setup, statement.explain)
            for statement in table.statement
        ),
    )


def _scripts(tables: Sequence[ScriptTable], folder: Path) -> tuple[Script, ...]:
    """Named after their files; where files of two folders have one name, as they were typed."""
    names = [Path(table.file).name for table in tables if table.file is not None]
    return tuple(
        _script(table, number, folder, names.count(Path(table.file or "").name) > 1)
        for number, table in enumerate(tables, 1)
    )


def _script(table: ScriptTable, number: int, scripts: Path, is_named_whole: bool) -> Script:
    if (table.file is None) == (table.sql is None):
        raise StudyError(f"script {number} needs exactly one of file and sql")
    if table.sql is not None:
        return Script(f"script {number}", table.sql, table.weight)
    assert table.file is not None
    name = table.file if is_named_whole else Path(table.file).name
    return Script(name, text_of(table.file, scripts, "script", must=True), table.weight)


def _require_short(names: Sequence[str], where: str) -> None:
    """Refuse names of statements that a store would have no room for. Raises StudyError."""
    for name in names:
        if len(name) > NAME_MOST:
            raise StudyError(
                f"a statement of {where} has a name of {len(name)} characters, expected {NAME_MOST} at most",
                detail=f"Metrics are named after it. Got: {name}",
                hint="Give it a shorter name.",
            )


def require_unique(noun: str, names: Sequence[str]) -> None:
    """Refuse two with the same name. Raises StudyError."""
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f'two of the {noun}s are called "{name}"', hint="Give each its own name.")
