"""``walproof disk``: the flush rate of a folder's device, and the ceiling it sets."""

from __future__ import annotations

import json as json_module
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options

if TYPE_CHECKING:
    from walproof.disk.flush import FlushRate


def disk(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder on the device. Default: where studies run.")
    ] = None,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=60, help="Seconds for each test.")] = 2,
    pg: Annotated[
        str | None, typer.Option("--pg", metavar="DIR|VERSION", help="Whose pg_test_fsync.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure how fast a folder's device flushes. For each wal_sync_method, with pg_test_fsync."""
    from walproof.disk.flush import DEFAULT_METHOD, DIRECT_METHODS, METHODS, PASSES, measure_flush
    from walproof.errors import DiskError, InstallError
    from walproof.files import is_folder
    from walproof.postgres.cache import cache_folder
    from walproof.postgres.install import discover, find
    from walproof.probe.environment import observe_environment

    installs = [find(pg)] if pg is not None else discover()
    programs = [Path(install.bindir) / "pg_test_fsync" for install in installs]
    program = next((program for program in programs if os.access(program, os.X_OK)), None)
    if program is None:
        raise InstallError(
            "no pg_test_fsync found",
            detail=f"Looked in {', '.join(install.bindir for install in installs)}.",
            hint="Installs fetched with 'walproof pg install' have none; --pg embedded does.",
        )
    if folder is None:
        folder = cache_folder("work")
    if not is_folder(folder):
        raise DiskError(f'folder "{folder}" does not exist')
    sys.stderr.write(f"pg_test_fsync in {folder}, about {PASSES * METHODS * seconds} s\n")
    rates = measure_flush(program, folder, seconds)
    facts = observe_environment(folder)
    device = {key: facts[key] for key in facts if key.startswith(("filesystem", "disk"))}
    if json:
        rows = [
            {
                "method": rate.method, "flushes_per_s": rate.flushes_per_s, "flush_us": rate.flush_us,
                "flushes_per_s_least": rate.least_per_s, "flushes_per_s_most": rate.most_per_s,
                "is_direct": rate.method in DIRECT_METHODS, "lacks_direct": rate.lacks_direct,
            }
            for rate in rates
        ]  # fmt: skip
        sys.stdout.write(
            json_module.dumps({"folder": str(folder), "device": device, "rates": rows}, indent=2) + "\n"
        )
        return
    sys.stdout.write(f"How fast does the device under {folder} make an 8 kB write durable?\n")
    for key, value in device.items():
        sys.stdout.write(f"  {key}: {value}\n")
    sys.stdout.write(
        f"\n{'wal_sync_method':<20}{'flushes/s':>12}{f'of {PASSES} passes':>17}{'us/flush':>10}\n"
    )
    for rate in rates:
        absent = "n/a*" if rate.lacks_direct else "n/a"
        per_s = absent if rate.flushes_per_s is None else f"{rate.flushes_per_s:,.0f}"
        each = absent if rate.flush_us is None else f"{rate.flush_us:,.0f}"
        mark = "  (default on Linux)" if rate.method == DEFAULT_METHOD else ""
        sys.stdout.write(f"{rate.method:<20}{per_s:>12}{_range(rate):>17}{each:>10}{mark}\n")
    sys.stdout.write(f"\n{_DIRECT}\n")
    if any(rate.lacks_direct for rate in rates):
        sys.stdout.write("n/a*: this file system has no direct I/O, so that was not measured.\n")
    default = next((rate for rate in rates if rate.method == DEFAULT_METHOD), rates[0])
    if default.flushes_per_s is not None:
        sys.stdout.write(
            "\nCeiling: one client cannot commit faster than the device flushes, "
            f"{_range(default)} commits/s with {default.method}.\n"
            "Transactions that wait for each other's row locks share that ceiling; others share flushes.\n"
            f"On another machine, --device flush={1000 / default.flushes_per_s:.3g}ms makes studies flush as "
            "slowly.\n"
        )


def _range(rate: FlushRate) -> str:
    if rate.least_per_s is None or rate.most_per_s is None:
        return ""
    return f"{rate.least_per_s:,.0f} to {rate.most_per_s:,.0f}"


_DIRECT = """\
open_datasync and open_sync were measured with direct I/O. A server uses these
methods without it, and may be slower or faster with them, unless it has
wal_level = minimal (13 to 15) or debug_io_direct = wal (16 and newer)."""
