"""What a study of loading says beyond settings: the table, its rows, and how each variant loads them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from walproof.errors import StudyError
from walproof.facts import Install, Load, LoadFeed, LoadMethod, LoadStep, Workload
from walproof.lab.studyfile import Count, StudyFile, StudyTable, VariantTable, Whole
from walproof.workload.loading.file_rows import header_of, rows_in
from walproof.workload.loading.steps import unavailable

_READ_BYTES = 1 << 20
_COPIES = ("copy", "copy rows", "copy binary")


class LoadTable(StudyTable):
    """``[load]``: each trial loads rows into a table."""

    table: str
    ddl: str
    """SQL, or the name of an SQL file beside the study."""
    ddl_as_superuser: bool = False
    """The DDL and the loads run as superuser, not as a role of their own."""
    rows: Count = 300_000
    quick_rows: Count = 20_000
    file: str | None = None
    filled: Annotated[Whole, Field(ge=0)] = 0
    replay: str | None = None
    crash: bool = False
    power_cut: Annotated[Whole, Field(ge=0, le=16)] = 0


class MethodTable(StudyTable):
    """``[variant.load]``: how a variant loads."""

    feed: LoadFeed = "copy"
    batch_rows: Count | None = None
    sessions: Annotated[Whole, Field(ge=1, le=64)] = 1
    steps: tuple[LoadStep, ...] = ()
    rows_most: Count | None = None


def check_load(study: StudyFile, table: LoadTable) -> None:
    """Refuse what has no meaning in a study of loading. Raises StudyError."""
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of loading has one workload, without scripts", detail="Its load is that of [load]."
        )
    if table.filled and table.file is not None:
        raise StudyError(
            "rows of a file cannot be loaded into a table that holds generated rows",
            detail="Their keys could collide.",
            hint="Let rows be generated, or leave the table empty.",
        )
    for variant in study.variant:
        _check_method(variant.name, method_table(variant))


def _check_method(name: str, method: MethodTable) -> None:
    steps, where = set(method.steps), f'variant "{name}"'
    if "freeze" in steps and "truncate" not in steps:
        raise StudyError(
            f'{where} has the step "freeze" without "truncate"',
            detail="COPY FREEZE needs a table that was created or truncated in the same transaction.",
        )
    if "truncate" in steps and (method.feed not in _COPIES or method.sessions > 1 or method.batch_rows):
        raise StudyError(
            f'{where} has the step "truncate", which needs one COPY in one transaction',
            detail=f"It has the feed {method.feed}, {method.sessions} sessions and "
            f"{'batches' if method.batch_rows else 'one batch'}.",
        )
    if method.feed == "adbc" and method.batch_rows:
        raise StudyError(f"{where}: adbc ingests all rows at once", hint="Leave out batch_rows.")


def method_table(variant: VariantTable | None) -> MethodTable:
    """How a variant loads, as it was typed."""
    typed = None if variant is None else variant.find(MethodTable)
    return typed or MethodTable()


def method_of(table: MethodTable) -> LoadMethod:
    """The method as it was typed, with the default batch of its feed."""
    batch_rows = table.batch_rows
    if batch_rows is None and table.feed in ("values", "unnest"):
        batch_rows = 1_000 if table.feed == "values" else 10_000
    return LoadMethod(table.feed, batch_rows, table.sessions, table.steps, table.rows_most)


def missing_for(method: LoadMethod, install: Install) -> str | None:
    """What keeps ``install`` or this machine from the method, whatever the table; None if nothing does."""
    return unavailable(method, install.version_num)


def load_of(table: LoadTable, quick: bool, scripts: Path) -> Load:
    """The plan's load. Raises StudyError when a file cannot be read, WorkloadError without rows."""
    ddl = table.ddl
    if ddl.endswith(".sql") and "\n" not in ddl:
        ddl = _read(scripts / ddl).decode("utf-8", "replace")
    file = None if table.file is None else scripts / table.file
    digest = None if file is None else digest_of(file)
    return Load(
        table=table.table,
        ddl=ddl,
        # All rows of a file are loaded, whatever the study says of rows.
        rows=(table.quick_rows if quick else table.rows) if file is None else rows_in(file),
        file=None if file is None else str(file.absolute()),
        file_digest=digest,
        replay=table.replay,
        crash=table.crash,
        filled=table.filled,
        ddl_as_superuser=table.ddl_as_superuser,
        power_cut=min(1, table.power_cut) if quick else table.power_cut,
        columns=() if file is None else tuple(header_of(file)),
    )


def load_workload(workload: Workload, study: StudyFile) -> Workload:
    """The load as a workload of one session, unless a variant says otherwise."""
    most = max((method_table(variant).sessions for variant in study.variant), default=1)
    return replace(workload, builtin=None, duration_s=None, transactions=1, clients=most, protocol="extended")


def digest_of(file: Path) -> str:
    """SHA-256 of a file's bytes. Raises StudyError."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while block := opened.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise StudyError(f'could not read file "{file}": {error.strerror}') from error
    return digest.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f'could not read file "{path}": {error.strerror}') from error
