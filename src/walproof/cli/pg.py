"""``walproof pg list|install|remove``: the PostgreSQL installs that studies can use."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options

if TYPE_CHECKING:
    from walproof.facts import Install

app = typer.Typer(
    help="PostgreSQL installs: list, install, remove.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(
    json: options.Json = False,
    available: Annotated[
        bool, typer.Option("--available", help="List what can be installed, according to your mvn or npm.")
    ] = False,
) -> None:
    """List what --pg can name; the first is the default. Also names newer minors with known fixes."""
    from walproof.postgres.install import survey
    from walproof.settings.fixes import looked_up

    if available:
        _list_available(json)
        return
    seen = survey()
    if json:
        sys.stdout.write(json_module.dumps([_row(install) for install in seen.installs], indent=2) + "\n")
        return
    for found in seen.installs:
        sys.stdout.write(f"{found.version:<8} {found.origin:<10} {found.bindir}\n")
        sys.stdout.writelines(f"  {line}\n" for line in _missing(found))
    sys.stderr.write(f"fixes of the write path known here on {looked_up()}; there may be more\n")
    for folder, reason in seen.rejected:
        sys.stderr.write(f"left out: {folder}: {reason}\n")


def _list_available(json: bool) -> None:
    """A line per major version, newest first; for machines a row per version."""
    from walproof.postgres.published import published

    seen = published()
    if json:
        rows = [{"version": version, "clients": list(by)} for version, by in seen.versions.items()]
        sys.stdout.write(json_module.dumps(rows, indent=2) + "\n")
    else:
        majors: dict[str, list[str]] = {}
        for version in seen.versions:
            majors.setdefault(version.partition(".")[0], []).append(version)
        for major, versions in majors.items():
            sys.stdout.write(f"{major:<4} {' '.join(versions)}\n")
    for failure in seen.failures:
        sys.stderr.write(f"left out: {failure}\n")


@app.command("install")
def install(
    version: Annotated[str, typer.Argument(help="A version (13.7), or a major version (17) for its newest.")],
    json: options.Json = False,
) -> None:
    """Fetch a version, with contrib modules, by your own mvn or npm."""
    from walproof.postgres import fetch

    sys.stderr.write(f"fetching PostgreSQL {version}\n")
    installed = fetch.install(version)
    origin = fetch.read_origin(installed)
    if json:
        # The version of what was fetched is the install's own.
        fetched = {name: value for name, value in origin.items() if name != "version"}
        sys.stdout.write(json_module.dumps({**_row(installed), "fetched": fetched or None}, indent=2) + "\n")
        return
    sys.stdout.write(f"{installed.version} {installed.bindir}\n")
    for name, value in origin.items():
        sys.stderr.write(f"{name}: {value}\n")
    sys.stderr.writelines(f"{line}\n" for line in _missing(installed))


@app.command("remove")
def remove(
    version: Annotated[
        str, typer.Argument(help="A version (17.10), or a major version (17) of which one is there.")
    ],
    json: options.Json = False,
) -> None:
    """Remove what "walproof pg install" fetched."""
    from walproof.postgres import fetch

    removed = fetch.remove(version)
    sys.stdout.write(json_module.dumps({"removed": removed}) + "\n" if json else f"removed {removed}\n")


def _missing(install: Install) -> tuple[str, ...]:
    """A sentence for each known fix that a newer minor has."""
    from walproof.settings.fixes import fixes_above

    return tuple(fix.sentence for fix in fixes_above(install.version))


def _row(install: Install) -> dict[str, object]:
    from walproof.settings.fixes import fixes_above

    fixes = [
        {"version": fix.version, "what": fix.what, "harm": fix.harm, "source": fix.source}
        for fix in fixes_above(install.version)
    ]
    return {
        "version": install.version,
        "origin": install.origin,
        "bindir": install.bindir,
        "missing_fixes": fixes,
    }
