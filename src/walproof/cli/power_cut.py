"""``walproof power-cut replay``: a case again, and psql on the broken server."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options

app = typer.Typer(help="Look at what power cuts left.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look at what power cuts left."""


@app.command("replay")
def replay(
    case: Annotated[
        str, typer.Argument(metavar="CASE", help="Folder of a kept image, or TRIAL/IMAGE of --run.")
    ],
    run: Annotated[
        str, typer.Option("--run", metavar="RUN", help="Run that TRIAL/IMAGE is of. Default: the last.")
    ] = "last",
    psql: Annotated[
        bool, typer.Option("--psql/--no-psql", help="End with psql on the server, where there is a terminal.")
    ] = True,
    pg: options.OnePg = None,
    on: options.On = None,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
) -> None:
    """Start a server on a kept image, check it once more, and look around in psql.

    A case of a run that was not kept is made again: the same moment and the same choices, from its seeds.
    Exit status 1 when the verdict is another one than before.
    """
    from walproof.errors import ClusterError, DiskError
    from walproof.lab.replay import Replay

    work = options.memory_folder(on)
    folder = Path(case)
    if not folder.is_dir():
        if not re.fullmatch(r"\d+/\d+", case):
            raise DiskError(
                f'case "{case}" does not exist',
                detail="Expected a folder of a kept image, or the numbers of a trial and an image: 12/3.",
                hint='The report lists failing images under "Cases".',
            )
        again = _cut_again(case, run, work, out, store, pg)
        if again is None:
            raise typer.Exit(1)
        folder = again
    with Replay(folder, work, pg) as replayed:
        kept = replayed.case
        for name, value in (
            ("PostgreSQL", kept.install.label),
            (
                "cut at",
                f"{kept.cut.moment} ({kept.cut.pace} load, {kept.cut.acknowledged} commits acknowledged)",
            ),
            ("survived", kept.image.survival),
            ("settings", ", ".join(f"{key}={text}" for key, text in kept.settings.items())),
            ("verdict then", _verdict(kept.image.state.value, kept.image.reason)),
        ):
            sys.stdout.write(f"{name + ':':<14}{value}\n")
        now = replayed.judge()
        sys.stdout.write(f"{'verdict now:':<14}{_verdict(now.state.value, now.reason)}\n")
        if psql and sys.stdin.isatty():
            try:
                with replayed.server() as cluster:
                    sys.stderr.write("the server runs on a copy; it ends with psql\n")
                    replayed.run_psql(cluster)
            except ClusterError as error:
                sys.stdout.write(
                    f"\nThe server does not start, so there is no psql. Its log ends with:\n{error.detail}\n"
                )
    if now.state is not kept.image.state:
        raise typer.Exit(1)


def _verdict(state: str, reason: str | None) -> str:
    return state if reason is None else f"{state}: {reason}"


def _cut_again(
    case: str, run_name: str, work: Path, out: Path, store: str | None, pg: str | None
) -> Path | None:
    """Folder in which the image was kept; None when it did not fail this time."""
    from walproof.lab.replay import cut_again, find_image

    opened = options.open_existing_store(out, store)
    try:
        run = opened.run(run_name)
        trial, image = find_image(opened.trials(run.id), case)
    finally:
        opened.close()
    if image.kept is not None and Path(image.kept).is_dir():
        return Path(image.kept)
    sys.stderr.write(f"case {case} of run {run.id} was not kept: cutting again\n")
    again = cut_again(run.plan, trial, image, out / "kept", work, pg)
    if again.kept is None:
        sys.stdout.write(
            f"verdict then: {_verdict(image.state.value, image.reason)}\n"
            f"verdict now:  {_verdict(again.state.value, again.reason)}\n"
            "The load's timing is never quite the same; run it again, or keep failing images with "
            "--keep-failures.\n"
        )
        return None
    return Path(again.kept)
