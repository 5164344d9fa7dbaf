"""Where the machine that asks becomes the limit of an archive on a cluster, and what a task costs.

    PYTHONPATH=. python bench/hosts/driver.py simulated [--tasks N]   the code of the driver alone
    PYTHONPATH=. python bench/hosts/driver.py tasks [--tasks N]       Ray: N tasks that read nothing
    PYTHONPATH=. python bench/hosts/driver.py speed WAL [--rounds N]  against the plain command

``simulated``: an archive of as many segments is cut into ranges of one, which go through the tree of merges;
every task has ended when it is asked for, and the driver holds references alone. What is measured is its own
CPU time and memory.
``tasks``: a real cluster of two cores. Each task answers with as many bytes as a part of a range of WAL may
have, and so does a merge; the driver gets one of these answers at the end.
``speed``: ``wal stats --json`` of a folder of WAL, in rounds, in random order: the plain command with one
thread and two, and over clusters of one core and two. The clusters are up before; joining them counts.

A line for each measurement goes to --results as JSON, with date, machine and load. Rounds that have their
lines there are not repeated.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.cli.command import environment
from tests.hosts.clusters import nodes
from walproof.hosts.archive import Tree
from walproof.hosts.ranges import ArchiveFiles, RangeOutcome, SegmentRange, cut

RESULTS = Path(__file__).parent / "driver.jsonl"
SEGMENT = 16 << 20
PART_BYTES = 200_000


def main() -> None:
    """Measure, and keep a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["simulated", "tasks", "speed"])
    parser.add_argument("wal", type=Path, nargs="?")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.what == "simulated":
        keep(arguments.results, simulated(arguments.tasks))
    elif arguments.what == "tasks":
        keep(arguments.results, tasks(arguments.tasks))
    else:
        speed(arguments.wal.absolute(), arguments.rounds, arguments.results)


def keep(results: Path, found: dict[str, Any]) -> None:
    """Add a line."""
    model = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), "unknown",
    )  # fmt: skip
    found |= {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {model}", "load_1_min": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    with results.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(json.dumps(found), flush=True)


def ranges(count: int) -> Iterator[SegmentRange]:
    """Ranges of an archive whose segments have names as long as those in a store."""
    archive = ArchiveFiles(
        segments=tuple((f"s3://backups/main/wal_005/{number:024X}.zst",) for number in range(count)),
        starts=tuple(number * SEGMENT for number in range(count)),
        histories=(), segment_size=SEGMENT, timeline=1,
    )  # fmt: skip
    return cut(archive, count, None, None, None)


class Simulated:
    """What stands for Ray: every task has ended when it is asked for, and its answer is a number."""

    class exceptions:
        """The errors that Ray may raise."""

        RayError = RuntimeError

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        """Stands for ``ray.remote`` with options."""
        return lambda work: _Task(work)

    def wait(self, references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        """Say that the first task has ended."""
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        """Return the answer of a task."""
        return reference


class _Task:
    def __init__(self, work: Any) -> None:
        self.work = work

    def remote(self, *_: Any) -> object:
        return object()


def simulated(count: int) -> dict[str, Any]:
    """Measure the driver's code alone."""
    began, wall = time.process_time(), time.monotonic()
    listed = ranges(count)
    first = next(listed)
    listing_s = time.process_time() - began
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tree = Tree(Simulated(), 64, None, SEGMENT, count * SEGMENT)

    def all_of() -> Iterator[SegmentRange]:
        yield first
        yield from listed

    began = time.process_time()
    tree.all_of(all_of())
    return {
        "what": "simulated", "tasks": count, "listing_cpu_s": round(listing_s, 2),
        "tree_cpu_s": round(time.process_time() - began, 2), "wall_s": round(time.monotonic() - wall, 2),
        "listing_mb": before // 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def answer_of(_: SegmentRange) -> RangeOutcome:
    """An answer with as many bytes as a part has."""
    return RangeOutcome(os.urandom(PART_BYTES // 2), os.urandom(PART_BYTES // 2), True)


def merge_of(*outcomes: RangeOutcome) -> RangeOutcome:
    """A merge, whose size stays: sets of blocks are of bounded size."""
    return outcomes[0]


def tasks(count: int) -> dict[str, Any]:
    """Measure what a task costs Ray and the driver."""
    with nodes(("elm",)) as made:
        import ray

        made.cluster.add_node(wait=False, num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
        ray.init(address=made.cluster.address, log_to_driver=False, include_dashboard=False)
        try:
            tree = Tree(ray, 2, None, SEGMENT, count * SEGMENT, work=(answer_of, merge_of))
            empty = SegmentRange((), 64, None, None, None, False)
            tree.all_of(empty for _ in range(100))  # processes begin
            began, wall = time.process_time(), time.monotonic()
            tree = Tree(ray, 2, None, SEGMENT, count * SEGMENT, work=(answer_of, merge_of))
            tree.all_of(empty for _ in range(count))
            cpu, seconds = time.process_time() - began, time.monotonic() - wall
        finally:
            ray.shutdown()
    return {
        "what": "tasks", "tasks": count, "answer_bytes": PART_BYTES,
        "ms_per_task": round(seconds / count * 1e3, 3),
        "driver_cpu_ms_per_task": round(cpu / count * 1e3, 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def speed(wal: Path, rounds: int, results: Path) -> None:
    """Time the commands in turn."""
    lines = results.read_text().splitlines() if results.exists() else []
    done = [row for row in map(json.loads, lines) if row["what"] == "speed" and row["wal"] == wal.name]
    size = sum(file.stat().st_size for file in wal.iterdir())
    for cores in (1, 2):
        have = {row["round"] for row in done if row["cores"] == cores}
        missing = [number for number in range(1, rounds + 1) if number not in have]
        if not missing:
            continue
        with nodes(tuple(f"host{number}" for number in range(cores))) as made:
            anyway = ["--insecure"] if os.geteuid() == 0 else []
            ways = {
                "plain": ["--threads", str(cores)],
                "cluster": ["--ray", made.cluster.address, *anyway],
            }
            for way in ways.values():
                once(wal, way)  # warms up files and processes
            for number in missing:
                order = list(ways)
                random.Random(number).shuffle(order)
                seconds = {name: once(wal, ways[name]) for name in order}
                keep(results, {
                    "what": "speed", "wal": wal.name, "bytes": size, "cores": cores, "round": number,
                    **{f"{name}_s": round(spent, 3) for name, spent in seconds.items()},
                })  # fmt: skip
    found = [json.loads(line) for line in results.read_text().splitlines()]
    for cores in (1, 2):
        rows = [
            row for row in found if row["what"] == "speed" and (row["wal"], row["cores"]) == (wal.name, cores)
        ]
        ratios = [row["plain_s"] / row["cluster_s"] for row in rows]
        print(f"{cores} cores: {statistics.median(ratios):.2f}x of the plain command ({len(ratios)} rounds)")


def once(wal: Path, options: list[str]) -> float:
    """Seconds that one command takes."""
    command = [sys.executable, "-m", "walproof", "wal", "stats", str(wal), "--json", *options]
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    return time.monotonic() - began


if __name__ == "__main__":
    main()
