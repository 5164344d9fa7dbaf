"""Trying a drafted load: each script alone on a throw-away server, beside what the application did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli.workload_said import drafted, short
from walproof.errors import InstallError, StoreError, StudyError, WalproofError

if TYPE_CHECKING:
    from walproof.advise.workload.draft import Draft, DraftOrder
    from walproof.facts import Install
    from walproof.facts.application import Application, AppStatement
    from walproof.facts.drafted import DraftedLoad
    from walproof.facts.tried import TriedLoad

_DRAFTS_MOST = 5
"""A statement that fails hides those after it in its script."""


def write(made: Draft, to: Path, before: Draft | None = None) -> None:
    """Write the files, in place of those of the draft before. Raises StoreError."""
    from walproof.files import private_folder, write_whole

    try:
        private_folder(to)
        for name in set() if before is None else set(before.files) - set(made.files):
            (to / name).unlink(missing_ok=True)
        for name, text in made.files.items():
            write_whole(to / name, text)
    except OSError as error:
        raise StoreError(
            f'could not write the load to "{to}": {error.strerror}', hint="Name another folder with --to."
        ) from error


def keep(load: DraftedLoad, to: Path) -> None:
    """Write the facts of the load beside its files. Raises StoreError."""
    from walproof.facts.codec import to_json
    from walproof.facts.drafted import FILE
    from walproof.files import write_whole

    try:
        write_whole(to / FILE, to_json(load) + "\n")
    except OSError as error:
        raise StoreError(f'could not write "{to / FILE}": {error.strerror}') from error


def draft_that_runs(found: Application, order: DraftOrder, made: Draft, to: Path) -> DraftedLoad:
    """Try the draft, and draft again without the statements that fail. What cannot be tried is said so."""
    from walproof.advise.workload.draft import draft
    from walproof.advise.workload.likeness import failures, with_try
    from walproof.cli.majors import install_like

    major = found.version_num // 10000
    install = install_like(found.version_num)
    if install is None:
        return replace(drafted(found, made, to), not_tried=f"PostgreSQL {major} is not on this machine.")
    refused: dict[AppStatement, str] = {}
    for left in reversed(range(_DRAFTS_MOST)):
        try:
            tried = _try(to / f"{made.name}.toml", install)
        except WalproofError as error:
            return replace(drafted(found, made, to), not_tried=_reason(error))
        failed = _statements(made, failures(tried))
        again = draft(found, order, refused | failed) if failed and left else None
        if again is None or not again.scripts:
            return with_try(drafted(found, made, to), tried)
        for row, why in failed.items():
            sys.stderr.write(f"left out, {why}: {short(row.query)}\n")
        refused |= failed
        write(again, to, made)
        made = again
    raise AssertionError("the last draft is tried and returned")


def _statements(made: Draft, failed: Mapping[tuple[str, int], str]) -> dict[AppStatement, str]:
    return {
        made.scripts[name].members[place].statement: f"it fails when it is tried: {why}"
        for (name, place), why in failed.items()
    }


def _reason(error: WalproofError) -> str:
    return error.message if error.detail is None else f"{error.message} ({error.detail.splitlines()[0]})"


def try_again(file: Path) -> DraftedLoad:
    """Try the load of a file as it is now, beside what its draft knows of the application.

    Raises StudyError, StoreError or InstallError, and whatever keeps the machine from running it.
    """
    from walproof.advise.workload.likeness import with_try
    from walproof.cli.majors import install_like
    from walproof.facts.codec import from_json
    from walproof.facts.drafted import FILE, FORMAT, DraftedLoad

    path = file.parent / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read "{path}"',
            detail=getattr(error, "strerror", None) or str(error),
            hint='"walproof workload" writes it beside the load, and it says what the application does.',
        ) from error
    load = from_json(DraftedLoad, text)
    if load.format != FORMAT:
        raise StoreError(f'"{path}" has format {load.format}, expected {FORMAT}')
    install = install_like(10000 * int(load.pg)) if load.pg.isdigit() else None
    if install is None:
        raise InstallError(
            f"PostgreSQL {load.pg}, which the application's server is, is not on this machine",
            hint=f'"walproof pg install {load.pg}" fetches it.',
        )
    load = with_try(
        replace(load, file=str(file), conf=str(file.parent / Path(load.conf).name)), _try(file, install)
    )
    keep(load, file.parent)
    return load


def _try(file: Path, install: Install) -> TriedLoad:
    from walproof.cli import options
    from walproof.cli.workload_progress import TryProgress
    from walproof.lab.load_file import read_load
    from walproof.lab.try_load import plan_of, try_load

    tables, scripts = read_load(str(file))
    plan = plan_of(tables, scripts, install, options.work_folder(None))
    return try_load(plan, TryProgress())
