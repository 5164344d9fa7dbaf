"""Archives whose every kind of record is cut by the edge of a segment, read by 1, 2 and 4 workers.

    PYTHONPATH=. python bench/hosts/edges.py [--pg 18] [--workers 1,2,4]

A server runs the load that makes every resource manager write, rare records and restarts included
(tests/wal/load.py, restarts.py). Of each kind of record the first is laid over an edge between two
segments (tests/wal/edges.py). What ``wal stats``, ``wal verify`` and ``wal whatif`` print of this archive has
to be the same from one machine and from a real Ray cluster of so many workers. Prints the kinds that the
load did not write; exit status 1 if an answer differs. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.command import environment
from tests.hosts.clusters import nodes
from tests.wal.edges import lay_over_edges
from tests.wal.load import run_load
from tests.wal.operations import operations_of
from tests.wal.restarts import change_settings, promote, switch_timeline
from tests.wal.server import Server
from walproof.postgres.install import find

SETTINGS = {"wal_level": "logical", "track_commit_timestamp": "on", "max_prepared_transactions": "10"}
COMMANDS = (
    *(("stats", "--by", by) for by in ("rmgr", "record", "relation", "minute")),
    ("verify",),
    ("whatif", "--set", "max_wal_size=8MB,wal_compression=lz4"),
)
_MOMENTS = {"started_at", "ended_at", "cpu_s"}
"""Keys that differ from one call to the next."""


def main() -> int:
    """Make the archive, and compare every answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="18")
    parser.add_argument("--workers", default="1,2,4")
    given = parser.parse_args()
    differing = 0
    with tempfile.TemporaryDirectory() as parent:
        source, archive, simulated = (Path(parent) / name for name in ("source", "wal", "simulated"))
        for folder in (source, archive, simulated):
            folder.mkdir()
        major = write(find(given.pg).bindir, source)
        edges = lay_over_edges(source, archive)
        # A range that begins within a switch is no range of a simulation: one machine would read it all.
        lay_over_edges(source, simulated, without="XLOG/SWITCH")
        print(f"{len(edges)} kinds of records, each cut by an edge; {len(list(archive.iterdir()))} segments")
        print(f"not written by the load: {', '.join(sorted(operations_of(major) - set(edges)))}")
        places = {words: simulated if words[0] == "whatif" else archive for words in COMMANDS}
        alone = {words: answer(place, words) for words, place in places.items()}
        for count in map(int, given.workers.split(",")):
            with nodes([f"host{number}" for number in range(count)]) as made:
                anyway = ("--insecure",) if os.geteuid() == 0 else ()
                for words, wanted in alone.items():
                    found = answer(places[words], (*words, "--ray", made.cluster.address, *anyway))
                    print(
                        f"{count} workers, wal {' '.join(words)}: {'equal' if found == wanted else 'DIFFERS'}"
                    )
                    differing += found != wanted
    return 1 if differing else 0


def write(bindir: str, folder: Path) -> int:
    """Copy the WAL of a server with segments of 1 MB that had all of the load; its major version."""
    with Server(Path(bindir), SETTINGS, segment_mb=1, checksums=True) as server:
        run_load(server, 200)
        change_settings(server)
        switch_timeline(server)
        promote(server)
        server.stop()
        for file in server.wal.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        return server.major


def answer(archive: Path, words: tuple[str, ...]) -> tuple[int, Any]:
    """Exit status and JSON of a command, without moments and times."""
    command = [sys.executable, "-m", "walproof", "wal", words[0], str(archive), *words[1:], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode == 2:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.returncode, json.loads(done.stdout, object_hook=_without_moments)


def _without_moments(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in _MOMENTS}


if __name__ == "__main__":
    sys.exit(main())
