"""``walproof show RUN``: the result of a run, or of a tuning, in the terminal."""

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
            help="Id of a run, its beginning, a study's name, last, or a tuning's name.",
            autocompletion=options.complete_stored,
        ),
    ],
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Show a stored run: tables, verdicts, and how sure they are."""
    from walproof.cli.stored import find_tuning, read_tuning, read_view
    from walproof.report.json import to_json
    from walproof.report.terminal import print_terminal

    if (folder := find_tuning(name, out)) is not None:
        from walproof.report.tune import json as tuning_json
        from walproof.report.tune.terminal import print_tuning

        tuned = read_tuning(folder, out, store)
        if json:
            sys.stdout.write(tuning_json.to_json(tuned))
        else:
            print_tuning(tuned, options.result_console())
        return
    view = read_view(name, out, store)
    if json:
        sys.stdout.write(to_json(view) + "\n")
    else:
        print_terminal(view, options.result_console())
