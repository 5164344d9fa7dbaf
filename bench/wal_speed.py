"""How fast WAL is read: walproof against pg_waldump --stats, and against what the machine allows.

    python bench/wal_speed.py [--rounds N] [--keep DIR] [--versions 16,18] [--before SOURCE]

Makes two kinds of WAL, about 1 GB each, with every install at hand that has a pg_waldump: ``images``
(pgbench with a checkpoint every 32 MB: nearly all bytes are full-page images) and ``records`` (one INSERT of
5 million rows: small records only). Then, in rounds, in random order and on warm files:
``pg_waldump --stats``, walproof on one core (which also totals per relation, fork and minute, and counts
distinct blocks), walproof on two. What is compared is CPU time, and wall time between one core and two; both
sides check every checksum. ``read`` and ``checksum`` are the limits: the same files only read, and read and
checksummed in pieces of 256 KB.

SOURCE is the ``src`` of another tree with its native module, say of an older commit: it counts the same WAL
on one core in the same rounds, and must find as many records. Both have to be release builds, as in a wheel
(an editable install is not): put the module of each wheel into its ``src/walproof``.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.wal.server import BINDIRS, Server
from walproof._native import wal_stats

SEGMENT = 16 * 1024 * 1024
ROOT = Path(__file__).parent.parent


def main() -> None:
    """Print a table for each kind of WAL and version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--keep", type=Path, help="make the WAL here, or find it here")
    parser.add_argument("--versions", help="of these alone, with commas between; default: all at hand")
    parser.add_argument("--before", type=Path, metavar="SOURCE", help="src of a tree to compare with")
    arguments = parser.parse_args()
    counters: dict[str, Callable[..., Any]] = {"one core": wal_stats, "two cores": wal_stats}
    if arguments.before:
        counters["before"] = counter_of(arguments.before)
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="walproof-wal-speed-"))
    try:
        for version, bindir in BINDIRS.items():
            chosen = arguments.versions is None or version in arguments.versions.split(",")
            if not chosen or not (bindir / "pg_waldump").exists():
                continue
            for kind in ("images", "records"):
                wal = folder / f"{version}-{kind}"
                if not wal.exists():
                    make(wal, bindir, kind)
                measure(wal, bindir, version, kind, arguments.rounds, counters)
    finally:
        if arguments.keep is None:
            shutil.rmtree(folder)


def make(wal: Path, bindir: Path, kind: str) -> None:
    """WAL of one kind, in whole segments."""
    settings = {
        "wal_level": "replica", "track_commit_timestamp": "off", "shared_buffers": "512MB",
        "wal_keep_size": "10GB", "max_wal_size": "64MB" if kind == "images" else "100GB",
    }  # fmt: skip
    pgbench = next(at / "pgbench" for at in (bindir, *BINDIRS.values()) if (at / "pgbench").exists())
    with Server(bindir, settings) as server:
        load = [str(pgbench), "-h", str(server.folder), "-U", "postgres", "-d", "postgres"]
        if kind == "images":
            subprocess.run([*load, "-i", "-q", "-s", "20"], check=True, capture_output=True)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id bigserial PRIMARY KEY, v int)")
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pg_switch_wal()")
        start = server.insert_lsn()
        if kind == "images":
            subprocess.run([*load, "-n", "-N", "-c4", "-t25000"], check=True, capture_output=True)
        else:
            with server.connect() as connection:
                connection.execute("INSERT INTO t (v) SELECT i FROM generate_series(1, 5000000) i")
        with server.connect() as connection:
            connection.execute("SELECT pg_switch_wal()")
        wal.mkdir(parents=True)
        for number in range(start // SEGMENT, server.insert_lsn() // SEGMENT):
            name = f"00000001{number // 256:08X}{number % 256:08X}"
            shutil.copy(server.wal / name, wal / name)


def counter_of(source: Path) -> Callable[..., Any]:
    """``wal_stats`` of the native module in that folder of sources."""
    (path,) = (source / "walproof").glob("_native*.so")
    spec = importlib.util.spec_from_file_location("walproof._native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = module.wal_stats
    return found


def measure(
    wal: Path,
    bindir: Path,
    version: str,
    kind: str,
    rounds: int,
    counters: dict[str, Callable[..., Any]],
) -> None:
    """Run interleaved rounds; print medians with the lowest and highest."""
    names = sorted(file.name for file in wal.iterdir())
    cpu: dict[str, list[float]] = {name: [] for name in ("pg_waldump", *counters)}
    wall: dict[str, list[float]] = {name: [] for name in cpu}
    command = [str(bindir / "pg_waldump"), "--stats", "-p", str(wal), names[0], names[-1]]
    order = list(cpu)
    dice = random.Random(1)
    totals = own_stats(wal, 1, wal_stats)
    for number in range(-1, rounds):  # the first round warms up
        dice.shuffle(order)
        for name in order:
            began = time.monotonic()
            if name == "pg_waldump":
                spent = cpu_of_children(command)
            else:
                before = time.process_time()
                found = own_stats(wal, 2 if name == "two cores" else 1, counters[name])
                spent = time.process_time() - before
                assert found == totals, (name, found, totals)
            if number >= 0:
                cpu[name].append(spent)
                wall[name].append(time.monotonic() - began)
    size, records = totals
    print(
        f"\n{kind}, PostgreSQL {version}: {size / 1e6:.0f} MB, {records / 1e6:.2f} M records, {rounds} rounds"
    )
    for name, times in cpu.items():
        middle = statistics.median(times)
        print(
            f"  {name:<11} CPU {middle:.3f} s ({min(times):.3f}-{max(times):.3f})"
            f"  {size / middle / 1e9:5.2f} GB/s  {records / middle / 1e6:5.1f} M records/s"
        )
    for name, _, seconds in limits(wal):
        print(f"  {name:<11} CPU {seconds:.3f} s                {size / seconds / 1e9:5.2f} GB/s")
    print_ratio("one core against pg_waldump, CPU", cpu["pg_waldump"], cpu["one core"])
    print_ratio("two cores against one, wall time", wall["one core"], wall["two cores"])
    if "before" in cpu:
        print_ratio("one core against before, CPU", cpu["before"], cpu["one core"])
    sys.stdout.flush()


def print_ratio(what: str, slow: list[float], fast: list[float]) -> None:
    """Median of the ratios within rounds, with the lowest and highest."""
    ratios = [before / after for before, after in zip(slow, fast, strict=True)]
    print(f"  {what}: {statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})")


def own_stats(wal: Path, threads: int, count: Callable[..., Any]) -> tuple[int, int]:
    """Return (LSN distance, records)."""
    stats = count([str(wal)], None, None, None, allow_gaps=False, partial=False, threads=threads)
    return stats["end"] - stats["start"], sum(columns[0] for _, columns in stats["rmgrs"])


def cpu_of_children(command: list[str]) -> float:
    """Run a command; return its seconds of CPU, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, capture_output=True)  # ends with an error at the end of the WAL
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def limits(wal: Path) -> list[tuple[str, int, float]]:
    """Return (name, bytes, seconds of CPU) of crates/walproof-wal/examples/limits.rs."""
    command = [
        "cargo",
        "run",
        "--quiet",
        "--release",
        "--locked",
        "-p",
        "walproof-wal",
        "--example",
        "limits",
    ]
    said = subprocess.run([*command, "--", str(wal)], cwd=ROOT, check=True, capture_output=True, text=True)
    rows = (line.split() for line in said.stdout.splitlines())
    return [(name, int(size), float(seconds)) for name, size, seconds in rows]


if __name__ == "__main__":
    main()
