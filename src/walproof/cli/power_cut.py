"""``walproof power-cut replay``: check a case again, with psql on the broken server."""

from __future__ import annotations

import json as json_module
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.server_user import say_server_user
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave

if TYPE_CHECKING:
    from walproof.facts import CheckedImage, CutFacts
    from walproof.lab.power_cut.again import ReopenedImage
    from walproof.lab.power_cut.verdict import ImageVerdict

app = typer.Typer(help="Look at what power cuts left.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look at what power cuts left."""


@dataclass(frozen=True, slots=True)
class _Again:
    """A case, with its verdict from the cut and its verdict now."""

    install: str
    settings: Mapping[str, str]
    cut: CutFacts
    image: CheckedImage
    now: ImageVerdict | CheckedImage
    """The verdict on the same image; a CheckedImage if it was cut again and did not fail this time."""

    @property
    def is_same(self) -> bool:
        return self.now.state is self.image.state

    def to_json(self) -> str:
        data = {
            "postgresql": self.install,
            "settings": dict(self.settings),
            "moment": self.cut.moment,
            "pace": self.cut.pace,
            "acknowledged": self.cut.acknowledged,
            "survival": self.image.survival,
            "kept": self.image.kept,
            "then": _verdict_data(self.image),
            "now": _verdict_data(self.now),
            "is_same": self.is_same,
        }
        return json_module.dumps(data, indent=2) + "\n"


@app.command("replay")
def replay(
    case: Annotated[
        str, typer.Argument(metavar="CASE", help="Folder of a kept image, or TRIAL/IMAGE of --run.")
    ],
    run: Annotated[
        str, typer.Option("--run", metavar="RUN", help="Run that TRIAL/IMAGE belongs to. Default: the last.")
    ] = "last",
    psql: Annotated[
        bool, typer.Option("--psql/--no-psql", help="End with psql on the server if there is a terminal.")
    ] = True,
    pg: Annotated[
        str | None,
        typer.Option(
            "--pg",
            metavar="DIR|VERSION",
            help="PostgreSQL to run, of the same version as then. Default: one found on this machine.",
        ),
    ] = None,
    as_stored: Annotated[
        bool,
        typer.Option(
            "--as-stored", help="Cut again with stored settings and SQL that could start programs, too."
        ),
    ] = False,
    on: options.On = None,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Start a server on a kept image, check it, look around in psql.

    A case whose image was not kept is made again from its seeds: the same moment and the same choices. Exit
    status 1 when the verdict differs from the one before. With --json there is no psql.
    """
    from walproof.errors import DiskError
    from walproof.files import is_folder
    from walproof.lab.power_cut.again import ReopenedImage

    say_server_user()
    work = options.memory_folder(on)
    folder: Path | _Again = Path(case)
    if not is_folder(Path(case)):
        if not re.fullmatch(r"\d+/\d+", case):
            raise DiskError(
                f'case "{case}" does not exist',
                detail="Expected a folder of a kept image, or the numbers of a trial and an image: 12/3.",
                hint='The report lists failing images under "Cases".',
            )
        folder = _cut_again(case, run, work, out, store, pg, as_stored=as_stored)
    if isinstance(folder, _Again):
        with reader_may_leave():
            sys.stdout.write(folder.to_json() if json else _passed_text(folder))
        if not folder.is_same:
            raise typer.Exit(ExitStatus.CHECK_FAILED)
        return
    with ReopenedImage(folder, work, pg) as replayed:
        kept = replayed.case
        if not json:
            with reader_may_leave():
                sys.stdout.write(_case_text(replayed))
        found = _Again(kept.install.label, kept.settings, kept.cut, kept.image, replayed.judge())
        with reader_may_leave():
            sys.stdout.write(found.to_json() if json else _line("verdict now", _verdict(found.now)))
        if psql and not json and sys.stdin.isatty():
            _look_around(replayed)
    if not found.is_same:
        raise typer.Exit(ExitStatus.CHECK_FAILED)


def _case_text(replayed: ReopenedImage) -> str:
    kept = replayed.case
    cut = kept.cut
    return (
        _line("PostgreSQL", kept.install.label)
        + _line("cut at", f"{cut.moment} ({cut.pace} load, {cut.acknowledged} commits acknowledged)")
        + _line("survived", kept.image.survival)
        + _line("settings", ", ".join(f"{key}={text}" for key, text in kept.settings.items()))
        + _line("verdict then", _verdict(kept.image))
    )


def _passed_text(again: _Again) -> str:
    text = _line("verdict then", _verdict(again.image)) + _line("verdict now", _verdict(again.now))
    if again.is_same:
        return text
    return text + (
        "The load's timing is never quite the same; run it again, or keep failing images with "
        "--keep-failures.\n"
    )


def _line(name: str, value: str) -> str:
    return f"{name + ':':<14}{value}\n"


def _verdict(found: ImageVerdict | CheckedImage) -> str:
    return found.state.value if found.reason is None else f"{found.state.value}: {found.reason}"


def _verdict_data(found: ImageVerdict | CheckedImage) -> dict[str, object]:
    """By the names of `CheckedImage`."""
    return {
        "state": found.state.value,
        "reason": found.reason,
        "torn_pages": found.torn_pages,
        "lost_commits": found.lost_commits,
        "loss_window_ms": found.loss_window_ms,
    }


def _look_around(replayed: ReopenedImage) -> None:
    from walproof.errors import ClusterError

    try:
        with replayed.server() as cluster:
            sys.stderr.write("the server runs on a copy; it ends with psql\n")
            replayed.run_psql(cluster)
    except ClusterError as error:
        sys.stdout.write(
            f"\nThe server does not start, so there is no psql. Its log ends with:\n{error.detail}\n"
        )


def _cut_again(
    case: str, run_name: str, work: Path, out: Path, store: str | None, pg: str | None, *, as_stored: bool
) -> Path | _Again:
    """Folder in which the image was kept; what was found, when it did not fail this time."""
    from walproof.errors import StoreError
    from walproof.lab.power_cut.again import cut_again, find_image, what_may_start

    opened = options.open_existing_store(out, store)
    try:
        run = opened.run(run_name)
        trial, image = find_image(opened.trials(run.id), case)
    finally:
        opened.close()
    # Whole paths are kept: any other would lead to what somebody has laid into the present folder.
    if image.kept is not None and Path(image.kept).is_absolute() and Path(image.kept).is_dir():
        return Path(image.kept)
    if not as_stored and (found := what_may_start(run.plan, trial)):
        raise StoreError(
            f"what the store says of case {case} could start programs when it is cut again",
            detail="\n".join(found),
            hint="If it is a study of yours, or of somebody whom you trust, add --as-stored.",
        )
    sys.stderr.write(f"case {case} of run {run.id} was not kept: cutting again\n")
    again = cut_again(run.plan, trial, image, out / "kept", work, pg)
    if again.kept is not None:
        return Path(again.kept)
    assert trial.cut is not None
    settings = run.plan.settings_of(run.plan.variant(trial.variant))
    return _Again(run.plan.install(trial.install).label, settings, trial.cut, image, again)
