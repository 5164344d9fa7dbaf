"""``walproof pg list|install|remove``: the PostgreSQL installs that studies can use."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

import typer

from walproof.cli import options

app = typer.Typer(
    help="PostgreSQL installs: list, install, remove.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List what can be named with --pg; the first is the default."""
    from walproof.postgres.install import survey

    seen = survey()
    if json:
        rows = [{"version": one.version, "origin": one.origin, "bindir": one.bindir} for one in seen.installs]
        sys.stdout.write(json_module.dumps(rows, indent=2) + "\n")
        return
    for one in seen.installs:
        sys.stdout.write(f"{one.version:<8} {one.origin:<10} {one.bindir}\n")
    for folder, reason in seen.rejected:
        sys.stderr.write(f"left out: {folder}: {reason}\n")


@app.command("install")
def install(version: Annotated[str, typer.Argument(help="An exact version, such as 13.7.")]) -> None:
    """Fetch a version (server and contrib modules) with your own mvn or npm."""
    from walproof.postgres import fetch

    sys.stderr.write(f"fetching PostgreSQL {version}\n")
    installed = fetch.install(version)
    sys.stdout.write(f"{installed.version} {installed.bindir}\n")
    for name, value in fetch.read_origin(installed).items():
        sys.stderr.write(f"{name}: {value}\n")


@app.command("remove")
def remove(version: Annotated[str, typer.Argument(help="A version that was installed.")]) -> None:
    """Remove what "walproof pg install" fetched."""
    from walproof.postgres import fetch

    fetch.remove(version)
    sys.stdout.write(f"removed {version}\n")
