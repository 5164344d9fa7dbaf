"""``walproof show RUN``: a run's result in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from walproof.cli import options


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Id of a run, its beginning, a study's name, or last.",
            autocompletion=options.complete_run,
        ),
    ],
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Show a stored run: tables, verdicts, and how sure they are."""
    from walproof.cli.stored import read_view
    from walproof.report.json import to_json
    from walproof.report.terminal import print_terminal

    view = read_view(name, out, store)
    if json:
        sys.stdout.write(to_json(view) + "\n")
    else:
        print_terminal(view, options.result_console())
