"""``walproof studies [NAME]``: the built-in studies, or the text of one."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

import typer

from walproof.cli import options


def studies(
    name: Annotated[
        str | None,
        typer.Argument(help="Print this study's TOML.", autocompletion=options.complete_study),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the built-in studies, or print one to start from."""
    from walproof.lab.study import built_in_names, read_study

    if name is not None:
        study, text, _ = read_study(name)
        sys.stdout.write(study.model_dump_json(indent=2) + "\n" if json else text)
        return
    rows = [(study.name, study.title) for study, _, _ in map(read_study, built_in_names())]
    if json:
        sys.stdout.write(json_module.dumps([{"name": n, "title": t} for n, t in rows], indent=2) + "\n")
        return
    width = max(len(row[0]) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row[0]:<{width}}  {row[1]}\n")
