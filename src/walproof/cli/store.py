"""``walproof store``: care for a store as a whole."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import asdict

import typer

from walproof.cli import options

app = typer.Typer(help="Look after the store of facts.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look after the store of facts."""


@app.command("upgrade")
def upgrade(
    out: options.Out = options.DEFAULT_OUT, store: options.StoreUrl = None, json: options.Json = False
) -> None:
    """Bring a store of an earlier walproof to today's form. The old store is kept."""
    from walproof.errors import StoreError
    from walproof.facts.upgrade import upgrade_store
    from walproof.files import is_there
    from walproof.sentences import say_count

    path = out / "walproof.sqlite"
    if store is None and not is_there(path):
        raise StoreError(f'folder "{out}" holds no results', hint="--out names another folder.")
    done = upgrade_store(store if store is not None else path)
    if json:
        sys.stdout.write(json_module.dumps(asdict(done), indent=2) + "\n")
    elif done.runs or done.kept:
        runs = say_count(done.runs, "run")
        sys.stdout.write(f"{done.store}: {runs} upgraded; kept as it was: {done.kept}\n")
    else:
        sys.stdout.write(f"{done.store}: has today's form already\n")
