"""The gate's options, and what a command does with its outcome: files for a forge, and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from walproof.cli.declaration import Override, Repeated
from walproof.cli.status import ExitStatus

if TYPE_CHECKING:
    from walproof.facts import Promise
    from walproof.report.layout import ReportView


class Undecided(StrEnum):
    """What an undecided gate counts as."""

    fail = "fail"
    ok = "ok"


def read_promises(texts: Sequence[str]) -> tuple[Promise, ...]:
    """Those of ``--fail-if``. Raises StudyError."""
    from walproof.facts.gate import parse_promises

    return parse_promises(texts)


FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", metavar="PROMISE",
        help='A gate: exit with 10 when a ratio is proven to be this bad: "tps < 0.97x". May be repeated. '
        "Measures until it is decided, 10 minutes at most (--budget).",
    ),
    Override("fail_if", read_promises),
]  # fmt: skip
UndecidedOption = Annotated[
    Undecided,
    typer.Option("--undecided", help="Exit status of a gate that cannot decide in time: fail (11), ok (0)."),
    Repeated.NEVER,
]
Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit", metavar="FILE", help="Write the gate as JUnit XML, a test case for each promise."
    ),
    Repeated.NEVER,
]
Summary = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        help='Append the gate as Markdown to a file: --summary "$GITHUB_STEP_SUMMARY".',
    ),
    Repeated.NEVER,
]


class GateOptions(Protocol):
    """The options of every command that decides a gate."""

    @property
    def fail_if(self) -> list[str] | None:
        """The promises, as typed."""

    @property
    def undecided(self) -> Undecided:
        """What an undecided gate counts as."""

    @property
    def junit(self) -> Path | None:
        """File of the JUnit XML."""

    @property
    def summary(self) -> Path | None:
        """File that the summary is appended to."""


def check(given: GateOptions) -> None:
    """Refuse before the first trial what could only fail after the last, and warn of what nothing but a gain
    keeps. Raises StudyError, ReportError; DiskError for a place that may not be looked at."""
    from walproof.errors import StudyError

    for flag, path in (("--junit", given.junit), ("--summary", given.summary)):
        if path is None:
            continue
        if not given.fail_if:
            raise StudyError(
                f"{flag} is for a gate, and there is none",
                hint='Say what must not happen: --fail-if "tps < 0.97x".',
            )
        _require_writable(flag, path)
    if given.undecided is Undecided.ok and not given.fail_if:
        raise StudyError(
            "--undecided is for a gate, and there is none",
            hint='Say what must not happen: --fail-if "tps < 0.97x".',
        )
    for promise in read_promises(given.fail_if or []):
        if promise.is_broken_by_no_change:
            sys.stderr.write(
                f'warning: an unchanged configuration breaks "{promise.text}": its ratio is 1x\n'
            )


def _require_writable(flag: str, path: Path) -> None:
    from walproof.errors import ReportError
    from walproof.files import is_folder, is_there

    folder = path.absolute().parent
    if is_folder(path) or not is_folder(folder):
        what = "is a folder" if is_folder(path) else "lies in a folder that does not exist"
        raise ReportError(f'{flag} "{path}" {what}', hint="Name a file in an existing folder.")
    if not os.access(path if is_there(path) else folder, os.W_OK):
        raise ReportError(f'{flag} "{path}" may not be written', hint="Name a file that this user may write.")


def conclude(view: ReportView | None, given: GateOptions) -> None:
    """Write the gate's files and leave with its status; nothing without a gate.

    Raises typer.Exit, ReportError; AnalysisError for a gate that could not be measured.
    """
    if view is None or view.gate is None:
        return
    from walproof.advise.gate import not_measured
    from walproof.analysis.gate import Outcome
    from walproof.errors import ReportError
    from walproof.report.gate import headline, summary
    from walproof.report.junit import to_junit

    is_ok = given.undecided is Undecided.ok
    unwritten = []
    for path, text, mode in (
        (given.junit, to_junit(view, undecided_ok=is_ok), "w"),
        (given.summary, summary(view), "a"),
    ):
        if path is not None and (reason := _write(path, text, mode)) is not None:
            unwritten.append(f'could not write "{path}": {reason}')
    if unwritten:
        # What was measured is known all the same.
        raise ReportError("; ".join(unwritten), detail=f"{headline(view.gate)}.")
    # What could not be measured says nothing of the promise, so no option lets it pass.
    if (error := not_measured(view.run.plan, view.gate, view.trials)) is not None:
        raise error
    match view.gate.outcome:
        case Outcome.BROKEN:
            raise typer.Exit(ExitStatus.BROKEN)
        case Outcome.UNDECIDED if not is_ok:
            raise typer.Exit(ExitStatus.UNDECIDED)


def _write(path: Path, text: str, mode: str) -> str | None:
    """With the mode of the user's umask: a forge reads these files, and no result is kept in them.

    Returns why it could not be written.
    """
    try:
        with path.open(mode, encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        return error.strerror or str(error)
    return None
