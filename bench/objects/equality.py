"""Whether archives in object stores are read as from a folder, on real servers of three kinds of store.

    PYTHONPATH=. python bench/objects/equality.py
    PYTHONPATH=. python bench/objects/equality.py --server azurite --programs ~/.cache/object-servers

The golden WAL of each version is laid as pgBackRest, WAL-G, Barman and a plain folder keep it, with a damaged
record, and read from the folder and from the store by ``wal stats``, ``wal verify`` and ``wal whatif``. What
``--json`` prints has to be the same, but for the place. Exit status 1 if one answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.objects.servers import SERVERS, Served
from tests.golden.unpack import unpack
from tests.wal.places.archive import laid_golden

LAYOUTS = (("pgBackRest", "lz4"), ("WAL-G", "br"), ("WAL-G", "zst"), ("Barman", "gz"), ("folder", ""))
WAL = {"pgBackRest": "/archive", "WAL-G": "/wal_005", "Barman": "/main/wals", "folder": ""}
COMMANDS = (
    (("stats", "--partial", "--by", "relation"), True),
    (("whatif", "--partial", "--set", "max_wal_size=128MB"), True),
    (("verify",), False),
)
"""(words of the command, whether it reads the WAL's folder and not the repository)"""
PROGRAM = "from walproof.cli import main; main()"


def answer(words: tuple[str, ...], root: str, environment: Mapping[str, str]) -> tuple[int, Any]:
    """Exit status and JSON of a command, without the place and times."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "wal", *words, "--json", root],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip

    def without(found: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in found.items() if key not in ("cpu_s", "started_at", "ended_at")}

    text = done.stdout.replace(root, "ROOT")
    try:
        return done.returncode, json.loads(text, object_hook=without)
    except json.JSONDecodeError:
        return done.returncode, done.stderr.replace(root, "ROOT")


def differences(here: Any, there: Any, at: str = "") -> list[str]:
    """Yield a line for each place at which two answers differ."""
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        return [line for key in here for line in differences(here[key], there[key], f"{at}.{key}")]
    if isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        pairs = enumerate(zip(here, there, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{at}[{index}]")]
    return [] if here == there else [f"    {at}: {here} from the folder, {there} from the store"]


def compare(
    served: Served, version: int, scratch: Path, layouts: Sequence[tuple[str, str]] = LAYOUTS
) -> tuple[int, int]:
    """Return (answers compared, answers that differ)."""
    golden = scratch / f"golden{version}"
    golden.mkdir()
    unpack(version, golden)
    compared = differing = 0
    for layout, ending in layouts:
        folder = scratch / f"{version}-{layout}-{ending or 'plain'}"
        folder.mkdir()
        laid = laid_golden(golden, layout, ending, folder)
        prefix = folder.name
        served.upload(laid.root, prefix)
        for words, of_wal in COMMANDS:
            below = WAL[layout] if of_wal else ""
            here = answer(words, f"{laid.root}{below}", {})
            there = answer(words, f"{served.url(prefix)}{below}", served.environment)
            compared += 1
            if here != there:
                differing += 1
                print(f"  {prefix}: wal {' '.join(words)} differs", flush=True)
                print("\n".join(differences(here, there))[:2000], flush=True)
    return compared, differing


def main() -> None:
    """Print a line for each server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=list(SERVERS), action="append")
    parser.add_argument("--programs", type=Path, default=Path.home() / ".cache" / "walproof-object-servers")
    parser.add_argument("--version", type=int, action="append", help="of the golden WAL; default 13, 18, 19")
    arguments = parser.parse_args()
    arguments.programs.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in arguments.server or SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            with SERVERS[name](arguments.programs, scratch / "objects") as served:
                found = [compare(served, version, scratch) for version in arguments.version or (13, 18, 19)]
        compared, differing = (sum(numbers) for numbers in zip(*found, strict=True))
        failed = failed or differing > 0 or compared == 0
        print(f"{name:16} {compared:3} answers, {differing} differ", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
